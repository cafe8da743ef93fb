//! The ordered, durable record of everything that happened. What is not here: who may append (use cases) and what it means (projector).

use async_trait::async_trait;
use bytes::Bytes;
use dunlin_model::{Epoch, Event, EventId, LogKey, Millis, Offset, Partition, Position, Seq};

use crate::StoreError;

/// Appends and tails events.
///
/// - **Durable on return**: an `Ok` survives the loss of any one machine (embedded: of power).
/// - **Ordered**: two events of one [`LogKey`] are read in the order in which their appends were called, if the second call came after the
///   first was first polled; nothing is promised across keys.
/// - **At least once**: a reader may see an event again after a restart, never skip one.
/// - **Time** never goes backwards within a partition.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// `Err(Unavailable)`: it is not in the log. `Err(Unknown)`: it may or may not be; a retry with the same event is safe.
    async fn append(&self, key: &LogKey, event: &Event) -> Result<Appended, StoreError>;

    /// How many partitions the log has. Never changes.
    fn partitions(&self) -> u32;

    /// The first seq of a partition in the log's present life: what has a lower one belongs to a log that is gone.
    fn begins(&self, partition: Partition) -> Seq;

    /// The records of one partition from an offset on. `Err(Corrupt)` if that offset is no longer kept.
    async fn tail(&self, partition: Partition, from: Offset) -> Result<Box<dyn Tail>, StoreError>;

    /// Takes part in sharing out the partitions among the nodes. Dropping what it gives leaves, and the others take over.
    async fn join(&self) -> Result<Box<dyn Share>, StoreError>;
}

#[async_trait]
pub trait Tail: Send {
    /// The next records, in order: at least one, at most `records_max`. Waits at the end of the log. Neither an error nor dropping the future
    /// loses a record: the next call begins where the last one that returned records ended.
    async fn next(&mut self, records_max: usize) -> Result<Vec<Record>, StoreError>;
}

/// A node's share of the partitions.
///
/// - **Every partition is some node's**, after a while, as long as any node takes part.
/// - Two nodes may believe for a moment that a partition is theirs. That is harmless: what a projector writes can be written again.
/// - **Every change is told**: a partition that went away and came back is missing from a set in between, for another node may have
///   projected it meanwhile. What was remembered of it no longer counts.
#[async_trait]
pub trait Share: Send {
    /// The partitions that are this node's to project from now on, ascending; none is a share too. The first call returns the first share,
    /// later ones wait for the next change. Neither an error nor dropping the future loses a change.
    async fn next(&mut self) -> Result<Vec<Partition>, StoreError>;
}

/// One life of a log that can be lost, as the message store remembers it. A log that takes its place begins another, with the next epoch, so
/// that no seq ever means two events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Life {
    pub epoch: Epoch,
    /// Which log it is, in words of its engine.
    pub log: String,
    /// Where it begins in each partition; at its first record in those that are not named.
    pub begins: Vec<Offset>,
    /// No event of it has an earlier time, whatever the clocks of its engine say: a feed never goes backwards.
    pub not_before: Millis,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    pub seq: Seq,
}

/// What the log holds at a position: an event, nearly always. `Event::decode` reads the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub position: Position,
    /// Of strangers if it is none of the events that belong here, whatever the bytes say.
    pub key: LogKey,
    pub event_id: EventId,
    pub bytes: Bytes,
}

impl Record {
    /// `key_beside` is the log key that the log itself keeps with an event, if it does: bytes that tell none may be of a version to come. What
    /// has no key at all is of strangers.
    pub fn new(position: Position, bytes: Bytes, key_beside: impl FnOnce() -> Option<LogKey>) -> Record {
        let (key, event_id) = Event::decode_key(&bytes)
            .unwrap_or_else(|_| (key_beside().unwrap_or_else(|| LogKey::of_strangers(position.partition)), EventId::of_bytes(&bytes)));
        Record { position, key, event_id, bytes }
    }
}
