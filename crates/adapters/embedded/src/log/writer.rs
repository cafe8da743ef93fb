//! The writer: takes what is queued, gives it positions and a time, writes it at once, syncs once, and only then answers. There is no
//! wait window: the next group forms while this one syncs.
//!
//! It runs on a thread of its own. A sender who is alone writes on its own thread instead, where the disk is quick: handing a record over and
//! being woken takes two thirds of the time that a sync takes.
//!
//! What must hold for `recover` to tell a torn tail from damage: a group is written only after everything before it was synced. So after a
//! failed sync nothing is written any more.

use std::iter::Peekable;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::vec::Drain;

use bytes::Bytes;
use tokio::sync::{oneshot, watch};
use tracing::{debug, error, warn};

use super::catalog::Catalog;
use super::error::{AppendError, is_full};
use super::prepare::Preparer;
use super::pulse::Pulse;
use super::queue::{Queue, Reply, Request};
use super::record::{self, Head, SEGMENT_HEADER_BYTES, SegmentHeader, record_bytes};
use super::segment::{self, Disk, SegmentFile};
use super::{Appended, Clock, Durable, GROUP_BYTES_MAX, GROUP_RECORDS_MAX};

/// The next segment is asked for when so much of the current one is full: late enough that a small log stays small, early enough that the
/// fastest writer finds it ready.
const PREPARE_AT_PERCENT: u64 = 25;
/// Where the disk is too slow for that, it is better to slow appends down a little now than to stop them at the end.
const HURRY_AT_PERCENT: u64 = 70;

/// What is written by its sender has at most so many bytes.
const ALONE_BYTES_MAX: usize = 64 * 1024;
/// How long a sync may take for a sender to wait for it without giving up its thread.
const SYNC_QUICK: Duration = Duration::from_millis(1);
/// What is assumed until a few syncs have shown how long they take.
pub(super) const SYNC_UNKNOWN: Duration = Duration::from_millis(2);

pub(super) struct Writer {
    pub queue: Arc<Queue>,
    pub catalog: Arc<Catalog>,
    pub published: watch::Sender<Durable>,
    pub preparer: Preparer,
    pub disk: Arc<dyn Disk>,
    pub pulse: Arc<Pulse>,
    pub clock: Clock,
    pub dir: PathBuf,
    pub segment_bytes: u32,
    pub active: Active,
    pub last_time_ms: u64,
    pub group: Group,
    pub health: Health,
    /// How long syncs take, on average of the last few.
    pub sync_time: Duration,
}

/// The segment that is written to.
pub(super) struct Active {
    pub segment: SegmentFile,
    pub header: SegmentHeader,
    /// Where the next group goes: offset, and position of its first record.
    pub end: u64,
    pub next_position: u64,
}

/// The group that is being formed; its buffers are used again.
#[derive(Default)]
pub(super) struct Group {
    buffer: Vec<u8>,
    waiting: Vec<Reply>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    /// A write found no room: that many bytes after the end may hold parts of it and must be zeros again first.
    Littered(usize),
    /// A write or sync failed in a way that leaves the disk's state unknown. For good: only reopening finds out.
    Broken,
}

impl Writer {
    fn serve(&mut self, taken: &mut Vec<Request>) {
        let mut requests = taken.drain(..).peekable();
        while let Some(first) = requests.peek() {
            match self.make_room(record_bytes(first.payload.len())) {
                Ok(()) => self.commit(&mut requests),
                Err(refusal) => self.refuse(&mut requests, refusal),
            }
        }
    }

    /// Whether a record can be written without much waiting.
    pub(super) fn is_quick(&self, bytes: usize) -> bool {
        let fits = bytes <= ALONE_BYTES_MAX && self.active.holds(bytes) && self.active.percent() < HURRY_AT_PERCENT;
        fits && self.health == Health::Good && self.sync_time < SYNC_QUICK
    }

