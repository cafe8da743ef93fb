//! Blobs as files in a folder: `<first character>/<second>/<key>`. A blob is written to `tmp/`, synced, and then given its name.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use dunlin_model::BlobKey;
use dunlin_ports::{BLOB_CHUNK_BYTES_MAX, Blob, BlobStore, ByteRange, Chunks, Put, StoreError};
use tempfile::NamedTempFile;
use tracing::info;

use crate::error::{self, Attempt};

/// How much of a source is gathered before it is written: a trip to another thread for each small chunk would cost more than the write.
const GATHER_BYTES: usize = 256 * 1024;

#[derive(Clone)]
pub struct Blobs {
    folder: Arc<Folder>,
}

impl Blobs {
    /// Opens the folder, or makes it in one that exists, and removes what a crash has left unfinished. Blocks; meant for start-up.
    pub fn open(root: &Path) -> Result<Blobs, StoreError> {
        let folder = Folder::open(root).map_err(|error| error::io(root, Attempt::Clean, &error))?;
        Ok(Blobs { folder: Arc::new(folder) })
    }

    /// Runs blocking work on another thread.
    async fn blocking<T: Send + 'static>(
        &self,
        key: &BlobKey,
        attempt: Attempt,
        work: impl FnOnce(&Folder, &BlobKey) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (folder, its_key) = (Arc::clone(&self.folder), key.clone());
        let done = tokio::task::spawn_blocking(move || work(&folder, &its_key)).await;
        done.map_err(|error| error::task(attempt, &error))?.map_err(|error| error::io(&self.folder.path(key), attempt, &error))
    }
}

#[async_trait]
impl BlobStore for Blobs {
    async fn put(&self, key: &BlobKey, source: &mut dyn Chunks, bytes_max: u64) -> Result<Put, StoreError> {
        // It removes itself when it is dropped, so whatever ends this early leaves nothing behind.
        let mut unfinished = self.blocking(key, Attempt::Clean, |folder, _| NamedTempFile::new_in(&folder.unfinished)).await?;
        let mut gathered = Vec::new();
        let mut bytes = 0;
        while let Some(chunk) = source.next().await? {
            bytes += chunk.len() as u64;
            if bytes > bytes_max {
                return Ok(Put::TooLarge);
            }
            gathered.extend_from_slice(&chunk);
            if gathered.len() >= GATHER_BYTES {
                let full = std::mem::take(&mut gathered);
                unfinished = self.blocking(key, Attempt::Clean, move |_, _| written(unfinished, &full)).await?;
            }
        }
        let complete = self.blocking(key, Attempt::Clean, move |_, _| synced(written(unfinished, &gathered)?)).await?;
        match self.blocking(key, Attempt::Doubtful, |folder, key| folder.name(complete, key)).await? {
            Named::Stored => Ok(Put::Stored { bytes }),
            Named::OtherBytes => Err(StoreError::Conflict(format!("blob {key} has other bytes"))),
        }
    }

    async fn head(&self, key: &BlobKey) -> Result<Option<u64>, StoreError> {
        self.blocking(key, Attempt::Clean, |folder, key| unless_missing(fs::metadata(folder.path(key)).map(|file| file.len()))).await
    }

    async fn get(&self, key: &BlobKey, range: ByteRange) -> Result<Option<Blob>, StoreError> {
        let open = |folder: &Folder, key: &BlobKey| {
            let Some(file) = unless_missing(File::open(folder.path(key)))? else { return Ok(None) };
            let bytes = file.metadata()?.len();
            Ok(Some((file, bytes)))
        };
        let Some((file, bytes)) = self.blocking(key, Attempt::Clean, open).await? else { return Ok(None) };
        let to = range.from.saturating_add(range.bytes_max).min(bytes);
        let chunks = Reader { blobs: self.clone(), key: key.clone(), file: Arc::new(file), at: range.from, to };
        Ok(Some(Blob { bytes, chunks: Box::new(chunks) }))
    }

    async fn delete(&self, key: &BlobKey) -> Result<(), StoreError> {
        self.blocking(key, Attempt::Doubtful, Folder::delete).await
    }
}

