//! Rows that have had their time. Compaction drops them when it comes across them; readers don't count on it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use dunlin_model::{DedupRow, Millis, decode, limits};

use super::keys;
use crate::tree::Expiry;

/// What is kept of rows that only matter for a while. Judged by the log's time, not the clock's.
pub struct Lifetimes {
    pub dedup_ms: u64,
    /// The time of the last applied event.
    now: Arc<AtomicU64>,
}

impl Lifetimes {
    pub fn new(dedup_ms: u64) -> Lifetimes {
        Lifetimes { dedup_ms, now: Arc::default() }
    }

    /// Where the store says what time it is.
    pub fn now(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.now)
    }

    fn is_older(&self, at: Millis, ms: u64) -> bool {
        at.0.saturating_add(ms) < self.now.load(Ordering::Relaxed)
    }
}

impl Expiry for Lifetimes {
    fn expired(&self, key: &[u8], value: &[u8]) -> bool {
        match key.first() {
            Some(&keys::FEED) => keys::feed_time(key).is_some_and(|at| self.is_older(at, limits::FEED_DAYS * Millis::DAY)),
            Some(&keys::DEDUP) => {
                let rows: Vec<DedupRow> = decode(value).unwrap_or_default();
                rows.last().is_some_and(|newest| self.is_older(newest.created_at, self.dedup_ms))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use dunlin_contract::ids;
    use dunlin_model::{ContentHash, DedupKey, FeedKey, N, encode};

    use super::*;

    #[test]
    fn only_what_has_had_its_time_expires() {
        let lifetimes = Lifetimes::new(1_000);
        let dedup = DedupKey { conversation: ids::conversation(), sender: Some(ids::user()), client_id: ids::client_id() };
        let row = |at| encode(&vec![DedupRow { seq: ids::seq(), n: N(1), created_at: Millis(at), hash: ContentHash::of(b"x") }]);
        let feed = |at| keys::feed(&ids::user(), &FeedKey { at: Millis(at), conversation: ids::conversation(), seq: ids::seq() });
        let now = limits::FEED_DAYS * Millis::DAY + 10_000;
        lifetimes.now().store(now, Ordering::Relaxed);
        assert!(lifetimes.expired(&keys::dedup(&dedup.hash()), &row(now - 1_001)));
        assert!(!lifetimes.expired(&keys::dedup(&dedup.hash()), &row(now - 1_000)));
        assert!(lifetimes.expired(&feed(9_999), b""));
        assert!(!lifetimes.expired(&feed(10_000), b""));
        assert!(!lifetimes.expired(&keys::message(ids::conversation(), ids::seq()), b""), "messages stay");
    }
}
