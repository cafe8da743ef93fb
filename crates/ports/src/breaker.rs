//! Stops asking an engine that does not answer: callers are told at once, and it can come back in peace.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tracing::{info, warn};

use crate::StoreError;

/// So many failures in a row are no accident.
const FAILURES_MAX: u32 = 5;

pub struct Breaker {
    engine: String,
    patience: Duration,
    /// Whether the last call failed, so that calls to an engine that answers take no lock.
    has_failed: AtomicBool,
    row: Mutex<Row>,
}

/// Failures, one after the other.
#[derive(Default)]
struct Row {
    failures: u32,
    since: Option<Instant>,
    why: String,
    is_open: bool,
}

impl Breaker {
    /// How often to ask an engine whether it is back, while nobody else does.
    pub const PAUSE: Duration = Duration::from_secs(1);

    /// Opens when several calls in a row have failed, the first of them so long ago as its users would wait.
    pub fn new(engine: impl Into<String>, patience: Duration) -> Breaker {
        Breaker { engine: engine.into(), patience, has_failed: AtomicBool::new(false), row: Mutex::default() }
    }

    /// Whether to ask the engine.
    pub fn check(&self) -> Result<(), StoreError> {
        if !self.has_failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let row = self.row();
        if row.is_open { Err(StoreError::Unavailable(self.away(&row))) } else { Ok(()) }
    }

    /// Whatever it said: it is there.
    pub fn answered(&self) {
        if self.has_failed.swap(false, Ordering::Relaxed) {
            let row = std::mem::take(&mut *self.row());
            if row.is_open {
                info!(engine = self.engine, "it answers again");
            }
        }
    }

    /// Whether it has opened by this. Then whoever hears of it asks the engine every [`Breaker::PAUSE`] until it answers, for nobody else
    /// does: a caller that were let through to see could be given up together with others of its request that were not.
    #[must_use]
    pub fn failed(&self, why: &str) -> bool {
        self.failed_at(why, Instant::now())
    }

    /// Why nobody is let through.
    pub fn trouble(&self) -> Option<String> {
        let row = self.row();
        row.is_open.then(|| self.away(&row))
    }

    fn failed_at(&self, why: &str, now: Instant) -> bool {
        let mut row = self.row();
        self.has_failed.store(true, Ordering::Relaxed);
        row.failures = row.failures.saturating_add(1);
        let since = *row.since.get_or_insert(now);
        why.clone_into(&mut row.why);
        if row.is_open || row.failures < FAILURES_MAX || now.saturating_duration_since(since) < self.patience {
            return false;
        }
        warn!(engine = self.engine, why, "it failed again and again; not asked by others until it answers one question in a second");
        row.is_open = true;
        true
    }

    fn away(&self, row: &Row) -> String {
        format!("{} does not answer: {}", self.engine, row.why)
    }

    fn row(&self) -> MutexGuard<'_, Row> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(3);

    /// And how often it has opened.
    fn failing(times: u32, begun: Instant) -> (Breaker, usize) {
        let breaker = Breaker::new("an engine", PATIENCE);
        let opened = (0..times).filter(|number| breaker.failed_at("no route", begun + PATIENCE * *number / 4)).count();
        (breaker, opened)
    }

    #[test]
    fn it_opens_once_after_failures_in_a_row_that_lasted_and_says_why() {
        let begun = Instant::now();
        let (breaker, opened) = failing(4, begun);
        assert!(breaker.check().is_ok() && opened == 0, "too few");
        let (breaker, opened) = failing(9, begun);
        let refused = breaker.check();
        assert!(matches!(&refused, Err(StoreError::Unavailable(why)) if why == "an engine does not answer: no route"), "{refused:?}");
        assert_eq!((breaker.trouble().as_deref(), opened), (Some("an engine does not answer: no route"), 1));

        let quick = Breaker::new("an engine", PATIENCE);
        assert!((0..100).all(|_| !quick.failed_at("no route", begun)));
        assert!(quick.check().is_ok() && quick.trouble().is_none(), "no longer than its users wait anyway");
    }

    #[test]
    fn an_answer_between_failures_begins_the_row_anew() {
        let begun = Instant::now();
        let (breaker, _) = failing(4, begun);
        breaker.answered();
        assert!(!breaker.failed_at("no route", begun + PATIENCE) && breaker.check().is_ok());
    }

    #[test]
    fn nobody_is_let_through_until_an_answer_closes_it() {
        let (breaker, _) = failing(5, Instant::now());
        assert!((0..3).all(|_| breaker.check().is_err()));
        breaker.answered();
        assert!((0..3).all(|_| breaker.check().is_ok()) && breaker.trouble().is_none());
    }
}
