//! What a message says: its content, its type, and the client's own id for it.

use std::{fmt, sync::Arc};

use minicbor::{Decode, Encode, decode, encode};
use sha2::{Digest, Sha256};

use crate::{Text, limits};

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidContent {
    #[error("must not be empty")]
    Empty,
    #[error("must have at most {} bytes", limits::TEXT_BYTES_MAX)]
    TooLong,
    #[error("content_type must have 1 to {} printable ASCII characters", limits::CONTENT_TYPE_BYTES_MAX)]
    ContentType,
    #[error("must have 1 to {} characters, none of them a control character", limits::CLIENT_ID_CHARS_MAX)]
    ClientId,
    #[error("must have 1 to {} characters of a-z 0-9 _ . -", limits::MESSAGE_TYPE_CHARS_MAX)]
    MessageType,
    #[error("must have 1 to {} bytes and no white space or control characters", limits::EMOJI_BYTES_MAX)]
    Emoji,
}

/// Text, or bytes that only the clients understand (end-to-end encrypted). Dunlin never needs to read it.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Content {
    #[n(0)]
    Text(#[n(0)] Text),
    #[n(1)]
    Opaque {
        #[n(0)]
        content_type: Text,
        #[cbor(n(1), with = "shared_bytes")]
        bytes: Arc<[u8]>,
    },
}

impl Content {
    pub fn text(text: &str) -> Result<Content, InvalidContent> {
        match text.len() {
            0 => Err(InvalidContent::Empty),
            len if len > limits::TEXT_BYTES_MAX => Err(InvalidContent::TooLong),
            _ => Ok(Content::Text(text.into())),
        }
    }

    pub fn opaque(content_type: &str, bytes: &[u8]) -> Result<Content, InvalidContent> {
        let printable = content_type.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if content_type.is_empty() || content_type.len() > limits::CONTENT_TYPE_BYTES_MAX || !printable {
            return Err(InvalidContent::ContentType);
        }
        match bytes.len() {
            0 => Err(InvalidContent::Empty),
            len if len > limits::OPAQUE_BYTES_MAX => Err(InvalidContent::TooLong),
            _ => Ok(Content::Opaque { content_type: content_type.into(), bytes: bytes.into() }),
        }
    }

    pub fn bytes_len(&self) -> usize {
        match self {
            Content::Text(text) => text.len(),
            Content::Opaque { content_type, bytes } => content_type.len() + bytes.len(),
        }
    }

    /// The beginning of a text for lists; none for what can't be read.
    pub fn preview(&self) -> Option<Text> {
        let Content::Text(text) = self else { return None };
        match text.char_indices().nth(limits::PREVIEW_CHARS_MAX) {
            None => Some(text.clone()),
            Some((end, _)) => Some(text[..end].into()),
        }
    }
}

/// Tells whether a retry brings the same message as the first try.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(transparent)]
pub struct ContentHash(#[cbor(n(0), with = "minicbor::bytes")] [u8; 16]);

impl ContentHash {
    pub fn of(encoded: &[u8]) -> ContentHash {
        ContentHash(*Sha256::digest(encoded).first_chunk().expect("SHA-256 has 32 bytes"))
    }

    pub(crate) fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

macro_rules! short_text {
    ($(#[$doc:meta])* $name:ident, $invalid:expr, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn parse(text: &str) -> Result<$name, InvalidContent> {
                let valid: fn(&str) -> bool = $valid;
                if !text.is_empty() && valid(text) { Ok($name(text.into())) } else { Err($invalid) }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<C> Encode<C> for $name {
            fn encode<W: encode::Write>(&self, e: &mut minicbor::Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
                e.str(&self.0)?.ok()
            }
        }

        impl<'b, C> Decode<'b, C> for $name {
            fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<$name, decode::Error> {
                $name::parse(d.str()?).map_err(|invalid| decode::Error::message(invalid.to_string()))
            }
        }
    };
}

short_text!(
    /// The sender's own id for a message: the same one sent again is the same message.
    ClientId,
    InvalidContent::ClientId,
    |text| text.chars().count() <= limits::CLIENT_ID_CHARS_MAX && !text.chars().any(char::is_control)
);

short_text!(
    /// What sort of message it is: `text`, `system`, `robot`, a marketplace's `asq`, `bid`, …, or an application's own.
    MessageType,
    InvalidContent::MessageType,
    |text| text.len() <= limits::MESSAGE_TYPE_CHARS_MAX
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte))
);

short_text!(
    /// A reaction's symbol. Any short text: which ones to offer is the application's choice.
    Emoji,
    InvalidContent::Emoji,
    |text| text.len() <= limits::EMOJI_BYTES_MAX && !text.chars().any(|c| c.is_control() || c.is_whitespace())
);

impl MessageType {
    pub const TEXT: &str = "text";
    /// Written by the application itself; has no sender.
    pub const SYSTEM: &str = "system";
    /// Written by a user id that the configuration names as a robot.
    pub const ROBOT: &str = "robot";

    pub fn text() -> MessageType {
        MessageType(MessageType::TEXT.into())
    }

    pub fn robot() -> MessageType {
        MessageType(MessageType::ROBOT.into())
    }

    pub fn system() -> MessageType {
        MessageType(MessageType::SYSTEM.into())
    }
}

/// Bytes behind an `Arc`, as a CBOR byte string.
mod shared_bytes {
    use std::sync::Arc;

    use minicbor::{Decoder, Encoder, decode::Error, encode::Write};

    pub fn encode<C, W: Write>(bytes: &Arc<[u8]>, e: &mut Encoder<W>, _: &mut C) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(bytes)?.ok()
    }

    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Arc<[u8]>, Error> {
        Ok(d.bytes()?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_has_140_characters_whatever_their_bytes() {
        let long = Content::text(&"é".repeat(200)).unwrap();
        assert_eq!(long.preview().unwrap().chars().count(), 140);
        assert_eq!(Content::text("short").unwrap().preview().as_deref(), Some("short"));
        assert_eq!(Content::opaque("application/x", b"secret").unwrap().preview(), None);
    }

    #[test]
    fn content_keeps_to_its_limits() {
        assert_eq!(Content::text(""), Err(InvalidContent::Empty));
        assert!(Content::text(&"x".repeat(limits::TEXT_BYTES_MAX)).is_ok());
        assert_eq!(Content::text(&"x".repeat(limits::TEXT_BYTES_MAX + 1)), Err(InvalidContent::TooLong));
        assert_eq!(Content::opaque("", b"x"), Err(InvalidContent::ContentType));
        assert_eq!(Content::opaque("a\nb", b"x"), Err(InvalidContent::ContentType));
        assert_eq!(Emoji::parse("a b"), Err(InvalidContent::Emoji));
        assert!(Emoji::parse("👩‍👩‍👧").is_ok());
        assert_eq!(ClientId::parse(&"é".repeat(65)), Err(InvalidContent::ClientId));
        assert!(ClientId::parse(&"é".repeat(64)).is_ok());
        assert_eq!(MessageType::parse("Text"), Err(InvalidContent::MessageType));
    }
}
