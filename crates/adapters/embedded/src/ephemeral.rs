//! What is worth knowing for a while, in memory. A restart forgets it all.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use dunlin_model::{DedupKey, DedupRow, Millis};
use dunlin_ports::{AnswerKey, Clock, StoreError};

/// How many sends are remembered: some 30 MB with ids of usual lengths. Above that, the oldest are forgotten first.
const SENDS_MAX: usize = 100_000;

/// How many bytes of answers are remembered, and how many answers.
const ANSWERS_BYTES_MAX: usize = 16 << 20;
const ANSWERS_MAX: usize = 10_000;

pub struct Ephemeral {
    clock: Arc<dyn Clock>,
    sends: Mutex<Memory<DedupKey, DedupRow>>,
    answers: Mutex<Memory<AnswerKey, Bytes>>,
}

impl Ephemeral {
    pub fn new(clock: Arc<dyn Clock>) -> Ephemeral {
        Ephemeral::with_sends_max(clock, SENDS_MAX)
    }

    pub fn with_sends_max(clock: Arc<dyn Clock>, sends_max: usize) -> Ephemeral {
        Ephemeral {
            clock,
            sends: Mutex::new(Memory::new(sends_max, usize::MAX)),
            answers: Mutex::new(Memory::new(ANSWERS_MAX, ANSWERS_BYTES_MAX)),
        }
    }
}

#[async_trait]
impl dunlin_ports::Ephemeral for Ephemeral {
    async fn remember_send(&self, key: &DedupKey, row: DedupRow, ttl_ms: u64) -> Result<(), StoreError> {
        lock(&self.sends).insert(key.clone(), row, 0, ttl_ms, self.clock.now());
        Ok(())
    }

    async fn recall_send(&self, key: &DedupKey) -> Result<Option<DedupRow>, StoreError> {
        Ok(lock(&self.sends).get(key, self.clock.now()).copied())
    }

    async fn remember_answer(&self, key: AnswerKey, answer: Bytes, ttl_ms: u64) -> Result<(), StoreError> {
        let bytes = answer.len();
        lock(&self.answers).insert(key, answer, bytes, ttl_ms, self.clock.now());
        Ok(())
    }

    async fn recall_answer(&self, key: AnswerKey) -> Result<Option<Bytes>, StoreError> {
        Ok(lock(&self.answers).get(&key, self.clock.now()).cloned())
    }
}

/// What a panic may have left half done is at worst something forgotten.
fn lock<T>(memory: &Mutex<T>) -> MutexGuard<'_, T> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Values by key, and their keys from the oldest to the newest.
struct Memory<K, V> {
    by_key: HashMap<K, Remembered<V>>,
    by_number: BTreeMap<u64, K>,
    last_number: u64,
    max: usize,
    bytes: usize,
    bytes_max: usize,
}

struct Remembered<V> {
    value: V,
    bytes: usize,
    until: Millis,
    /// Where its key stands in `by_number`.
    number: u64,
}

impl<K: Hash + Eq + Clone, V> Memory<K, V> {
    fn new(max: usize, bytes_max: usize) -> Memory<K, V> {
        Memory { by_key: HashMap::new(), by_number: BTreeMap::new(), last_number: 0, max, bytes: 0, bytes_max }
    }

    fn get(&self, key: &K, now: Millis) -> Option<&V> {
        self.by_key.get(key).filter(|remembered| now < remembered.until).map(|remembered| &remembered.value)
    }

    fn insert(&mut self, key: K, value: V, bytes: usize, ttl_ms: u64, now: Millis) {
        self.last_number += 1;
        let (number, until) = (self.last_number, Millis(now.0.saturating_add(ttl_ms)));
        self.by_number.insert(number, key.clone());
        self.bytes += bytes;
        if let Some(before) = self.by_key.insert(key, Remembered { value, bytes, until, number }) {
            self.bytes -= before.bytes;
            self.by_number.remove(&before.number);
        }
        self.shrink(now);
    }