    /// Writes the record of a sender who is alone.
    pub(super) fn append(&mut self, payload: Bytes) -> Result<Appended, AppendError> {
        let (reply, mut outcome) = oneshot::channel();
        self.serve(&mut vec![Request { payload, reply }]);
        outcome.try_recv().unwrap_or(Err(AppendError::Unknown))
    }

    /// After this a record of that size can be written. `Err`: nothing was.
    fn make_room(&mut self, bytes: usize) -> Result<(), AppendError> {
        match self.health {
            Health::Broken => return Err(AppendError::Unavailable),
            Health::Littered(litter) => self.clean(litter)?,
            Health::Good => {}
        }
        if self.active.holds(bytes) { Ok(()) } else { self.roll() }
    }

    fn commit(&mut self, requests: &mut Peekable<Drain<'_, Request>>) {
        let first = self.active.next_position;
        let time_ms = self.form(requests);
        let bytes = self.group.buffer.len();
        match self.store() {
            Ok(()) => {
                self.active.end += bytes as u64;
                self.active.next_position += self.group.waiting.len() as u64;
                self.last_time_ms = time_ms;
                let durable = self.active.durable();
                // Who has an answer finds its record durable. Tails are woken after the answers, for which someone waits.
                self.published.send_if_modified(|published| {
                    *published = durable;
                    false
                });
                for (position, reply) in (first..).zip(self.group.waiting.drain(..)) {
                    // Who dropped the future does not want the answer; the record stays.
                    let _ = reply.send(Ok(Appended { position, time_ms }));
                }
                self.published.send_modify(|_| {});
            }
            Err(failure) => {
                for reply in self.group.waiting.drain(..) {
                    let _ = reply.send(Err(failure));
                }
            }
        }
        self.queue.release(bytes);
        match self.active.percent() {
            ..PREPARE_AT_PERCENT => {}
            PREPARE_AT_PERCENT..HURRY_AT_PERCENT => self.preparer.want(),
            HURRY_AT_PERCENT.. => self.preparer.hurry(),
        }
    }

    /// Moves requests into the group until it or the segment is full; returns the time of all of them. The first one fits.
    fn form(&mut self, requests: &mut Peekable<Drain<'_, Request>>) -> u64 {
        let (salt, group) = (self.active.header.salt, self.active.next_position);
        let time_ms = (self.clock)().max(self.last_time_ms);
        self.group.buffer.clear();
        while let Some(request) = requests.next_if(|request| {
            let bytes = self.group.buffer.len() + record_bytes(request.payload.len());
            let count = self.group.waiting.len();
            count == 0 || (count < GROUP_RECORDS_MAX && bytes <= GROUP_BYTES_MAX && self.active.holds(bytes))
        }) {
            let position = group + self.group.waiting.len() as u64;
            record::encode(&mut self.group.buffer, salt, Head { position, group, time_ms }, &request.payload);
            self.group.waiting.push(request.reply);
        }
        time_ms
    }

    /// Writes and syncs the group. `Err` is the answer for all of it.
    fn store(&mut self) -> Result<(), AppendError> {
        match self.disk.write(&self.active.segment, &self.group.buffer, self.active.end) {
            Ok(()) => {
                let start = Instant::now();
                self.pulse.begin(start);
                let synced = self.disk.sync(&self.active.segment);
                self.pulse.end();
                self.sync_time = (self.sync_time * 7 + start.elapsed()) / 8;
                synced.map_err(|cause| self.breaks("sync", &cause, AppendError::Unknown))
            }
            // Segments are full of real zeros, so only a copy-on-write file system comes here.
            Err(cause) if is_full(&cause) => {
                warn!(file = %self.active.segment.path.display(), "no room to write into a log segment that was filled ahead");
                self.health = Health::Littered(self.group.buffer.len());
                // Parts of the group that stay on disk may be found when the log is next opened.
                self.clean(self.group.buffer.len()).map_err(|_| AppendError::Unknown)?;
                Err(AppendError::Full)
            }
            Err(cause) => Err(self.breaks("write", &cause, AppendError::Unknown)),
        }
    }

