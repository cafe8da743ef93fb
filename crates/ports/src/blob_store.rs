//! Bytes that are too large for a message. What is not here: their names, types and who may read them (message store, use cases).

use async_trait::async_trait;
use bytes::Bytes;
use dunlin_model::BlobKey;

use crate::StoreError;

/// No chunk that a store gives is larger.
pub const BLOB_CHUNK_BYTES_MAX: usize = 64 * 1024;

/// Keeps immutable blobs under keys that the caller makes up.
///
/// - **Durable on return.**
/// - **All or nothing**: a blob is there with all its bytes or not at all, also after a crash or when the source fails on the way.
/// - **Immutable**: a key has one content until it is deleted. Repeating a put is a no-op.
/// - **Read your writes.**
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Takes all of `source`, up to `bytes_max`. `Err(Conflict)` if the key holds other bytes; an error of the source is passed on.
    async fn put(&self, key: &BlobKey, source: &mut dyn Chunks, bytes_max: u64) -> Result<Put, StoreError>;

    /// Its size in bytes.
    async fn head(&self, key: &BlobKey) -> Result<Option<u64>, StoreError>;

    /// The part of a blob that lies in the range: nothing if it begins behind the blob's end.
    async fn get(&self, key: &BlobKey, range: ByteRange) -> Result<Option<Blob>, StoreError>;

    /// Whether it was there or not. Whoever is reading it may get to its end, or an error, but never other bytes.
    async fn delete(&self, key: &BlobKey) -> Result<(), StoreError>;
}

/// Bytes that come one chunk after the other.
#[async_trait]
pub trait Chunks: Send {
    /// `None` at the end. After an error there is nothing more to get. A store gives no empty chunks, a source may.
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError>;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    Stored {
        bytes: u64,
    },
    /// The source had more than was allowed. Nothing was kept.
    TooLarge,
}

pub struct Blob {
    /// Of the whole blob, whatever the range.
    pub bytes: u64,
    /// The bytes of the range.
    pub chunks: Box<dyn Chunks>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteRange {
    pub from: u64,
    pub bytes_max: u64,
}

impl ByteRange {
    pub const ALL: ByteRange = ByteRange { from: 0, bytes_max: u64::MAX };
}
