//! Consistent reads: a position that has been published, and what must be kept for those who still read at an older one.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lsm_tree::{AbstractTree, Guard, SeqNo, Slice};
use tracing::warn;

use super::error::{TreeError, guarded};
use super::{FIRST_FREE_KEY, Shared, is_reserved};

/// The state as it was after some batch. Cheap to take, and any number may be open; it may outlive the tree.
///
/// While it is open, the memtables and tables of every later moment are kept as well, so it expires after `Options::snapshot_max`.
/// An iterator taken from it keeps only its own moment, and goes on after that.
pub struct Snapshot {
    shared: Arc<Shared>,
    seqno: SeqNo,
    applied: Option<u64>,
}

impl Snapshot {
    pub(super) fn open(shared: Arc<Shared>) -> Self {
        let (seqno, applied) = shared.tracker.open();
        Self { shared, seqno, applied }
    }

    /// The log's position up to which this snapshot has everything.
    pub fn applied(&self) -> Option<u64> {
        self.applied
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Slice>, TreeError> {
        if is_reserved(key) {
            return Ok(None);
        }
        self.read(|tree, seqno| tree.get(key, seqno))
    }

    /// Rows in the order of their keys; `rev()` for the other direction. After an error the iterator is of no use.
    pub fn range<'a>(&self, bounds: impl RangeBounds<&'a [u8]>) -> Result<Rows, TreeError> {
        let start = match bounds.start_bound().cloned() {
            Bound::Included(key) | Bound::Excluded(key) if key < FIRST_FREE_KEY => Bound::Included(FIRST_FREE_KEY),
            Bound::Unbounded => Bound::Included(FIRST_FREE_KEY),
            start => start,
        };
        let end = bounds.end_bound().cloned();
        if is_empty(start, end) {
            return Ok(Rows { shared: Arc::clone(&self.shared), rows: Box::new(std::iter::empty()) });
        }
        let rows = self.read(|tree, seqno| Ok(tree.range::<&[u8], _>((start, end), seqno, None)))?;
        Ok(Rows { shared: Arc::clone(&self.shared), rows })
    }

    pub fn prefix(&self, prefix: &[u8]) -> Result<Rows, TreeError> {
        match after_prefix(prefix) {
            Some(end) => self.range((Bound::Included(prefix), Bound::Excluded(&end[..]))),
            None => self.range((Bound::Included(prefix), Bound::Unbounded)),
        }
    }

    /// The engine finds the version of its files that belongs to the position, or panics if that is gone; it never takes a later one.
    fn read<T>(&self, call: impl FnOnce(&lsm_tree::Tree, SeqNo) -> lsm_tree::Result<T>) -> Result<T, TreeError> {
        if self.is_expired() {
            return Err(TreeError::SnapshotExpired);
        }
        let result = guarded(&self.shared.dir, || call(&self.shared.tree, self.seqno));
        if result.is_err() && self.is_expired() { Err(TreeError::SnapshotExpired) } else { result }
    }

    fn is_expired(&self) -> bool {
        self.seqno < self.shared.tracker.expired_below.load(Ordering::Acquire)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.shared.tracker.close(self.seqno);
    }
}

/// The rows of a range, from both ends.
pub struct Rows {
    shared: Arc<Shared>,
    rows: BoxedRows,
}

type BoxedRows = Box<dyn DoubleEndedIterator<Item = lsm_tree::IterGuardImpl> + Send>;

impl Rows {
    fn row(&mut self, next: impl FnOnce(&mut BoxedRows) -> Option<lsm_tree::IterGuardImpl>) -> Option<Result<(Slice, Slice), TreeError>> {
        let Self { shared, rows } = self;
        guarded(&shared.dir, || next(rows).map(Guard::into_inner).transpose()).transpose()
    }
}

impl Iterator for Rows {
    type Item = Result<(Slice, Slice), TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.row(Iterator::next)
    }
}

impl DoubleEndedIterator for Rows {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.row(DoubleEndedIterator::next_back)
    }
}

/// The published position and who reads at which one.
pub(super) struct Tracker {
    state: Mutex<Published>,
    /// Snapshots below this position have been given up.
    expired_below: AtomicU64,
}

struct Published {
    seqno: SeqNo,
    applied: Option<u64>,
    open: BTreeMap<SeqNo, Open>,
}

struct Open {
    count: usize,
    newest: Instant,
}

impl Tracker {
    pub(super) fn new(seqno: SeqNo, applied: Option<u64>) -> Self {
        Self { state: Mutex::new(Published { seqno, applied, open: BTreeMap::new() }), expired_below: AtomicU64::new(0) }
    }

    /// Lets new snapshots see everything below a sequence number.
    pub(super) fn publish(&self, seqno: SeqNo, applied: u64) {
        let mut state = self.state();
        state.seqno = seqno;
        state.applied = Some(applied);
    }

    /// Lets new snapshots read at a later number without new rows below it.
    pub(super) fn advance(&self, seqno: SeqNo) {
        let mut state = self.state();
        state.seqno = state.seqno.max(seqno);
    }

    pub(super) fn applied(&self) -> Option<u64> {
        self.state().applied
    }

    pub(super) fn open_count(&self) -> usize {
        self.state().open.values().map(|open| open.count).sum()
    }

    /// Reads the position and registers it in one step: a threshold computed in between would not know of it.
    fn open(&self) -> (SeqNo, Option<u64>) {
        let mut state = self.state();
        let (seqno, applied) = (state.seqno, state.applied);
        let open = state.open.entry(seqno).or_insert_with(|| Open { count: 0, newest: Instant::now() });
        open.count += 1;
        open.newest = Instant::now();
        (seqno, applied)
    }

    fn close(&self, seqno: SeqNo) {
        let mut state = self.state();
        // An expired snapshot is no longer listed.
        let Some(open) = state.open.get_mut(&seqno) else { return };
        open.count -= 1;
        if open.count == 0 {
            state.open.remove(&seqno);
        }
    }

    /// The oldest position that someone may read at, now or later. Gives up snapshots that are too old.
    pub(super) fn watermark(&self, age_max: Duration) -> SeqNo {
        let mut state = self.state();
        let published = state.seqno;
        while let Some(oldest) = state.open.first_entry()
            && *oldest.key() < published
            && oldest.get().newest.elapsed() > age_max
        {
            let (seqno, open) = oldest.remove_entry();
            warn!(count = open.count, "snapshots were open for too long and have expired");
            self.expired_below.store(seqno + 1, Ordering::Release);
        }
        state.open.keys().next().copied().unwrap_or(published)
    }

    fn state(&self) -> MutexGuard<'_, Published> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_empty(start: Bound<&[u8]>, end: Bound<&[u8]>) -> bool {
    match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
        _ => false,
    }
}

/// The first key after all that begin with a prefix; `None` if there is no such key.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