/// Reads an open file, so it gets to the end even if the blob is deleted meanwhile.
struct Reader {
    blobs: Blobs,
    key: BlobKey,
    file: Arc<File>,
    at: u64,
    to: u64,
}

#[async_trait]
impl Chunks for Reader {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.at >= self.to {
            return Ok(None);
        }
        let size = usize::try_from(self.to - self.at).unwrap_or(usize::MAX).min(BLOB_CHUNK_BYTES_MAX);
        let (file, at) = (Arc::clone(&self.file), self.at);
        let read = move |_: &Folder, _: &BlobKey| {
            let mut bytes = vec![0; size];
            file.read_exact_at(&mut bytes, at)?;
            Ok(Bytes::from(bytes))
        };
        let chunk = self.blobs.blocking(&self.key, Attempt::Clean, read).await?;
        self.at += chunk.len() as u64;
        Ok(Some(chunk))
    }
}

/// The blocking half.
struct Folder {
    root: PathBuf,
    unfinished: PathBuf,
    /// Folders of blobs that are known to survive a loss of power.
    synced: Mutex<HashSet<PathBuf>>,
}

enum Named {
    Stored,
    OtherBytes,
}

impl Folder {
    fn open(root: &Path) -> io::Result<Folder> {
        let unfinished = root.join("tmp");
        fs::create_dir_all(&unfinished)?;
        let mut removed = 0;
        for entry in fs::read_dir(&unfinished)? {
            fs::remove_file(entry?.path())?;
            removed += 1;
        }
        if removed > 0 {
            info!(removed, folder = %root.display(), "removed uploads that a stop had left unfinished");
        }
        sync_folder(root)?;
        if let Some(parent) = root.parent() {
            sync_folder(parent)?;
        }
        Ok(Folder { root: root.into(), unfinished, synced: Mutex::default() })
    }

    /// Keys have at least 16 characters of an alphabet of single bytes, none of which means anything in a path.
    fn path(&self, key: &BlobKey) -> PathBuf {
        let key = key.as_str();
        self.root.join(&key[..1]).join(&key[1..2]).join(key)
    }

    fn name(&self, complete: NamedTempFile, key: &BlobKey) -> io::Result<Named> {
        let path = self.path(key);
        let leaf = self.leaf(&path)?;
        match complete.persist_noclobber(&path) {
            Ok(_) => {}
            Err(taken) if taken.error.kind() == io::ErrorKind::AlreadyExists => {
                if !same_bytes(taken.file.path(), &path)? {
                    return Ok(Named::OtherBytes);
                }
            }
            Err(failed) => return Err(failed.error),
        }
        // Also for a blob that was there: whoever put it may not have come this far yet.
        sync_folder(&leaf)?;
        Ok(Named::Stored)
    }

    fn delete(&self, key: &BlobKey) -> io::Result<()> {
        let path = self.path(key);
        unless_missing(fs::remove_file(&path))?;
        // Also if it was gone: whoever removed it may not have come this far yet.
        unless_missing(sync_folder(parent(&path)))?;
        Ok(())
    }

