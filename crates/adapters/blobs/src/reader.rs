//! A blob on its way to a reader.

use async_trait::async_trait;
use bytes::Bytes;
use dunlin_ports::{BLOB_CHUNK_BYTES_MAX, Chunks, StoreError};
use futures::{StreamExt as _, stream::BoxStream};

use crate::error;

/// The driver asks again where an answer breaks off, but only for the same bytes: it compares ETags.
pub struct Reader {
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    /// What came in and was not given yet.
    rest: Bytes,
    /// How much the server has promised and not sent.
    missing: u64,
}

impl Reader {
    pub fn new(stream: BoxStream<'static, object_store::Result<Bytes>>, bytes: u64) -> Reader {
        Reader { stream, rest: Bytes::new(), missing: bytes }
    }

    pub fn empty() -> Reader {
        Reader::new(futures::stream::empty().boxed(), 0)
    }
}

#[async_trait]
impl Chunks for Reader {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        while self.rest.is_empty() {
            match self.stream.next().await {
                None if self.missing == 0 => return Ok(None),
                None => return Err(StoreError::Unavailable(format!("S3: the answer ended {} bytes early", self.missing))),
                Some(Err(error)) => return Err(error::unavailable(&error)),
                Some(Ok(bytes)) => {
                    self.missing = self.missing.saturating_sub(bytes.len() as u64);
                    self.rest = bytes;
                }
            }
        }
        Ok(Some(self.rest.split_to(self.rest.len().min(BLOB_CHUNK_BYTES_MAX))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_that_ends_early_is_no_blob() {
        let stream = futures::stream::iter([Ok(Bytes::from_static(b"half"))]).boxed();
        let mut reader = Reader::new(stream, 8);
        assert_eq!(reader.next().await.unwrap(), Some(Bytes::from_static(b"half")));
        assert!(matches!(reader.next().await, Err(StoreError::Unavailable(_))));
    }
}