    /// Makes the bytes after the end zeros again, so that nothing of a refused group can ever be read.
    fn clean(&mut self, litter: usize) -> Result<(), AppendError> {
        match self.disk.write(&self.active.segment, &vec![0; litter], self.active.end) {
            Ok(()) => self.disk.sync(&self.active.segment).map_err(|cause| self.breaks("sync", &cause, AppendError::Unavailable))?,
            Err(cause) if is_full(&cause) => return Err(AppendError::Full),
            Err(cause) => return Err(self.breaks("write", &cause, AppendError::Unavailable)),
        }
        self.health = Health::Good;
        Ok(())
    }

    /// Goes on in the next segment. Everything in the current one is synced.
    fn roll(&mut self) -> Result<(), AppendError> {
        let prepared = self.preparer.take()?;
        let base = self.active.next_position;
        // An empty segment that is too small for the record, as older options made it, is replaced.
        let previous = if base == self.active.header.base { self.active.header.previous } else { self.active.header.base };
        let header = SegmentHeader { base, previous, bytes: self.segment_bytes, floor_ms: self.last_time_ms, ..self.active.header };
        match segment::write_header(&prepared, &header, &*self.disk) {
            Ok(()) => {}
            // Not part of the log yet: the file is simply made anew.
            Err(cause) if is_full(&cause) => return Err(AppendError::Full),
            Err(cause) => return Err(self.breaks("write header", &cause, AppendError::Unavailable)),
        }
        let segment = segment::publish(prepared, &self.dir, base, &*self.disk)
            .map_err(|cause| self.breaks("rename", &cause, AppendError::Unavailable))?;
        debug!(base, "log goes on in a new segment");
        self.catalog.roll(base, header.bytes, self.last_time_ms);
        self.active = Active { segment, header, end: SEGMENT_HEADER_BYTES as u64, next_position: base };
        Ok(())
    }

    fn refuse(&self, requests: &mut Peekable<Drain<'_, Request>>, refusal: AppendError) {
        let mut bytes = 0;
        for request in requests {
            bytes += record_bytes(request.payload.len());
            let _ = request.reply.send(Err(refusal));
        }
        self.queue.release(bytes);
    }

    /// Notes that the disk's state is unknown, and passes on the answer that follows from it.
    fn breaks(&mut self, doing: &'static str, cause: &std::io::Error, answer: AppendError) -> AppendError {
        self.health = Health::Broken;
        let file = self.active.segment.path.display();
        error!(%file, offset = self.active.end, doing, %cause, "log failed to write or sync and takes no appends until it is reopened");
        answer
    }
}

/// The writer, for its thread and for senders who are alone. None once the log is closed.
pub(super) type Shared = Mutex<Option<Writer>>;

pub(super) fn lock(writer: &Shared) -> MutexGuard<'_, Option<Writer>> {
    // Whoever panicked in the middle has ended the writer.
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The writer's thread.
pub(super) fn run(queue: &Queue, writer: &Shared) {
    let _end = Ends { queue, writer };
    let mut taken = Vec::new();
    while queue.wait() {
        let mut writer = lock(writer);
        let Some(writer) = &mut *writer else { return };
        // Only now: what was queued while a sender wrote by itself goes into one group.
        queue.take(&mut taken);
        writer.serve(&mut taken);
    }
}

/// However it ends, nobody waits for the writer for ever.
pub(super) struct Ends<'a> {
    pub queue: &'a Queue,
    pub writer: &'a Shared,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.queue.abandon();
        drop(lock(self.writer).take());
    }
}

impl Active {
    fn holds(&self, bytes: usize) -> bool {
        self.end + bytes as u64 <= u64::from(self.header.bytes)
    }

    /// How full it is.
    fn percent(&self) -> u64 {
        self.end * 100 / u64::from(self.header.bytes)
    }

    pub(super) fn durable(&self) -> Durable {
        Durable { position: self.next_position, segment: self.header.base, offset: self.end }
    }
}
