//! The log: a segmented, group-committed append log of opaque payloads, and the only write-ahead log of the embedded profile.
//!
//! - **Durable on return**: an append is answered after its group was synced.
//! - **Ordered**: positions count from 0 on without gaps; times never go backwards, whatever the clock does.
//! - **Torn is not corrupt**: an unfinished last group is cut when the log is opened; damage to anything that was synced is refused.
//!
//! What is not here: what a payload means, who may append, when to trim, and the lock that keeps a second process out of the folder.

mod catalog;
mod end;
mod error;
mod options;
mod prepare;
mod pulse;
mod queue;
mod record;
mod recover;
mod segment;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use catalog::Catalog;
pub use catalog::SegmentInfo;
#[cfg(test)]
use error::Damage;
pub use error::{AppendError, LogError};
use options::Clock;
#[cfg(test)]
use options::{Backing, PAYLOAD_BYTES_MAX};
pub use options::{Options, SEGMENT_BYTES, Verify};
use prepare::Preparer;
use pulse::Pulse;
use queue::Queue;
use record::record_bytes;
pub use recover::Recovered;
use segment::Disk;
pub use tail::{ReadLimit, Record, Tail};
use writer::{Group, Health, SYNC_UNKNOWN, Writer};

/// What waits for the writer or is being written; beyond that, appends wait for room.
const QUEUE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What is written and synced at once, and may be torn at once.
const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;
const GROUP_RECORDS_MAX: usize = 8192;
/// After so many appends that their senders wrote by themselves, one gives up its thread.
const ALONE_IN_A_ROW_MAX: u32 = 8;

/// A durable append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub position: u64,
    pub time_ms: u64,
}

/// An open log. Dropping it closes it.
pub struct Log {
    dir: PathBuf,
    epoch: u16,
    salt: u32,
    payload_bytes_max: usize,
    queue: Arc<Queue>,
    catalog: Arc<Catalog>,
    published: watch::Receiver<Durable>,
    disk: Arc<dyn Disk>,
    pulse: Arc<Pulse>,
    writer: Arc<writer::Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// How many appends were written by their senders.
    alone: AtomicU32,
    /// One trim at a time: segments go in order.
    trimming: Mutex<()>,
}

/// How far the log is durable: a position, and where in which segment it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Durable {
    position: u64,
    segment: u64,
    offset: u64,
}

