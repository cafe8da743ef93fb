//! What is worth knowing for a while, as keys that end by themselves. Each operation names one key, so it stays in one slot.

use async_trait::async_trait;
use bytes::Bytes;
use data_encoding::BASE32_NOPAD;
use dunlin_model::{DedupKey, DedupRow};
use dunlin_ports::{AnswerKey, StoreError};
use redis::Cmd;

use crate::Cluster;

/// Ten years. Redis refuses a time whose end is beyond its clock.
const TTL_MS_MAX: u64 = 10 * 365 * 24 * 3_600_000;

pub struct Ephemeral {
    cluster: Cluster,
}

impl Ephemeral {
    pub fn new(cluster: Cluster) -> Ephemeral {
        Ephemeral { cluster }
    }

    /// What is in braces chooses the slot.
    fn send_key(&self, key: &DedupKey) -> String {
        format!("{}dedup:msg:{{{}}}", self.cluster.prefix(), base32(&key.hash()))
    }

    fn answer_key(&self, key: AnswerKey) -> String {
        format!("{}answer:{{{}}}", self.cluster.prefix(), base32(&key.0))
    }

    async fn remember(&self, key: &str, value: &[u8], ttl_ms: u64) -> Result<(), StoreError> {
        let command = match ttl_ms {
            // What is over at once replaces what was there, all the same; Redis takes no time of zero.
            0 => Cmd::del(key),
            _ => redis::cmd("SET").arg(key).arg(value).arg("PX").arg(ttl_ms.min(TTL_MS_MAX)).take(),
        };
        self.cluster.call(|mut connection| async move { command.exec_async(&mut connection).await }).await
    }

    async fn recall(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let command = Cmd::get(key);
        self.cluster.call(|mut connection| async move { command.query_async(&mut connection).await }).await
    }
}

#[async_trait]
impl dunlin_ports::Ephemeral for Ephemeral {
    async fn remember_send(&self, key: &DedupKey, row: DedupRow, ttl_ms: u64) -> Result<(), StoreError> {
        self.remember(&self.send_key(key), &dunlin_model::encode(&row), ttl_ms).await
    }

    async fn recall_send(&self, key: &DedupKey) -> Result<Option<DedupRow>, StoreError> {
        let Some(bytes) = self.recall(&self.send_key(key)).await? else { return Ok(None) };
        let row = dunlin_model::decode(&bytes).map_err(|error| StoreError::Corrupt(format!("a remembered send is unreadable: {error}")))?;
        Ok(Some(row))
    }

    async fn remember_answer(&self, key: AnswerKey, answer: Bytes, ttl_ms: u64) -> Result<(), StoreError> {
        self.remember(&self.answer_key(key), &answer, ttl_ms).await
    }

    async fn recall_answer(&self, key: AnswerKey) -> Result<Option<Bytes>, StoreError> {
        Ok(self.recall(&self.answer_key(key)).await?.map(Bytes::from))
    }
}

fn base32(bytes: &[u8]) -> String {
    BASE32_NOPAD.encode(bytes).to_ascii_lowercase()
}
