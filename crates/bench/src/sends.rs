//! Sends through the use case, and what becomes of them: acknowledged when the log has it, visible when the projector has judged it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use dunlin_app::{App, AppError, Submitted, outcome_of};
use dunlin_model::{Outcome, UserId};
use dunlin_ports::StoreError;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{Lane, LaneRecord, Latencies, Ledger, People, Summary, random::Random, tag::Tag};

/// How many tasks wait for outcomes on behalf of all senders. Outcomes come in the order of acknowledgements, nearly.
const WATCHERS: u32 = 2;
/// How long an outcome is waited for.
const OUTCOME_MAX: Duration = Duration::from_secs(30);

/// When a sender goes on to its next message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    WhenAcked,
    WhenVisible,
}

/// To whom.
#[derive(Clone)]
pub enum Aim {
    Anyone,
    /// Anyone, until so many were sent by all who share this.
    Counted(Arc<AtomicI64>),
    /// These, from the last to the first.
    These(Vec<(UserId, UserId)>),
}

/// A number of senders over one app, and what they measured.
pub struct Sends {
    pub lanes: Vec<Sender>,
    ack: Arc<Latencies>,
    visible: Arc<Latencies>,
    watchers: Vec<JoinHandle<u64>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub acked: u64,
    pub refused: u64,
    pub unknown: u64,
    pub surprises: u64,
    pub ack: Summary,
    pub visible: Summary,
}

impl Sends {
    pub fn new(app: &App, people: &Arc<People>, ledger: &mut Ledger, pace: Pace, aims: impl IntoIterator<Item = Aim>) -> Sends {
        let (ack, visible) = (Arc::new(Latencies::default()), Arc::new(Latencies::default()));
        let (watches, watchers): (Vec<_>, Vec<_>) = (0..WATCHERS).map(|number| watcher(app, number, Arc::clone(&visible))).unzip();
        let lanes = aims.into_iter().map(|aim| {
            let record = ledger.lane();
            Sender {
                app: app.clone(),
                people: Arc::clone(people),
                random: Random::new(record.lane.into()),
                watch: (pace == Pace::WhenAcked).then(|| watches[record.lane as usize % watches.len()].clone()),
                record,
                aim,
                ack: Arc::clone(&ack),
                visible: Arc::clone(&visible),
            }
        });
        Sends { lanes: lanes.collect(), ack, visible, watchers }
    }

    /// The senders, to be driven; then `done` with them.
    pub fn take(&mut self) -> Vec<Sender> {
        std::mem::take(&mut self.lanes)
    }

    /// Waits until all is visible, and enters it into the ledger.
    pub async fn done(self, lanes: Vec<Sender>, ledger: &mut Ledger) -> Result<Sent> {
        let mut sent = Sent { acked: 0, refused: 0, unknown: 0, surprises: 0, ack: Summary::default(), visible: Summary::default() };
        // With the last sender goes the last end of the channels.
        for Sender { record, .. } in lanes {
            sent.acked += record.acked();
            sent.refused += record.refused.len() as u64;
            sent.unknown += record.unknown.len() as u64;
            sent.surprises += record.surprises;
            ledger.keep(record);
        }
        for watcher in self.watchers {
            sent.surprises += watcher.await?;
        }
        (sent.ack, sent.visible) = (self.ack.summary(), self.visible.summary());
        Ok(sent)
    }
}

pub struct Sender {
    app: App,
    people: Arc<People>,
    random: Random,
    record: LaneRecord,
    aim: Aim,
    watch: Option<mpsc::UnboundedSender<(Instant, Submitted)>>,
    ack: Arc<Latencies>,
    visible: Arc<Latencies>,
}

impl Lane for Sender {
    async fn run(&mut self, due: Instant) -> bool {
        let pair = match &mut self.aim {
            Aim::Anyone => self.people.pair(&mut self.random),
            Aim::Counted(left) if left.fetch_sub(1, Ordering::Relaxed) > 0 => self.people.pair(&mut self.random),
            Aim::Counted(_) => return false,
            Aim::These(pairs) => match pairs.pop() {
                Some(pair) => pair,
                None => return false,
            },
        };
        let tag = Tag { lane: self.record.lane, count: self.record.tried };
        let Ok(message) = self.people.message(tag, pair) else { return false };
        self.record.tried += 1;
        match self.app.send_soon(message).await {
            Ok(submitted) => self.acked(due, submitted).await,
            Err(error) => self.failed(tag, &error).await,
        }
        true
    }
}

impl Sender {
    async fn acked(&mut self, due: Instant, submitted: Submitted) {
        self.ack.record(self.record.lane, due.elapsed());
        match &self.watch {
            // The watcher outlives all senders.
            Some(watch) => drop(watch.send((due, submitted))),
            None => {
                let expected = is_accepted(&self.app, submitted).await;
                self.visible.record(self.record.lane, due.elapsed());
                self.record.surprises += u64::from(!expected);
            }
        }
    }

    async fn failed(&mut self, tag: Tag, error: &AppError) {
        /// Whoever was refused at once must not spin.
        const BREAK: Duration = Duration::from_millis(10);
        match error {
            AppError::Store(StoreError::Unknown(_)) => self.record.unknown.push(tag.count),
            _ => self.record.refused.push(tag.count),
        }
        tokio::time::sleep(BREAK).await;
    }
}

/// Notes when what the senders hand over becomes visible. Returns how many ended in another way than they should.
fn watcher(app: &App, number: u32, visible: Arc<Latencies>) -> (mpsc::UnboundedSender<(Instant, Submitted)>, JoinHandle<u64>) {
    // Unbounded by itself; the use case bounds how many wait to be judged.
    let (sender, mut coming) = mpsc::unbounded_channel();
    let app = app.clone();
    let task = tokio::spawn(async move {
        let mut surprises = 0;
        while let Some((due, submitted)) = coming.recv().await {
            let expected = is_accepted(&app, submitted).await;
            let due: Instant = due;
            visible.record(number, due.elapsed());
            surprises += u64::from(!expected);
        }
        surprises
    });
    (sender, task)
}

/// Whether the outcome was the one that every send here must have. An answer waits only a little; this waits on.
async fn is_accepted(app: &App, submitted: Submitted) -> bool {
    const LOOK_AGAIN: Duration = Duration::from_millis(25);
    let begun = Instant::now();
    let sent = app.outcome(submitted).await;
    let (token, mut outcome) = (sent.token, sent.outcome);
    while outcome.is_none() && begun.elapsed() < OUTCOME_MAX {
        tokio::time::sleep(LOOK_AGAIN).await;
        outcome = outcome_of(&*app.store, token.conversation, token.seq).await.ok().flatten();
    }
    matches!(outcome, Some(Outcome::Accepted(accepted)) if accepted.seq == token.seq)
}
