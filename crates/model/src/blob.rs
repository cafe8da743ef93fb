//! What bytes outside of messages are kept under.

use std::{fmt, sync::Arc};

use data_encoding::BASE32_NOPAD;

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must have {} to {} characters of a-z 0-9", BlobKey::CHARS_MIN, BlobKey::CHARS_MAX)]
pub struct InvalidBlobKey;

/// A blob, by a key that nobody guesses. Its alphabet is safe in a path, in a URL, and on file systems that ignore case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlobKey(Arc<str>);

impl BlobKey {
    pub const CHARS_MIN: usize = 16;
    pub const CHARS_MAX: usize = 64;

    pub fn parse(text: &str) -> Result<BlobKey, InvalidBlobKey> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if text.len() < BlobKey::CHARS_MIN || text.len() > BlobKey::CHARS_MAX || !text.bytes().all(allowed) {
            return Err(InvalidBlobKey);
        }
        Ok(BlobKey(text.into()))
    }

    /// A fresh key of 128 random bits from the caller.
    pub fn random(random: [u8; 16]) -> BlobKey {
        BlobKey(BASE32_NOPAD.encode(&random).to_ascii_lowercase().into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_can_not_leave_its_folder() {
        for wrong in ["", "short", "../../../../etc/passwd", "aaaaaaaaaaaaaaa/", "aaaaaaaaaaaaaaa.", "AAAAAAAAAAAAAAAA", &"a".repeat(65)] {
            assert_eq!(BlobKey::parse(wrong), Err(InvalidBlobKey), "{wrong}");
        }
    }

    #[test]
    fn a_random_key_reads_back() {
        let key = BlobKey::random(*b"0123456789abcdef");
        assert_eq!(key.as_str(), "gaytemzugu3doobzmfrggzdfmy");
        assert_eq!(BlobKey::parse(key.as_str()), Ok(key));
    }
}
