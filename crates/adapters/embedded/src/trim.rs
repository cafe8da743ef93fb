//! Lets old segments of the log go, after reading back that the state's files have what they said.
//!
//! Storage engines have lost writes before. The log is the truth until its messages are found in the state, after that was flushed; only
//! then may it forget them. Other events (marks, edits, reactions) are not looked up: `dunlin rebuild` and `dunlin check` compare them.

use dunlin_model::{Body, Epoch, Event, LogKey, Offset, Partition, Seq};
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
#[error(
    "event {seq} is in the log, but the state's files do not have what it says: trimming stopped; keep a copy of the folder, then rebuild the state if the log still holds everything, or restore a backup"
)]
pub struct ReadBack {
    pub seq: Seq,
}

impl Folder {
    /// Deletes closed segments whose last event is older than `before_ms`, oldest first, each only after all of its messages were found in the
    /// flushed state. Blocks; reads little at a time.
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
        let key = Event::decode_key(bytes).map_or_else(|_| LogKey::of_strangers(Partition(0)), |(key, _)| key);
        let event = match Event::decode(bytes) {
            Ok(event) => event,
            Err(_) => return self.store.has_parked(snapshot, &key, seq),
        };
        let Body::Message(message) = &event.body else { return Ok(true) };
        Ok(self.store.has_outcome_of(snapshot, message.conversation, seq)? || self.store.has_parked(snapshot, &key, seq)?)
    }
}

#[cfg(test)]
mod tests {
    use dunlin_contract::ids;
    use dunlin_model::{ClientId, Content, ConversationId, Message, MessageRow, MessageType, Millis, N, Opening, Pair, RULES};
    use dunlin_ports::{Batch, Checkpoint, EventLog as _, MessageStore as _, Write};

    use super::*;
    use crate::Options;

    /// A folder whose log has many small segments, and whose state has every message but those left out.
    async fn folder(dir: &std::path::Path, left_out: &[u64]) -> Folder {
        const EVENTS: u64 = 40;
        let options = Options { segment_bytes: 2 << 20, ..Options::default() };
        let folder = Folder::open(dir, &options).unwrap();
        let pair = ids::pair();
        let conversation = ConversationId::direct(&pair);
        let mut writes = Vec::new();
        for number in 0..EVENTS {
            let event = event(&pair, number);
            let seq = folder.log.append(&event.key, &event).await.unwrap().seq;
            if !left_out.contains(&number) {
                writes.push(Write::Message { conversation, row: row(&event, seq, number).into() });
            }
        }
        let checkpoint =
            Checkpoint { seq: Seq::new(Epoch::FIRST_LIVE, Offset(EVENTS - 1)), log_time: Millis(1), event_id: ids::event_id() };
        folder.store.apply(&Batch { writes, heads: Vec::new(), checkpoint: Some((Partition(0), checkpoint)) }).await.unwrap();
        folder
    }

    fn event(pair: &Pair, number: u64) -> Event {
        let body = Body::Message(Message {
            conversation: ConversationId::direct(pair),
            opening: Some(Opening::Direct(pair.clone())),
            client_id: ClientId::parse(&number.to_string()).unwrap(),
            message_type: MessageType::text(),
            // Large, so that a few fill a segment.
            content: Content::opaque("a/b", &vec![7; 64 * 1024]).unwrap(),
            reply_to: None,
            metadata: None,
        });
        Event { id: ids::event_id(), key: pair.log_key(), rules: RULES, origin: None, actor: pair.users().next().cloned(), body }
    }

    fn row(event: &Event, seq: Seq, number: u64) -> MessageRow {
        let Body::Message(message) = &event.body else { panic!("a message") };
        MessageRow {
            seq,
            n: N(number + 1),
            created_at: Millis(1),
            sender: event.actor.clone(),
            message_type: message.message_type.clone(),
            content: Some(message.content.clone()),
            reply_to: None,
            bucket: 0,
            revision: None,
            client_id: message.client_id.clone(),
            metadata: None,
        }
    }

    #[tokio::test]
    async fn old_segments_go_after_they_were_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path(), &[]).await;
        assert_eq!(folder.trim(u64::MAX).unwrap(), Ok(Trimmed::default()), "nothing is in files yet");
        folder.flush().unwrap();
        assert_eq!(folder.trim(0).unwrap(), Ok(Trimmed::default()), "nothing is old enough");
        let before = folder.segments.segments().len();
        let trimmed = folder.trim(u64::MAX).unwrap().unwrap();
        assert_eq!(trimmed.segments, before - 1, "all but the open one");
        assert_eq!(trimmed.read_back, folder.segments.oldest(), "every event of them was looked up");
    }

    #[tokio::test]
    async fn a_message_that_the_state_lost_stops_trimming() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path(), &[3]).await;
        folder.flush().unwrap();
        let missing = folder.trim(u64::MAX).unwrap().unwrap_err();
        assert_eq!(missing.seq, Seq::new(Epoch(2), Offset(3)));
        assert_eq!(folder.segments.oldest(), 0, "the log still has it");
    }

    #[tokio::test]
    async fn a_trimmed_log_is_not_rebuilt_from() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path(), &[]).await;
        folder.flush().unwrap();
        folder.trim(u64::MAX).unwrap().unwrap();
        drop(folder);
        let options = Options { segment_bytes: 2 << 20, ..Options::default() };
        let refused = Folder::set_state_aside(dir.path(), &options).unwrap_err();
        assert!(matches!(refused, OpenError::Trimmed { .. }), "{refused}");
        std::fs::remove_dir_all(dir.path().join("state")).unwrap();
        assert!(matches!(Folder::open(dir.path(), &options), Err(OpenError::StateBehind { .. })));
    }
}
