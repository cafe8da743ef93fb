//! Blobs as objects of a bucket: `<prefix>/<key>`.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use dunlin_model::BlobKey;
use dunlin_ports::{Blob, BlobStore, ByteRange, Chunks, Put, StoreError};
use object_store::{
    BackoffConfig, Error, GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut},
    path::Path,
};

use crate::{
    InvalidOptions, Options, StartError, error,
    http::{Http, Sent},
    probe,
    reader::Reader,
    upload::{BLOB_BYTES_MAX, Content, Part, Parts, Unfinished},
};

/// The first pause before a request is made again, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A write that meets another one is refused before that one can be read. So often it is looked what came of it, with these pauses.
const LOOKS_MAX: usize = 5;
const LOOK_AGAIN: Duration = Duration::from_millis(200);

#[derive(Clone)]
pub struct Blobs {
    s3: AmazonS3,
    folder: Path,
}

impl Blobs {
    /// Makes sure that the bucket is there, lets us write, and keeps what it has.
    pub async fn open(options: &Options) -> Result<Blobs, StartError> {
        let blobs = Blobs::new(options)?;
        probe::check(&blobs.s3, &blobs.folder, options).await?;
        Ok(blobs)
    }

    fn new(options: &Options) -> Result<Blobs, StartError> {
        options.check()?;
        if options.secret.is_empty() {
            return Err(InvalidOptions::Secret.into());
        }
        let retry = RetryConfig {
            backoff: BackoffConfig { init_backoff: PAUSE, max_backoff: PAUSE_MAX, base: 2. },
            max_retries: options.retries_max,
            retry_timeout: options.retry_for,
        };
        let s3 = AmazonS3Builder::new()
            .with_endpoint(&options.endpoint)
            .with_allow_http(options.allow_http)
            .with_bucket_name(&options.bucket)
            .with_region(&options.region)
            .with_access_key_id(&options.access_key_id)
            .with_secret_access_key(&options.secret)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_disable_bulk_delete(true)
            .with_retry(retry)
            .with_http_connector(Http::new(options).map_err(|error| StartError::Tls(error.to_string()))?)
            .build()
            .map_err(|error| StartError::Other { endpoint: options.endpoint.clone(), why: error::reason(&error) })?;
        Ok(Blobs { s3, folder: options.folder()? })
    }

    fn path(&self, key: &BlobKey) -> Path {
        self.folder.clone().join(key.as_str())
    }

    async fn put_whole(&self, key: &BlobKey, whole: Bytes, content: Content) -> Result<Put, StoreError> {
        let sent = Sent::default();
        let options = PutOptions { mode: PutMode::Create, extensions: sent.extensions(), ..PutOptions::default() };
        match self.s3.put_opts(&self.path(key), PutPayload::from_bytes(whole), options).await {
            Ok(_) => Ok(Put::Stored { bytes: content.bytes }),
            Err(error) if sent.is_certain_not() => Err(error::unavailable(&error)),
            Err(error) => self.settle(key, content, &error).await,
        }
    }

    async fn put_parts(&self, key: &BlobKey, first: Bytes, mut parts: Parts<'_>) -> Result<Put, StoreError> {
        let mut upload = Unfinished::begin(&self.s3, &self.path(key)).await?;
        upload.add(first).await?;
        loop {
            match parts.next().await? {
                Part::TooLarge => return Ok(Put::TooLarge),
                Part::Full(part) => upload.add(part).await?,
                Part::Last(part) if part.is_empty() => break,
                Part::Last(part) => {
                    upload.add(part).await?;
                    break;
                }
            }
        }
        let content = parts.content();
        match upload.complete().await {
            Ok(()) => Ok(Put::Stored { bytes: content.bytes }),
            Err(error) => self.settle(key, content, &error).await,
        }
    }

