//! Lets old segments of the log go, after reading back that the state's files have what they said.
//!
//! Storage engines have lost writes before. The log is the truth until its events are found in the files; only then may it forget them.

use dunlin_model::{Body, Epoch, Event, Offset, Seq};
use dunlin_ports::StoreError;

use crate::{Folder, OpenError, log::ReadLimit, tree::Snapshot};

const READ_LIMIT: ReadLimit = ReadLimit { records: 1_000, payload_bytes: 1024 * 1024 };

/// What trimming did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trimmed {
    pub segments: usize,
    /// Events that were looked up before their segments went.
    pub read_back: u64,
}

/// An event that the log has and the state has not.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("event {seq} is in the log, but the state's files do not have what it says: trimming stopped; keep the log, and rebuild the state from it")]
pub struct ReadBack {
    pub seq: Seq,
}

impl Folder {
    /// Deletes closed segments whose last event is older than `before_ms`, oldest first, each only after everything that its events say was found in
    /// flushed files. Blocks; reads little at a time.
    pub fn trim(&self, before_ms: u64) -> Result<Result<Trimmed, ReadBack>, OpenError> {
        let mut trimmed = Trimmed::default();
        // The last applied event stays, for it tells whether the log is still the same.
        let flushed = self.store.tree().flushed().unwrap_or(0).saturating_sub(1);
        for segment in self.segments.segments() {
            if segment.closed_ms.is_none_or(|closed| closed >= before_ms) || segment.end > flushed {
                break;
            }
            match self.read_back(segment.base, segment.end)? {
                Ok(found) => trimmed.read_back += found,
                Err(missing) => return Ok(Err(missing)),
            }
            trimmed.segments += self.segments.trim(segment.end)?;
        }
        Ok(Ok(trimmed))
    }

    /// Looks up every event of a stretch of the log.
    fn read_back(&self, from: u64, to: u64) -> Result<Result<u64, ReadBack>, OpenError> {
        let mut tail = self.segments.tail(from)?;
        let mut found = 0;
        let mut next = from;
        while next < to {
            // A snapshot for each stretch: one that is open for long keeps old files from being deleted.
            let snapshot = self.store.tree().snapshot();
            for record in tail.try_next(READ_LIMIT)?.into_iter().take_while(|record| record.position < to) {
                next = record.position + 1;
                let seq = Seq::new(Epoch(self.segments.epoch()), Offset(record.position));
                if !self.is_kept(&snapshot, &record.payload, seq)? {
                    return Ok(Err(ReadBack { seq }));
                }
                found += 1;
            }
        }
        Ok(Ok(found))
    }

    /// Whether the state has what an event says it must: a message or the reason why there is none, or the event itself, set aside.
    fn is_kept(&self, snapshot: &Snapshot, bytes: &[u8], seq: Seq) -> Result<bool, StoreError> {
        let (key, _) = Event::decode_key(bytes).map_err(|error| StoreError::Corrupt(format!("event {seq}: {error}")))?;
        let event = match Event::decode(bytes) {
            Ok(event) => event,
            Err(_) => return self.store.has_parked(snapshot, &key, seq),
        };
        let Body::Message(message) = &event.body else { return Ok(true) };
        Ok(self.store.has_outcome_of(snapshot, message.conversation, seq)? || self.store.has_parked(snapshot, &key, seq)?)
    }
}
