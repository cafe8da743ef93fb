//! The event log as one partition: our segmented log, with events as its payloads.

use std::sync::Arc;

use async_trait::async_trait;
use dunlin_model::{Epoch, Event, LogKey, Millis, Offset, Partition, Position, Seq};
use dunlin_ports::{Appended, Record, StoreError, Tail};

use crate::log::{self, AppendError, Log, LogError, ReadLimit};

/// What one read takes from the file at most, so that a batch of large events stays small in memory.
const READ_BYTES_MAX: usize = 4 * 1024 * 1024;

pub struct EventLog {
    log: Arc<Log>,
}

impl EventLog {
    pub(crate) fn new(log: Arc<Log>) -> EventLog {
        EventLog { log }
    }
}

#[async_trait]
impl dunlin_ports::EventLog for EventLog {
    async fn append(&self, _: &LogKey, event: &Event) -> Result<Appended, StoreError> {
        let appended = self.log.append(event.encode()).await?;
        Ok(Appended { seq: Seq::new(Epoch(self.log.epoch()), Offset(appended.position)) })
    }

    fn partitions(&self) -> u32 {
        1
    }

    async fn tail(&self, _: Partition, from: Offset) -> Result<Box<dyn Tail>, StoreError> {
        let tail = self.log.tail(from.0)?;
        Ok(Box::new(LogTail { tail, epoch: Epoch(self.log.epoch()) }))
    }
}

struct LogTail {
    tail: log::Tail,
    epoch: Epoch,
}

#[async_trait]
impl Tail for LogTail {
    async fn next(&mut self, records_max: usize) -> Result<Vec<Record>, StoreError> {
        let records = self.tail.next(ReadLimit { records: records_max, payload_bytes: READ_BYTES_MAX }).await?;
        let record = |record: log::Record| {
            let offset = Offset(record.position);
            let position = Position { partition: Partition(0), seq: Seq::new(self.epoch, offset), offset, time: Millis(record.time_ms) };
            Record { position, bytes: record.payload }
        };
        Ok(records.into_iter().map(record).collect())
    }
}

impl From<AppendError> for StoreError {
    fn from(error: AppendError) -> StoreError {
        let text = error.to_string();
        match error {
            AppendError::TooLarge => StoreError::Conflict(text),
            AppendError::Unknown => StoreError::Unknown(text),
            _ => StoreError::Unavailable(text),
        }
    }
}

impl From<LogError> for StoreError {
    fn from(error: LogError) -> StoreError {
        match error {
            LogError::Io { .. } => StoreError::Unavailable(error.to_string()),
            _ => StoreError::Corrupt(error.to_string()),
        }
    }
}