    /// What became of a write that was refused or not answered: it shows in what is there now.
    async fn settle(&self, key: &BlobKey, content: Content, error: &Error) -> Result<Put, StoreError> {
        let bytes = content.bytes;
        for _ in 0..LOOKS_MAX {
            match self.holds(key, content.clone()).await {
                Ok(Some(true)) => return Ok(Put::Stored { bytes }),
                Ok(Some(false)) => return Err(StoreError::Conflict(format!("blob {key} has other bytes"))),
                Ok(None) if error::is_taken(error) => tokio::time::sleep(LOOK_AGAIN).await,
                Ok(None) | Err(_) => return Err(error::doubtful(error)),
            }
        }
        Err(StoreError::Unavailable(format!("blob {key} was just being written or deleted by someone else")))
    }

    /// Whether a key holds these bytes; none if it holds nothing.
    async fn holds(&self, key: &BlobKey, content: Content) -> Result<Option<bool>, StoreError> {
        let Some(mut blob) = self.get(key, ByteRange::ALL).await? else { return Ok(None) };
        if blob.bytes != content.bytes {
            return Ok(Some(false));
        }
        let mut found = Content::default();
        while let Some(chunk) = blob.chunks.next().await? {
            found.add(&chunk);
        }
        Ok(Some(found.is(content)))
    }
}

#[async_trait]
impl BlobStore for Blobs {
    async fn put(&self, key: &BlobKey, source: &mut dyn Chunks, bytes_max: u64) -> Result<Put, StoreError> {
        let mut parts = Parts::of(source, bytes_max);
        match parts.next().await? {
            Part::TooLarge => Ok(Put::TooLarge),
            Part::Last(whole) => self.put_whole(key, whole, parts.content()).await,
            Part::Full(first) => self.put_parts(key, first, parts).await,
        }
    }

    async fn head(&self, key: &BlobKey) -> Result<Option<u64>, StoreError> {
        match self.s3.head(&self.path(key)).await {
            Ok(meta) => Ok(Some(meta.size)),
            // Only the answer to a GET says whether it is the blob that is missing.
            Err(Error::NotFound { .. }) => Ok(self.get(key, ByteRange::ALL).await?.map(|blob| blob.bytes)),
            Err(error) => Err(error::unavailable(&error)),
        }
    }

    async fn get(&self, key: &BlobKey, range: ByteRange) -> Result<Option<Blob>, StoreError> {
        let nothing = |bytes| Blob { bytes, chunks: Box::new(Reader::empty()) };
        if range.bytes_max == 0 {
            return Ok(self.head(key).await?.map(nothing));
        }
        let to = range.from.saturating_add(range.bytes_max);
        let wanted = match range.from {
            from if to <= BLOB_BYTES_MAX => Some(GetRange::Bounded(from..to)),
            // Beyond, there are numbers that no server reads.
            0 => None,
            from => Some(GetRange::Offset(from)),
        };
        let is_all = wanted.is_none();
        match self.s3.get_opts(&self.path(key), GetOptions { range: wanted, ..GetOptions::default() }).await {
            Ok(found) => {
                let (bytes, of_range) = (found.meta.size, found.range.end - found.range.start);
                Ok(Some(Blob { bytes, chunks: Box::new(Reader::new(found.into_stream(), of_range)) }))
            }
            Err(error) if error::is_absent(&error) => Ok(None),
            Err(error) if is_all => Err(error::unavailable(&error)),
            // A range that begins behind the end, as any range of an empty blob does, is an error to S3, which the driver does not tell
            // from others.
            Err(error) => match self.head(key).await? {
                Some(bytes) if bytes > range.from => Err(error::unavailable(&error)),
                found => Ok(found.map(nothing)),
            },
        }
    }

    async fn delete(&self, key: &BlobKey) -> Result<(), StoreError> {
        match self.s3.delete(&self.path(key)).await {
            Ok(()) => Ok(()),
            Err(error) if error::is_absent(&error) => Ok(()),
            Err(error) => Err(error::doubtful(&error)),
        }
    }
}