    /// The folder of a blob, made if it was missing, itself sure to survive a loss of power.
    fn leaf(&self, path: &Path) -> io::Result<PathBuf> {
        let leaf = parent(path);
        let known = || self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if !known().contains(leaf) {
            fs::create_dir_all(leaf)?;
            sync_folder(parent(leaf))?;
            sync_folder(&self.root)?;
            known().insert(leaf.into());
        }
        Ok(leaf.into())
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().expect("every path here lies below the root")
}

fn written(mut unfinished: NamedTempFile, bytes: &[u8]) -> io::Result<NamedTempFile> {
    unfinished.write_all(bytes)?;
    Ok(unfinished)
}

fn synced(complete: NamedTempFile) -> io::Result<NamedTempFile> {
    complete.as_file().sync_all()?;
    Ok(complete)
}

fn unless_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// What a folder lists is durable only once the folder itself was synced.
fn sync_folder(folder: &Path) -> io::Result<()> {
    // A relative path of one part lies in the folder "", which is this one.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

fn same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let mut rest = one.metadata()?.len();
    if rest != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; GATHER_BYTES], vec![0; GATHER_BYTES]);
    while rest > 0 {
        let size = usize::try_from(rest).unwrap_or(usize::MAX).min(GATHER_BYTES);
        one.read_exact(&mut left[..size])?;
        other.read_exact(&mut right[..size])?;
        if left[..size] != right[..size] {
            return Ok(false);
        }
        rest -= size as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use dunlin_contract::ids;
    use tempfile::TempDir;

    use super::*;

    fn blobs() -> (TempDir, Blobs) {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        (folder, blobs)
    }

    fn unfinished(blobs: &Blobs) -> usize {
        fs::read_dir(&blobs.folder.unfinished).unwrap().count()
    }

    struct Once(Option<Bytes>);

    #[async_trait]
    impl Chunks for Once {
        async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
            Ok(self.0.take())
        }
    }

    /// Gives something, then never anything again.
    struct Stuck(Option<Bytes>);

    #[async_trait]
    impl Chunks for Stuck {
        async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
            match self.0.take() {
                Some(chunk) => Ok(Some(chunk)),
                None => std::future::pending().await,
            }
        }
    }

    async fn put(blobs: &Blobs, key: &BlobKey, content: &'static [u8]) -> Result<Put, StoreError> {
        blobs.put(key, &mut Once(Some(Bytes::from_static(content))), 1_000).await
    }

    #[tokio::test]
    async fn what_a_crash_left_unfinished_is_removed_at_the_next_start_and_blobs_stay() {
        let (folder, blobs) = blobs();
        let key = ids::blob_key();
        put(&blobs, &key, b"kept").await.unwrap();
        fs::write(folder.path().join("tmp/.tmpAbCdEf"), "half a blo").unwrap();
        drop(blobs);

        let blobs = Blobs::open(folder.path()).unwrap();
        assert_eq!(unfinished(&blobs), 0);
        assert_eq!(blobs.head(&key).await.unwrap(), Some(4));
    }

    #[tokio::test]
    async fn a_put_leaves_nothing_unfinished_however_it_ends() {
        let (_folder, blobs) = blobs();
        let key = ids::blob_key();
        put(&blobs, &key, b"first").await.unwrap();
        put(&blobs, &key, b"first").await.unwrap();
        put(&blobs, &key, b"other").await.unwrap_err();
        let mut large = Once(Some(Bytes::from(vec![0; 2 * GATHER_BYTES])));
        assert_eq!(blobs.put(&ids::blob_key(), &mut large, 1_000).await.unwrap(), Put::TooLarge);
        let mut stuck = Stuck(Some(Bytes::from(vec![0; 2 * GATHER_BYTES])));
        let given_up = tokio::time::timeout(std::time::Duration::from_millis(100), blobs.put(&ids::blob_key(), &mut stuck, u64::MAX)).await;
        assert!(given_up.is_err());
        assert_eq!(unfinished(&blobs), 0);
    }

    #[tokio::test]
    async fn a_file_that_was_cut_short_is_corrupt_and_named() {
        let (_folder, blobs) = blobs();
        let key = ids::blob_key();
        put(&blobs, &key, b"0123456789").await.unwrap();
        let mut blob = blobs.get(&key, ByteRange::ALL).await.unwrap().unwrap();
        let path = blobs.folder.path(&key);
        File::options().write(true).open(&path).unwrap().set_len(5).unwrap();
        let Err(StoreError::Corrupt(why)) = blob.chunks.next().await else { panic!("corrupt") };
        assert!(why.contains(path.to_str().unwrap()), "{why}");
    }

    #[tokio::test]
    async fn a_reader_gets_to_the_end_of_a_blob_that_is_deleted_meanwhile() {
        let (_folder, blobs) = blobs();
        let key = ids::blob_key();
        put(&blobs, &key, b"0123456789").await.unwrap();
        let mut blob = blobs.get(&key, ByteRange::ALL).await.unwrap().unwrap();
        blobs.delete(&key).await.unwrap();
        assert_eq!(blob.chunks.next().await.unwrap(), Some(Bytes::from_static(b"0123456789")));
    }
}
