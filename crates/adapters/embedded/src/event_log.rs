//! The event log as one partition: our segmented log, with events as its payloads.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use dunlin_model::{Epoch, Event, LogKey, Millis, Offset, Partition, Position, Seq};
use dunlin_ports::{Appended, Record, Share, StoreError, Tail};

use crate::log::{self, AppendError, Log, LogError, ReadLimit};

/// What one read takes from the file at most, so that a batch of large events stays small in memory.
const READ_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A disk that takes so long for a sync is a trouble.
const SYNC_HANGS: Duration = Duration::from_secs(5);

pub struct EventLog {
    log: Arc<Log>,
    /// Why the last append failed; none once one has succeeded again.
    trouble: Mutex<Option<String>>,
    troubled: AtomicBool,
}

impl EventLog {
    pub(crate) fn new(log: Arc<Log>) -> EventLog {
        EventLog { log, trouble: Mutex::default(), troubled: AtomicBool::new(false) }
    }

    pub fn trouble(&self) -> Option<String> {
        if let Some(hangs) = self.log.syncing_for().filter(|&asked| asked >= SYNC_HANGS) {
            return Some(format!("the log: the disk was asked to sync {} s ago and has not answered", hangs.as_secs()));
        }
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Cheap while all is well.
    fn note(&self, outcome: &Result<log::Appended, AppendError>) {
        let failed = outcome.as_ref().err().filter(|error| !matches!(error, AppendError::TooLarge));
        if failed.is_some() || self.troubled.load(Ordering::Relaxed) {
            self.troubled.store(failed.is_some(), Ordering::Relaxed);
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = failed.map(|error| format!("the log: {error}"));
        }
    }
}

#[async_trait]
impl dunlin_ports::EventLog for EventLog {
    async fn append(&self, _: &LogKey, event: &Event) -> Result<Appended, StoreError> {
        let appended = self.log.append(event.encode()).await;
        self.note(&appended);
        let appended = appended?;
        Ok(Appended { seq: Seq::new(Epoch(self.log.epoch()), Offset(appended.position)) })
    }

    fn partitions(&self) -> u32 {
        1
    }

    fn begins(&self, _: Partition) -> Seq {
        Seq::new(Epoch(self.log.epoch()), Offset(0))
    }

    async fn tail(&self, _: Partition, from: Offset) -> Result<Box<dyn Tail>, StoreError> {
        let tail = self.log.tail(from.0)?;
        Ok(Box::new(LogTail { tail, epoch: Epoch(self.log.epoch()) }))
    }

    async fn join(&self) -> Result<Box<dyn Share>, StoreError> {
        Ok(Box::new(Alone { is_told: false }))
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
            Record::new(position, record.payload, || None)
        };
        Ok(records.into_iter().map(record).collect())
    }
}

/// The share of the only node there is.
struct Alone {
    is_told: bool,
}

#[async_trait]
impl Share for Alone {
    async fn next(&mut self) -> Result<Vec<Partition>, StoreError> {
        if self.is_told {
            std::future::pending::<()>().await;
        }
        self.is_told = true;
        Ok(vec![Partition(0)])
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
