//! What callers were told, and when.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use dunlin_client::{
    Error,
    protocol::{Code, Outcome, Sent},
};

/// Of all callers together.
pub struct Ledger {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    records: BTreeMap<usize, Vec<Said>>,
    /// Tries that were not acknowledged, of sends and marks, by what came instead; and the same of reads.
    refused: BTreeMap<String, u64>,
    reads_refused: BTreeMap<String, u64>,
    unknown: u64,
    reads: u64,
    /// What a reader saw and can't be.
    wrong: Vec<String>,
}

/// What a sender was told of one of its messages.
#[derive(Clone)]
pub struct Said {
    pub outcome: Told,
    pub begun: Instant,
    pub ended: Instant,
    /// When it was first known to be visible: with the answer, or later, if it was asked for.
    pub visible: Option<Instant>,
}

#[derive(Clone)]
pub enum Told {
    /// In the log. Its seq and number, if it was visible when the answer came.
    Sent { place: Option<(u64, u64)>, token: String },
    /// Each time that it was tried: it is not in the log.
    Refused,
    /// Never; it may be there or not.
    Nothing,
}

impl Told {
    pub fn by(sent: Sent) -> Told {
        let is_visible = sent.outcome != Outcome::Pending;
        Told::Sent { place: sent.seq.zip(sent.n).filter(|_| is_visible), token: sent.token }
    }

    pub fn is_visible(&self) -> bool {
        matches!(self, Told::Sent { place: Some(_), .. })
    }

    pub fn is_sent(&self) -> bool {
        matches!(self, Told::Sent { .. })
    }
}

/// Whether an answer says that nothing was done and nothing will be.
pub fn is_refusal(error: &Error) -> bool {
    matches!(error.code(), Some(Code::Unavailable | Code::Busy | Code::RateLimited | Code::ConversationParked))
}

/// As a report names it.
fn name(error: &Error) -> String {
    match error {
        Error::Problem(problem) => format!("{} {}", problem.status, problem.code),
        Error::Timeout(_) => "no answer".to_owned(),
        Error::Transport(_) => "no connection".to_owned(),
        other => other.to_string(),
    }
}

impl Ledger {
    pub fn new() -> Ledger {
        Ledger { inner: Mutex::default() }
    }

    /// Gives its number.
    pub fn said(&self, sender: usize, outcome: Told, begun: Instant) -> usize {
        let ended = Instant::now();
        let visible = outcome.is_visible().then_some(ended);
        let mut inner = self.inner();
        let record = inner.records.entry(sender).or_default();
        record.push(Said { outcome, begun, ended, visible });
        record.len() - 1
    }

    pub fn is_visible(&self, sender: usize, number: usize) {
        if let Some(said) = self.inner().records.get_mut(&sender).and_then(|record| record.get_mut(number)) {
            said.visible.get_or_insert_with(Instant::now);
        }
    }

    pub fn failed(&self, error: &Error) {
        let mut inner = self.inner();
        if !is_refusal(error) {
            inner.unknown += 1;
        }
        *inner.refused.entry(name(error)).or_default() += 1;
    }

    pub fn read(&self) {
        self.inner().reads += 1;
    }

    pub fn read_failed(&self, error: &Error) {
        *self.inner().reads_refused.entry(name(error)).or_default() += 1;
    }

    pub fn wrong(&self, what: String) {
        self.inner().wrong.push(what);
    }

    pub fn record(&self, sender: usize) -> Vec<Said> {
        self.inner().records.get(&sender).cloned().unwrap_or_default()
    }

    pub fn sums(&self) -> Sums {
        let inner = self.inner();
        let all = || inner.records.values().flatten();
        let count = |is: fn(&Told) -> bool| all().filter(|said| is(&said.outcome)).count() as u64;
        Sums {
            acknowledged: count(Told::is_sent),
            pending: count(|told| told.is_sent() && !told.is_visible()),
            given_up: count(|told| matches!(told, Told::Refused)),
            never_told: count(|told| matches!(told, Told::Nothing)),
            unknown: inner.unknown,
            refused: inner.refused.clone(),
            reads: inner.reads,
            reads_refused: inner.reads_refused.clone(),
            wrong: inner.wrong.clone(),
            longest_pause: longest_pause(all().filter(|said| said.outcome.is_sent()).map(|said| said.ended).collect()),
            longest_wait: all().map(|said| said.ended - said.begun).max().unwrap_or_default(),
        }
    }

    /// When every sender had been served again: a message that it began after `since` was visible.
    pub fn all_served(&self, senders: usize, since: Instant) -> Option<Instant> {
        let inner = self.inner();
        let first = |sender| {
            let said = inner.records.get(&sender)?;
            said.iter().filter(|said| said.begun >= since).filter_map(|said| said.visible).min()
        };
        (0..senders).map(first).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Whether every sender was acknowledged something that it began after `since`, before `until`.
    pub fn all_acknowledged(&self, senders: usize, since: Instant, until: Instant) -> bool {
        let inner = self.inner();
        let is_it = |said: &Said| said.begun >= since && said.ended <= until && said.outcome.is_sent();
        (0..senders).all(|sender| inner.records.get(&sender).is_some_and(|record| record.iter().any(is_it)))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Sums {
    pub acknowledged: u64,
    /// Of those: not visible yet when the answer came (202).
    pub pending: u64,
    pub given_up: u64,
    pub never_told: u64,
    /// Tries without an answer, or with one that says so.
    pub unknown: u64,
    pub refused: BTreeMap<String, u64>,
    pub reads: u64,
    pub reads_refused: BTreeMap<String, u64>,
    pub wrong: Vec<String>,
    /// The longest time in which nobody was acknowledged anything.
    pub longest_pause: Duration,
    /// The longest that someone waited for one acknowledgement, with all its tries.
    pub longest_wait: Duration,
}

fn longest_pause(mut at: Vec<Instant>) -> Duration {
    at.sort();
    at.windows(2).map(|two| two[1] - two[0]).max().unwrap_or_default()
}
