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

/// How often it is tried whether the engine is back, while nobody else asks it.
const PAUSE: Duration = Duration::from_secs(1);

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
    /// While it is open: when the next call is let through.
    next: Option<Instant>,
}

impl Breaker {
    /// Opens when several calls in a row have failed, the first of them so long ago as its users would wait.
    pub fn new(engine: impl Into<String>, patience: Duration) -> Breaker {
        Breaker { engine: engine.into(), patience, has_failed: AtomicBool::new(false), row: Mutex::default() }
    }

    /// Whether to ask the engine. While it is open, one call now and then is let through, to see.
    pub fn check(&self) -> Result<(), StoreError> {
        self.check_at(Instant::now())
    }

    /// Whatever it said: it is there.
    pub fn answered(&self) {
        if self.has_failed.swap(false, Ordering::Relaxed) {
            let row = std::mem::take(&mut *self.row());
            if row.next.is_some() {
                info!(engine = self.engine, "it answers again");
            }
        }
    }

    pub fn failed(&self, why: &str) {
        self.failed_at(why, Instant::now());
    }

    /// Why nobody is let through.
    pub fn trouble(&self) -> Option<String> {
        let row = self.row();
        row.next.map(|_| self.away(&row))
    }

    fn check_at(&self, now: Instant) -> Result<(), StoreError> {
        if !self.has_failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut row = self.row();
        match row.next {
            Some(next) if now < next => Err(StoreError::Unavailable(self.away(&row))),
            Some(_) => {
                row.next = Some(now + PAUSE);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn failed_at(&self, why: &str, now: Instant) {
        let mut row = self.row();
        self.has_failed.store(true, Ordering::Relaxed);
        row.failures = row.failures.saturating_add(1);
        let since = *row.since.get_or_insert(now);
        why.clone_into(&mut row.why);
        if row.next.is_none() && row.failures >= FAILURES_MAX && now.saturating_duration_since(since) >= self.patience {
            warn!(engine = self.engine, why, "it failed again and again; not asked until it answers one call in a second");
            row.next = Some(now + PAUSE);
        }
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

    fn failing(times: u32, begun: Instant) -> Breaker {
        let breaker = Breaker::new("an engine", PATIENCE);
        (0..times).for_each(|number| breaker.failed_at("no route", begun + PATIENCE * number / 4));
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_that_lasted_and_says_why() {
        let begun = Instant::now();
        assert!(failing(4, begun).check_at(begun + PATIENCE).is_ok(), "too few");
        let breaker = failing(5, begun);
        let refused = breaker.check_at(begun + PATIENCE);
        assert!(matches!(&refused, Err(StoreError::Unavailable(why)) if why == "an engine does not answer: no route"), "{refused:?}");
        assert_eq!(breaker.trouble().as_deref(), Some("an engine does not answer: no route"));

        let quick = Breaker::new("an engine", PATIENCE);
        (0..100).for_each(|_| quick.failed_at("no route", begun));
        assert!(quick.check_at(begun).is_ok() && quick.trouble().is_none(), "no longer than its users wait anyway");
    }

    #[test]
    fn an_answer_between_failures_begins_the_row_anew() {
        let begun = Instant::now();
        let breaker = failing(4, begun);
        breaker.answered();
        breaker.failed_at("no route", begun + PATIENCE);
        assert!(breaker.check_at(begun + PATIENCE).is_ok());
    }

    #[test]
    fn one_call_a_second_is_let_through_and_an_answer_closes_it() {
        let begun = Instant::now();
        let breaker = failing(5, begun);
        let later = begun + PATIENCE + PAUSE;
        assert!(breaker.check_at(later).is_ok(), "one");
        assert!(breaker.check_at(later).is_err(), "and no other");
        breaker.failed_at("no route", later);
        assert!(breaker.check_at(later + PAUSE / 2).is_err());
        assert!(breaker.check_at(later + PAUSE).is_ok());
        breaker.answered();
        assert!((0..3).all(|_| breaker.check_at(later + PAUSE).is_ok()) && breaker.trouble().is_none());
    }
}