    /// Forgets the oldest until all fit. What has had its time goes too, as far as it is the oldest: with one and the same TTL that is all.
    fn shrink(&mut self, now: Millis) {
        while let Some((_, oldest)) = self.by_number.first_key_value() {
            let is_over = self.by_key.get(oldest).is_none_or(|remembered| remembered.until <= now);
            if self.by_number.len() <= self.max && self.bytes <= self.bytes_max && !is_over {
                return;
            }
            self.bytes -= self.by_key.remove(oldest).map_or(0, |forgotten| forgotten.bytes);
            self.by_number.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use dunlin_contract::ids;
    use dunlin_model::{ContentHash, N};
    use dunlin_ports::Ephemeral as _;

    use super::*;

    #[derive(Default)]
    struct HandClock(AtomicU64);

    impl Clock for HandClock {
        fn now(&self) -> Millis {
            Millis(self.0.load(Ordering::Relaxed))
        }
    }

    fn key() -> DedupKey {
        DedupKey { conversation: ids::conversation(), sender: Some(ids::user()), client_id: ids::client_id() }
    }

    fn row() -> DedupRow {
        DedupRow { seq: ids::seq(), n: N(1), created_at: Millis(1), hash: ContentHash::of(b"hello") }
    }

    fn held(ephemeral: &Ephemeral) -> (usize, usize) {
        let sends = lock(&ephemeral.sends);
        (sends.by_key.len(), sends.by_number.len())
    }

    #[tokio::test]
    async fn the_oldest_is_forgotten_first() {
        let ephemeral = Ephemeral::with_sends_max(Arc::new(HandClock::default()), 3);
        let keys = [key(), key(), key(), key()];
        for index in [0, 1, 2, 0, 3] {
            ephemeral.remember_send(&keys[index], row(), 1_000).await.unwrap();
        }
        let mut known = Vec::new();
        for key in &keys {
            known.push(ephemeral.recall_send(key).await.unwrap().is_some());
        }
        assert_eq!(known, [true, false, true, true], "the first was renewed, so the second was the oldest");
        assert_eq!(held(&ephemeral), (3, 3));
    }

    #[tokio::test]
    async fn answers_share_a_bounded_memory() {
        let ephemeral = Ephemeral::new(Arc::new(HandClock::default()));
        let answer = Bytes::from(vec![7; ANSWERS_BYTES_MAX / 4]);
        let keys = [1, 2, 3, 4, 4, 5].map(|number| AnswerKey([number; 16]));
        for key in keys {
            ephemeral.remember_answer(key, answer.clone(), 1_000).await.unwrap();
        }
        let mut known = Vec::new();
        for number in 1..=5 {
            known.push(ephemeral.recall_answer(AnswerKey([number; 16])).await.unwrap().is_some());
        }
        assert_eq!(known, [false, true, true, true, true], "the oldest made room, and one that was replaced counts once");
    }

    #[tokio::test]
    async fn what_has_had_its_time_takes_no_memory() {
        let clock = Arc::new(HandClock::default());
        let ephemeral = Ephemeral::new(Arc::clone(&clock) as Arc<dyn Clock>);
        for _ in 0..10 {
            ephemeral.remember_send(&key(), row(), 1_000).await.unwrap();
        }
        clock.0.store(1_000, Ordering::Relaxed);
        ephemeral.remember_send(&key(), row(), 1_000).await.unwrap();
        assert_eq!(held(&ephemeral), (1, 1));
    }

    #[tokio::test]
    async fn a_send_is_recalled_until_its_last_millisecond() {
        let clock = Arc::new(HandClock::default());
        let ephemeral = Ephemeral::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let key = key();
        ephemeral.remember_send(&key, row(), 1_000).await.unwrap();
        clock.0.store(999, Ordering::Relaxed);
        assert!(ephemeral.recall_send(&key).await.unwrap().is_some());
        clock.0.store(1_000, Ordering::Relaxed);
        assert!(ephemeral.recall_send(&key).await.unwrap().is_none());
    }
}
