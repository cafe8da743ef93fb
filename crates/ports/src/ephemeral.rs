//! What is worth knowing for a while. Never the truth of anything.

use async_trait::async_trait;
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
}
