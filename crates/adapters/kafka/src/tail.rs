//! Reads one partition in order, from an offset on.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use dunlin_model::{Epoch, LogKey, Millis, Offset, Partition, Position, Seq};
use dunlin_ports::{Record, StoreError};
use rdkafka::{
    Message as _,
    consumer::base_consumer::PartitionQueue,
    error::{KafkaError, RDKafkaErrorCode},
    message::BorrowedMessage,
};
use tokio::sync::Notify;

use crate::{
    client::Context,
    error::not_read,
    reader::{Reader, Readers},
};

/// A wake-up that was lost costs no more than this.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What one call returns at most, so that a batch of large events stays small in memory.
const READ_BYTES_MAX: usize = 4 * 1024 * 1024;

const IF_LOST: &str = "; if the log was lost or replaced, stop all nodes and run `dunlin log reopen`";

pub struct Tail {
    reader: Arc<Reader>,
    queue: PartitionQueue<Context>,
    arrived: Arc<Notify>,
    partition: Partition,
    /// How many there are.
    partitions: u32,
    epoch: Epoch,
    /// The next offset to be returned.
    next: Offset,
    /// Of the last record: the clocks of two leaders may differ, and time never goes backwards.
    time: Millis,
    seat: Seat,
}

/// Whether the reader fetches for this tail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seat {
    Taken,
    /// It does not, or failed: it begins anew at the next offset.
    Vacant,
    /// As vacant, and Kafka said that the offset is none of its.
    OutOfRange,
}

impl Tail {
    pub async fn open(readers: &Readers, partition: Partition, from: Offset) -> Result<Tail, StoreError> {
        let (epoch, time) = readers.life();
        let reader = readers.take(partition)?;
        let mut queue = reader.queue(partition);
        let arrived = Arc::new(Notify::new());
        let wake = Arc::clone(&arrived);
        queue.set_nonempty_callback(move || wake.notify_one());
        let partitions = readers.partitions();
        let mut tail = Tail { reader, queue, arrived, partition, partitions, epoch, next: from, time, seat: Seat::Vacant };
        tail.sit_down().await?;
        Ok(tail)
    }

    async fn sit_down(&mut self) -> Result<(), StoreError> {
        let (low, high) = self.reader.bounds(self.partition).await?;
        let (Offset(next), Partition(partition)) = (self.next, self.partition);
        if self.next < low {
            let why = format!("offset {next} of partition {partition} is no longer kept: the log begins at {}{IF_LOST}", low.0);
            return Err(StoreError::Corrupt(why));
        }
        // A new leader may not know yet how far the log was read, so its word about the end counts only once Kafka has refused to read.
        if self.seat == Seat::OutOfRange && self.next > high {
            let why = format!("offset {next} of partition {partition} is not in the log: it ends at {}{IF_LOST}", high.0);
            return Err(StoreError::Corrupt(why));
        }
        // What is left of an earlier tail.
        while self.queue.poll(Duration::ZERO).is_some() {}
        self.reader.assign(self.partition, self.next)?;
        self.seat = Seat::Taken;
        Ok(())
    }

    fn stand_up(&mut self, seat: Seat) {
        if self.seat == Seat::Taken {
            self.reader.unassign(self.partition);
        }
        self.seat = seat;
    }

    fn record(&self, message: &BorrowedMessage<'_>) -> Record {
        let (partition, not_before) = (self.partition, self.time);
        let offset = Offset(u64::try_from(message.offset()).expect("a record has an offset"));
        let time = message.timestamp().to_millis().and_then(|time| u64::try_from(time).ok()).map_or(not_before, Millis);
        let position = Position { partition, seq: Seq::new(self.epoch, offset), offset, time: time.max(not_before) };
        let key = || {
            let key: LogKey = str::from_utf8(message.key()?).ok()?.parse().ok()?;
            (key.partition(self.partitions) == partition).then_some(key)
        };
        let record = Record::new(position, Bytes::copy_from_slice(message.payload().unwrap_or_default()), key);
        if record.key.partition(self.partitions) == partition {
            return record;
        }
        // An event of ours, but whoever put it here did not: its seq would be one of another partition's order.
        Record { key: LogKey::of_strangers(partition), ..record }
    }

    /// What has arrived. What fails after some records were read fails again, or mends, at the next call.
    fn arrived(&mut self, records_max: usize) -> Result<Vec<Record>, StoreError> {
        let (mut records, mut bytes) = (Vec::new(), 0);
        while records.len() < records_max.max(1) && bytes < READ_BYTES_MAX {
            let record = match self.queue.poll(Duration::ZERO) {
                None => break,
                Some(Ok(message)) => self.record(&message),
                Some(Err(error)) => {
                    let failed = self.fail(&error);
                    return if records.is_empty() { failed.map_or(Ok(records), Err) } else { Ok(records) };
                }
            };
            // What an earlier tail had asked for.
            if record.position.offset < self.next {
                continue;
            }
            if record.position.offset > self.next && records.is_empty() {
                return Err(self.gap(record.position.offset));
            }
            if record.position.offset > self.next {
                self.stand_up(Seat::Vacant);
                break;
            }
            bytes += record.bytes.len();
            (self.next, self.time) = (self.next.next(), record.position.time);
            records.push(record);
        }
        Ok(records)
    }

    /// The tail begins anew at the next call. None if that is all there is to do.
    fn fail(&mut self, error: &KafkaError) -> Option<StoreError> {
        let is_out_of_range = error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset);
        self.stand_up(if is_out_of_range { Seat::OutOfRange } else { Seat::Vacant });
        (!is_out_of_range).then(|| not_read(&format!("read partition {}", self.partition.0), error))
    }

    /// Kafka leaves offsets out only for transactions and compaction, which the log has none of.
    fn gap(&mut self, found: Offset) -> StoreError {
        self.stand_up(Seat::Vacant);
        let (Partition(partition), Offset(next)) = (self.partition, self.next);
        StoreError::Corrupt(format!("partition {partition} goes on at offset {} where {next} should be", found.0))
    }
}

#[async_trait]
impl dunlin_ports::Tail for Tail {
    async fn next(&mut self, records_max: usize) -> Result<Vec<Record>, StoreError> {
        loop {
            if self.seat != Seat::Taken {
                self.sit_down().await?;
            }
            let records = self.arrived(records_max)?;
            if !records.is_empty() {
                return Ok(records);
            }
            if self.seat == Seat::Taken {
                // A broker that is away is waited for here: librdkafka goes on by itself when it is back.
                let _ = tokio::time::timeout(LOOK_AGAIN, self.arrived.notified()).await;
            }
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.stand_up(Seat::Vacant);
        self.reader.give_back(self.partition);
    }
}
