//! What the applier, the flusher and the compactor tell one another, and how they wait for one another.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lsm_tree::Memtable;

use super::error::TreeError;
use super::{Options, Shared};

/// Level 0 is looked through run by run, and the manifest counts its runs in one byte without a check: at 256 it would lose tables.
const L0_RUNS_MAX: usize = 24;
/// From here on batches are slowed down, so that compaction catches up before the limit stops them for seconds.
const L0_RUNS_SLOW: usize = 16;
/// How often a waiting `flush` looks whether a failure has lasted for too long.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
pub(super) const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// A damaged table does not mend itself; trying again writes for nothing up to where the damage is.
pub(super) const RETRY_CORRUPT: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Work {
    /// Sealed memtables that wait for the flusher, oldest first.
    pub sealed: VecDeque<Sealed>,
    /// How many memtables have been sealed, and flushed, since opening.
    pub sealed_count: u64,
    pub flushed_count: u64,
    /// The log's position that is durable in tables.
    pub flushed: Option<u64>,
    pub l0_runs: usize,
    pub compaction_due: bool,
    pub is_compacting: bool,
    /// Flushed memtables that the engine still holds, for snapshots. It would free the last reference under its lock, with all readers
    /// waiting for a hundred thousand little frees; this list holds one more.
    pub retired: Vec<Arc<Memtable>>,
    /// Readers have moved on since, so that some of them may be let go.
    pub retired_due: bool,
    /// The engine has panicked; nothing is asked of it any more.
    pub broken: Option<TreeError>,
    /// The last failure of each thread, until it succeeds again.
    pub flush_failure: Option<TreeError>,
    pub compaction_failure: Option<TreeError>,
}

pub(super) struct Sealed {
    pub memtable: Arc<Memtable>,
    /// The log's position that its last batch reached.
    pub applied: u64,
}

impl Work {
    pub(super) fn new(flushed: Option<u64>, l0_runs: usize) -> Self {
        Self { flushed, l0_runs, compaction_due: true, ..Self::default() }
    }

    pub(super) fn has_room(&self, options: &Options) -> bool {
        self.sealed.len() < options.sealed_max.max(1) && self.l0_runs < L0_RUNS_MAX
    }

    /// What there is to flush: how many memtables, up to which position. `Some(None)`: nothing, but some may be let go.
    pub(super) fn take_flush(&mut self) -> Option<Option<(usize, u64)>> {
        match self.sealed.back() {
            Some(last) => Some(Some((self.sealed.len(), last.applied))),
            None => std::mem::take(&mut self.retired_due).then_some(None),
        }
    }

    pub(super) fn take_compaction(&mut self) -> Option<()> {
        self.is_compacting = std::mem::take(&mut self.compaction_due);
        self.is_compacting.then_some(())
    }

    /// How many times as long as it took a batch should be made to take longer.
    pub(super) fn slowdown(&self) -> u32 {
        u32::try_from(self.l0_runs.saturating_sub(L0_RUNS_SLOW)).unwrap_or(u32::MAX).div_ceil(2)
    }

    pub(super) fn failure(&self) -> Option<TreeError> {
        [&self.broken, &self.flush_failure, &self.compaction_failure].into_iter().find_map(Clone::clone)
    }
}

impl Shared {
    /// Waits until a memtable may be sealed, for `stall_max` at most.
    pub(super) fn wait_for_room(&self) -> Result<(), TreeError> {
        let deadline = Instant::now() + self.options.stall_max;
        let mut work = self.work();
        loop {
            if let Some(broken) = &work.broken {
                return Err(broken.clone());
            }
            if work.has_room(&self.options) {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(work.failure().unwrap_or_else(|| TreeError::Unavailable("flushing and compaction are behind".to_owned())));
            }
            work = self.wait(work, left);
        }
    }

    /// Waits until the first `count` sealed memtables are in tables; gives up when a failure lasts for `stall_max`.
    pub(super) fn wait_for_flush(&self, count: u64) -> Result<(), TreeError> {
        let mut deadline = Instant::now() + self.options.stall_max;
        let mut work = self.work();
        while work.flushed_count < count {
            if let Some(broken) = &work.broken {
                return Err(broken.clone());
            }
            let Some(failure) = &work.flush_failure else {
                deadline = Instant::now() + self.options.stall_max;
                work = self.wait(work, LOOK_AGAIN);
                continue;
            };
            if Instant::now() >= deadline {
                return Err(failure.clone());
            }
            work = self.wait(work, LOOK_AGAIN);
        }
        Ok(())
    }

    /// Tells both threads to end. What is sealed but not flushed stays in the log.
    pub(super) fn stop(&self) {
        // Under the lock, so that a thread that has just looked and is about to wait hears of it.
        let _work = self.work();
        self.stop.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    pub(super) fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, work: MutexGuard<'a, Work>, time: Duration) -> MutexGuard<'a, Work> {
        self.changed.wait_timeout(work, time).unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Waits for something to do; `None` on the way out.
    pub(super) fn next<T>(&self, find: impl Fn(&mut Work) -> Option<T>) -> Option<T> {
        let mut work = self.work();
        while !self.stopped() {
            if let Some(found) = find(&mut work) {
                return Some(found);
            }
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Waits before another try, twice as long each time, and not on the way out.
    pub(super) fn back_off(&self, retry: &mut Duration) {
        let until = Instant::now() + *retry;
        *retry = (*retry * 2).min(RETRY_MAX);
        let mut work = self.work();
        while !self.stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            work = self.wait(work, left);
        }
    }

    /// Notes a failure for those who wait; says whether it is the end.
    pub(super) fn fail(&self, failure: TreeError, place: impl FnOnce(&mut Work) -> &mut Option<TreeError>) -> bool {
        let mut work = self.work();
        let is_broken = matches!(failure, TreeError::Broken(_));
        *(if is_broken { &mut work.broken } else { place(&mut work) }) = Some(failure);
        self.changed.notify_all();
        is_broken
    }

    pub(super) fn free_memtables(&self) {
        let unused: Vec<_> = self.work().retired.extract_if(.., |memtable| Arc::strong_count(memtable) == 1).collect();
        drop(unused);
    }
}
