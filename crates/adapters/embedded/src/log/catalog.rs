//! Which segments there are: shared by the writer, which adds, `trim`, which removes, and tails, which look up.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A segment of the log as `Log::segments` lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Position of its first record.
    pub base: u64,
    /// Position after its last durable record.
    pub end: u64,
    /// Size of its file.
    pub bytes: u32,
    /// Time of its last record; `None` while it is still written to.
    pub closed_ms: Option<u64>,
}

/// Never empty; ascending and without gaps; only the last segment is open.
#[derive(Debug)]
pub(super) struct Catalog {
    segments: Mutex<VecDeque<SegmentInfo>>,
}

impl Catalog {
    pub(super) fn new(segments: VecDeque<SegmentInfo>) -> Self {
        assert!(!segments.is_empty(), "invariant: a log has at least one segment");
        Self { segments: Mutex::new(segments) }
    }

    /// Closes the last segment at `base` and begins the next one there; one that is empty is replaced.
    pub(super) fn roll(&self, base: u64, bytes: u32, closed_ms: u64) {
        let mut segments = self.lock();
        segments.pop_back_if(|last| last.base == base);
        if let Some(last) = segments.back_mut() {
            last.end = base;
            last.closed_ms = Some(closed_ms);
        }
        segments.push_back(SegmentInfo { base, end: base, bytes, closed_ms: None });
    }

    /// The segment that holds a position, the last one if none is beyond it. `Err`: the oldest position, if that is above.
    pub(super) fn find(&self, position: u64) -> Result<SegmentInfo, u64> {
        let segments = self.lock();
        let after = segments.partition_point(|segment| segment.base <= position);
        after.checked_sub(1).map(|index| segments[index]).ok_or(segments[0].base)
    }

    /// Takes the oldest segment off the list if it is closed and wholly below the position.
    pub(super) fn pop_below(&self, position: u64) -> Option<SegmentInfo> {
        self.lock().pop_front_if(|oldest| oldest.closed_ms.is_some() && oldest.end <= position)
    }

    /// Puts back what `pop_below` took.
    pub(super) fn restore(&self, segment: SegmentInfo) {
        self.lock().push_front(segment);
    }

    pub(super) fn oldest(&self) -> u64 {
        self.lock()[0].base
    }

    /// A copy, in which the open segment ends at the durable position.
    pub(super) fn list(&self, durable: u64) -> Vec<SegmentInfo> {
        let mut list = Vec::from(self.lock().clone());
        if let Some(open) = list.last_mut() {
            open.end = durable.max(open.base);
        }
        list
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<SegmentInfo>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
