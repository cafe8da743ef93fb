//! Since when the disk has been asked to sync, for whoever wants to know whether it hangs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) struct Pulse {
    origin: Instant,
    /// Microseconds after the origin, and one; zero while nothing is being synced.
    since: AtomicU64,
}

impl Pulse {
    pub fn new() -> Self {
        Self { origin: Instant::now(), since: AtomicU64::new(0) }
    }

    pub fn begin(&self, now: Instant) {
        self.since.store(now.duration_since(self.origin).as_micros() as u64 + 1, Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    pub fn beats_since(&self) -> Option<Duration> {
        let since = self.since.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.origin.elapsed().saturating_sub(Duration::from_micros(since)))
    }
}
