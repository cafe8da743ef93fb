//! What is worth knowing for a while. Never the truth of anything.

use async_trait::async_trait;
use bytes::Bytes;
use dunlin_model::{DedupKey, DedupRow};

use crate::StoreError;

/// Short-lived facts that make things faster or livelier.
///
/// - **May forget everything at any time** (a restart, a failover, a full memory), and nothing breaks: whoever asks must do without. While it
///   is up and not pressed, it does remember for the time that it was told.
/// - **Never remembers longer** than that, and never mixes up keys.
/// - An error is no worse than having forgotten: callers go on without.
#[async_trait]
pub trait Ephemeral: Send + Sync {
    /// Keeps an accepted message at hand, so that a retry is answered without the log. Replaces what the key had, and its time.
    async fn remember_send(&self, key: &DedupKey, row: DedupRow, ttl_ms: u64) -> Result<(), StoreError>;

    /// `None` says nothing: the message may have been sent all the same. The projector's rows decide.
    async fn recall_send(&self, key: &DedupKey) -> Result<Option<DedupRow>, StoreError>;

    /// Keeps the answer to a request, so that the same request made again gets the same answer. Replaces what the key had, and its time.
    async fn remember_answer(&self, key: AnswerKey, answer: Bytes, ttl_ms: u64) -> Result<(), StoreError>;

    /// `None` says nothing: the request may have been made all the same.
    async fn recall_answer(&self, key: AnswerKey) -> Result<Option<Bytes>, StoreError>;
}

/// Names a request: a hash of who made it, of what it asked for, and of the key that the caller gave it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AnswerKey(pub [u8; 16]);
