//! A blob on its way into the store: cut into parts, and sent part after part. No more than one part is in memory.

use bytes::Bytes;
use dunlin_ports::{Chunks, StoreError};
use object_store::{MultipartUpload, ObjectStoreExt as _, PutPayload, aws::AmazonS3, path::Path};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use tracing::warn;

use crate::error;

/// The smallest that S3 takes but for the last one. What is smaller altogether needs no parts.
pub const PART_BYTES: usize = 5 * 1024 * 1024;
const PARTS_MAX: u64 = 10_000;
/// S3 takes no more parts.
pub const BLOB_BYTES_MAX: u64 = PARTS_MAX * PART_BYTES as u64;

/// Cuts what a source gives into parts.
pub struct Parts<'a> {
    source: &'a mut dyn Chunks,
    bytes_max: u64,
    rest: Bytes,
    taken: Content,
}

pub enum Part {
    /// Of `PART_BYTES`; another one follows, which may be empty.
    Full(Bytes),
    Last(Bytes),
    TooLarge,
}

/// What tells one blob from another.
#[derive(Clone, Default)]
pub struct Content {
    pub bytes: u64,
    pub digest: Sha256,
}

impl Content {
    pub fn add(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        self.digest.update(chunk);
    }

    pub fn is(self, other: Content) -> bool {
        self.bytes == other.bytes && self.digest.finalize() == other.digest.finalize()
    }
}

impl Parts<'_> {
    pub fn of(source: &mut dyn Chunks, bytes_max: u64) -> Parts<'_> {
        Parts { source, bytes_max: bytes_max.min(BLOB_BYTES_MAX), rest: Bytes::new(), taken: Content::default() }
    }

    pub async fn next(&mut self) -> Result<Part, StoreError> {
        // Copied: a small chunk may keep a large buffer alive.
        let mut part = Vec::new();
        loop {
            let room = PART_BYTES - part.len();
            part.extend_from_slice(&self.rest.split_to(room.min(self.rest.len())));
            if part.len() == PART_BYTES {
                return Ok(Part::Full(part.into()));
            }
            let Some(chunk) = self.source.next().await? else { return Ok(Part::Last(part.into())) };
            self.taken.add(&chunk);
            if self.taken.bytes > self.bytes_max {
                return Ok(Part::TooLarge);
            }
            self.rest = chunk;
        }
    }

    /// What the parts so far hold, and what is left of the last chunk.
    pub fn content(self) -> Content {
        self.taken
    }
}

/// An upload in parts that nobody sees. It is aborted when it is dropped, so whatever ends this early leaves nothing behind. What a crash
/// leaves is for a rule of the bucket.
pub struct Unfinished {
    path: Path,
    upload: Option<Box<dyn MultipartUpload>>,
}

impl Unfinished {
    pub async fn begin(s3: &AmazonS3, path: &Path) -> Result<Unfinished, StoreError> {
        let upload = s3.put_multipart(path).await.map_err(|error| error::unavailable(&error))?;
        Ok(Unfinished { path: path.clone(), upload: Some(upload) })
    }

    pub async fn add(&mut self, part: Bytes) -> Result<(), StoreError> {
        let sent = self.upload().put_part(PutPayload::from_bytes(part)).await;
        sent.map_err(|error| error::unavailable(&error))
    }

    /// Gives the blob its name, unless something has it.
    pub async fn complete(mut self) -> object_store::Result<()> {
        self.upload().complete().await?;
        self.upload = None;
        Ok(())
    }

    fn upload(&mut self) -> &mut dyn MultipartUpload {
        &mut **self.upload.as_mut().expect("it goes only when this does")
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let (Some(mut upload), path) = (self.upload.take(), self.path.clone()) else { return };
        // Without a runtime the process is about to end.
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            match upload.abort().await {
                // It is gone: it was completed, though nobody heard of it.
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => warn!(%path, error = error::reason(&error), "failed to abort an upload; a rule of the bucket must remove it"),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    struct Source(Vec<usize>);

    #[async_trait]
    impl Chunks for Source {
        async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
            Ok(self.0.pop().map(|size| vec![7; size].into()))
        }
    }

    async fn cut(sizes: &[usize], bytes_max: u64) -> Vec<Option<usize>> {
        let mut source = Source(sizes.iter().rev().copied().collect());
        let mut parts = Parts::of(&mut source, bytes_max);
        let mut cut = Vec::new();
        loop {
            match parts.next().await.unwrap() {
                Part::Full(part) => cut.push(Some(part.len())),
                Part::Last(part) => {
                    cut.push(Some(part.len()));
                    return cut;
                }
                Part::TooLarge => {
                    cut.push(None);
                    return cut;
                }
            }
        }
    }

    #[tokio::test]
    async fn all_parts_but_the_last_have_one_size() {
        assert_eq!(cut(&[], u64::MAX).await, [Some(0)]);
        assert_eq!(cut(&[3, 0, 4], u64::MAX).await, [Some(7)]);
        assert_eq!(cut(&[PART_BYTES], u64::MAX).await, [Some(PART_BYTES), Some(0)]);
        assert_eq!(cut(&[1, 2 * PART_BYTES, 5], u64::MAX).await, [Some(PART_BYTES), Some(PART_BYTES), Some(6)]);
        assert_eq!(cut(&[PART_BYTES, 1], PART_BYTES as u64).await, [Some(PART_BYTES), None]);
        assert_eq!(cut(&[8], 7).await, [None]);
    }
}
