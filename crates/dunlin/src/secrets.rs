//! The shared secret that users' tokens are signed with, and server keys: made here, and never shown again.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use data_encoding::{BASE32_NOPAD, HEXLOWER};
use dunlin_model::{Millis, Name, Scope, SecretHash, ServerKey, ServerKeyId};
use dunlin_ports::{Directory, IdGen};
use tracing::warn;

const SECRET_FILE: &str = "token.secret";
const SECRET_BYTES_MIN: usize = 32;

/// Where the shared secret is, if the configuration does not say.
pub fn secret_path(configured: &Path, data: &Path) -> PathBuf {
    if configured.as_os_str().is_empty() { data.join(SECRET_FILE) } else { configured.to_path_buf() }
}

pub fn read_secret(path: &Path) -> Result<Vec<u8>> {
    let text = fs::read_to_string(path).with_context(|| format!("failed to read the shared secret {}", path.display()))?;
    let secret = text.trim().as_bytes().to_vec();
    ensure!(secret.len() >= SECRET_BYTES_MIN, "the shared secret in {} must have at least {SECRET_BYTES_MIN} bytes", path.display());
    if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        warn!(path = %path.display(), "the shared secret can be read by other users of this machine; chmod 600 it");
    }
    Ok(secret)
}

/// Makes a secret where there is none.
pub fn make_secret(path: &Path, ids: &dyn IdGen) -> Result<()> {
    let secret = HEXLOWER.encode(&[ids.bits128(), ids.bits128()].concat());
    let parent = path.parent().unwrap_or(Path::new("."));
    // Whole or not at all, also after a crash.
    let mut file = tempfile::Builder::new().prefix(".token").permissions(fs::Permissions::from_mode(0o600)).tempfile_in(parent)?;
    writeln!(file, "{secret}")?;
    file.as_file().sync_all()?;
    file.persist(path).with_context(|| format!("failed to write {}", path.display()))?;
    fs::File::open(parent)?.sync_all()?;
    Ok(())
}

/// Makes a server key; gives the key as it is to be sent, which is kept nowhere.
pub async fn make_key(
    directory: &dyn Directory,
    ids: &dyn IdGen,
    name: Name,
    scopes: impl IntoIterator<Item = Scope>,
    now: Millis,
) -> Result<(ServerKey, String)> {
    let short = |bits: &[u8]| BASE32_NOPAD.encode(bits).to_ascii_lowercase();
    let id = ServerKeyId::parse(&short(&ids.bits128()[..5]))?;
    let secret = short(&[ids.bits128(), ids.bits128()].concat());
    let shown = format!("dk_{id}_{secret}");
    let key = ServerKey {
        id,
        name,
        scopes: scopes.into_iter().collect(),
        secret_hash: SecretHash::of(&secret),
        created_at: now,
        revoked_at: None,
    };
    directory.create_server_key(&key).await.context("failed to store the server key")?;
    Ok((key, shown))
}

#[cfg(test)]
mod tests {
    use dunlin_embedded::RandomIds;

    use super::*;

    #[test]
    fn a_secret_is_made_once_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = secret_path(Path::new(""), dir.path());
        make_secret(&path, &RandomIds).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_secret(&path).unwrap().len(), 64);
        fs::write(&path, "too short").unwrap();
        assert!(read_secret(&path).unwrap_err().to_string().contains("at least 32 bytes"));
    }
}
