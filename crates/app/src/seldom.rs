//! Says what goes wrong again and again only now and then.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

const PAUSE: Duration = Duration::from_secs(30);

/// One for each sentence.
#[derive(Default)]
pub struct Seldom(Mutex<Said>);

#[derive(Default)]
struct Said {
    last: Option<Instant>,
    since: u64,
}

impl Seldom {
    pub const fn new() -> Seldom {
        Seldom(Mutex::new(Said { last: None, since: 0 }))
    }

    /// Whether it is time to say it, and how often it was not said since it was.
    pub fn now(&self) -> Option<u64> {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> Option<u64> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            said.since += 1;
            return None;
        }
        said.last = Some(now);
        Some(std::mem::take(&mut said.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_at_once_and_then_now_and_then_with_how_often_it_was_not() {
        let (seldom, begun) = (Seldom::new(), Instant::now());
        assert_eq!(seldom.at(begun), Some(0));
        assert_eq!((seldom.at(begun), seldom.at(begun + PAUSE / 2)), (None, None));
        assert_eq!(seldom.at(begun + PAUSE), Some(2));
        assert_eq!(seldom.at(begun + PAUSE * 2), Some(0));
    }
}