impl Log {
    /// Opens the log of a folder, or makes a new one. Blocks: it reads the last segment, or fills the first.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<(Self, Recovered), LogError> {
        options.check()?;
        let dir = dir.as_ref();
        let recover::Opened { recovered, segments, active } = recover::open(dir, &options)?;
        let disk = options.backing.disk;
        let queue = Arc::new(Queue::new());
        let catalog = Arc::new(Catalog::new(segments));
        let (publisher, published) = watch::channel(active.durable());
        let (epoch, salt) = (active.header.epoch, active.header.salt);
        let start_thread = |error| LogError::io("start a thread for", dir)(error);
        let preparer = Preparer::start(dir.to_owned(), options.segment_bytes, Arc::clone(&disk), options.backing.prepare_retry);
        let pulse = Arc::new(Pulse::new());
        let writer = Writer {
            queue: Arc::clone(&queue),
            catalog: Arc::clone(&catalog),
            published: publisher,
            preparer: preparer.map_err(start_thread)?,
            disk: Arc::clone(&disk),
            pulse: Arc::clone(&pulse),
            clock: options.clock,
            dir: dir.to_owned(),
            segment_bytes: options.segment_bytes,
            active,
            last_time_ms: recovered.last_time_ms,
            group: Group::default(),
            health: Health::Good,
            sync_time: SYNC_UNKNOWN,
        };
        let writer = Arc::new(Mutex::new(Some(writer)));
        let thread = thread::Builder::new().name("log-writer".into()).spawn({
            let (queue, writer) = (Arc::clone(&queue), Arc::clone(&writer));
            move || writer::run(&queue, &writer)
        });
        let log = Self {
            dir: dir.to_owned(),
            epoch,
            salt,
            payload_bytes_max: options.payload_bytes_max,
            queue,
            catalog,
            published,
            disk,
            pulse,
            writer,
            thread: Mutex::new(Some(thread.map_err(start_thread)?)),
            alone: AtomicU32::new(0),
            trimming: Mutex::new(()),
        };
        Ok((log, recovered))
    }

    /// Appends one record; durable on return. Waits while the queue is full. A future that is dropped after its first poll may have
    /// appended: the outcome is unknown, as after [`AppendError::Unknown`].
    pub async fn append(&self, payload: impl Into<Bytes>) -> Result<Appended, AppendError> {
        let payload = payload.into();
        if payload.len() > self.payload_bytes_max {
            return Err(AppendError::TooLarge);
        }
        if let Some(outcome) = self.append_alone(&payload) {
            // The thread was held for the length of a sync; now and then others have their turn, who may have wanted it meanwhile.
            if self.alone.fetch_add(1, Ordering::Relaxed).is_multiple_of(ALONE_IN_A_ROW_MAX) {
                tokio::task::yield_now().await;
            }
            return outcome;
        }
        let outcome = self.queue.push(payload).await?;
        outcome.await.unwrap_or(Err(AppendError::Unknown))
    }

    /// Writes and syncs in this thread, if nobody else appends and it is done soon.
    fn append_alone(&self, payload: &Bytes) -> Option<Result<Appended, AppendError>> {
        if !self.queue.is_alone() {
            return None;
        }
        let Ok(mut writer) = self.writer.try_lock() else {
            self.queue.is_not_alone();
            return None;
        };
        let bytes = record_bytes(payload.len());
        let alone = writer.as_mut().filter(|writer| writer.is_quick(bytes) && self.queue.take_room(bytes))?;
        let appended = catch_unwind(AssertUnwindSafe(|| alone.append(payload.clone())));
        if appended.is_err() {
            // Before anyone sees it half changed.
            drop(writer.take());
            drop(writer);
            self.queue.abandon();
        }
        Some(appended.unwrap_or(Err(AppendError::Unknown)))
    }

    /// Reads from a position on, which is neither trimmed nor ahead of the log.
    pub fn tail(&self, from: u64) -> Result<Tail, LogError> {
        Tail::new(self.dir.clone(), self.salt, Arc::clone(&self.catalog), self.published.clone(), from)
    }

    /// For how long the disk has been asked to sync what is being appended, if it is.
    pub fn syncing_for(&self) -> Option<Duration> {
        self.pulse.beats_since()
    }

    /// The next position that is not durable yet: everything below it is.
    pub fn durable(&self) -> u64 {
        self.published.borrow().position
    }

    /// The first position that can still be read.
    pub fn oldest(&self) -> u64 {
        self.catalog.oldest()
    }

    pub fn epoch(&self) -> u16 {
        self.epoch
    }

    /// All segments, oldest first; the last is the open one.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.catalog.list(self.durable())
    }

    /// Deletes the closed segments that lie wholly below a position, oldest first, each durably; returns how many. Blocks.
    pub fn trim(&self, below: u64) -> Result<usize, LogError> {
        let _one_at_a_time = self.trimming.lock().unwrap_or_else(PoisonError::into_inner);
        let mut deleted = 0;
        // Off the list first: a tail that does not find the file finds out why.
        while let Some(oldest) = self.catalog.pop_below(below) {
            if let Err(error) = segment::remove(&self.dir, oldest.base, &*self.disk) {
                self.catalog.restore(oldest);
                return Err(LogError::io("delete", &segment::path_of(&self.dir, oldest.base))(error));
            }
            deleted += 1;
        }
        Ok(deleted)
    }

    /// Takes no more appends, and returns when those that are queued were answered. Blocks; a second call returns at once.
    pub fn close(&self) {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic there was reported when it happened, and answered as an unknown outcome.
            let _ = thread.join();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.close();
    }
}
