//! Drives one partition: reads the log, has the lane judge it, has the store apply it, and tells who waits. In log order here; in the order of
//! each log key in `by_key`.

use std::{collections::HashMap, sync::Arc, time::Duration};

use dunlin_model::{Body, Event, EventId, Millis, NodeId, Offset, Outcome, Partition, RULES};
use dunlin_ports::{Checkpoint, EventLog, IdGen, MessageStore, Notice, Record, SessionBus, StoreError, Tail};
use futures::FutureExt as _;
use tokio::sync::watch;
use tracing::{debug, error, warn};

use super::{Lane, Projected, ProjectedOutcome, Rules, drive};
use crate::{Seldom, outcomes::Outcomes, send_status::outcome_of};

/// How many events are judged together at most. The more, the more of them share writes; the longer the first of them waits, and the more
/// memory they take: about 5 KB each, for two batches.
const BATCH_RECORDS_MAX: usize = 4_096;

/// From how many events on a batch is applied while the next one is judged on another thread: handing that over takes a moment.
const AHEAD_EVENTS_MIN: usize = 1_024;

const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub struct Projector {
    pub log: Arc<dyn EventLog>,
    pub store: Arc<dyn MessageStore>,
    pub bus: Arc<dyn SessionBus>,
    /// This node's own waiting requests, told without the bus.
    pub outcomes: Arc<Outcomes>,
    pub node: NodeId,
    pub rules: Rules,
    pub order: Order,
    /// How a partition that is idle shows that it is, so that feeds don't wait for it; none where there is only one.
    pub ticks: Option<Ticks>,
}

/// In which order events are applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// For a store in this process, whose checkpoint stands for all before it.
    OfTheLog,
    /// For a store that is far away: events of different log keys don't wait for each other.
    OfEachKey,
}

#[derive(Clone)]
pub struct Ticks {
    pub after: Duration,
    pub ids: Arc<dyn IdGen>,
}

/// How far a partition has come.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The next offset to be applied.
    pub next: Offset,
    pub log_time: Millis,
    /// Why it does not go on, while it doesn't.
    pub trouble: Option<String>,
}

impl Progress {
    pub(super) fn up_to(last: &Checkpoint) -> Progress {
        Progress { next: last.seq.offset().next(), log_time: last.log_time, trouble: None }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ProjectorError {
    #[error(
        "the log is not the one that the stored state was made from: event {0:?} has another id; restore the log that belongs to it, or, on a cluster, stop all nodes and run `dunlin log reopen`"
    )]
    OtherLog(Offset),
    #[error("the log was reopened after this node had started: it ends, or is to be started again")]
    Reopened,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Projector {
    /// Runs until `progress` has no receiver left, or something is wrong that waiting can't mend.
    pub async fn run(&self, partition: Partition, progress: watch::Sender<Progress>) -> Result<(), ProjectorError> {
        let ended = match self.order {
            Order::OfTheLog => self.project_in_order(partition, &progress).await,
            Order::OfEachKey => self.project_by_key(partition, &progress).await,
        };
        if let Err(error) = &ended {
            error!(partition = partition.0, %error, "projection stopped");
            progress.send_modify(|progress| progress.trouble = Some(error.to_string()));
        }
        ended
    }

    async fn project_in_order(&self, partition: Partition, progress: &watch::Sender<Progress>) -> Result<(), ProjectorError> {
        let lane = Arc::new(self.lane(partition).await?);
        let mut tail = self.resume(partition, progress).await?;
        while let Some(records) = self.next(&mut tail, partition, progress).await? {
            let mut judged = self.judge(&lane, &records, progress).await?;
            loop {
                let Some(projected) = judged else { return Ok(()) };
                // Where there is a backlog, the next batch is judged while this one is applied. What can't be read is tried again later.
                let is_large = projected.outcomes.len() >= AHEAD_EVENTS_MIN;
                let ahead = if is_large { tail.next(BATCH_RECORDS_MAX).now_or_never().and_then(Result::ok) } else { None };
                let Some(records) = ahead else {
                    if !self.apply(projected, progress).await? {
                        return Ok(());
                    }
                    break;
                };
                let (projector, lane, told) = (self.clone(), Arc::clone(&lane), progress.clone());
                let judging = tokio::spawn(async move { projector.judge(&lane, &records, &told).await });
                if !self.apply(projected, progress).await? {
                    return Ok(());
                }
                judged = judging.await.map_err(|error| StoreError::Corrupt(format!("judging a batch ended: {error}")))??;
            }
            drive::batch_is_done().await;
        }
        Ok(())
    }

    pub(super) async fn lane(&self, partition: Partition) -> Result<Lane, StoreError> {
        let lane = Lane::new(self.rules.clone(), &*self.store, partition, self.log.partitions()).await?;
        self.outcomes.park(lane.parked().into_iter());
        Ok(lane)
    }

    /// The next records; none if nobody wants them any more.
    async fn next(
        &self,
        tail: &mut Reading,
        partition: Partition,
        progress: &watch::Sender<Progress>,
    ) -> Result<Option<Vec<Record>>, StoreError> {
        let mut patience = Patience::new(progress);
        loop {
            let records = tokio::select! {
                biased;
                () = progress.closed() => return Ok(None),
                records = tail.next(BATCH_RECORDS_MAX) => records,
                () = self.idle() => {
                    self.tick(partition).await;
                    continue;
                }
            };
            match records {
                Ok(records) => return Ok(Some(records)),
                Err(error) if patience.retry_after(&error).await? => {}
                Err(_) => return Ok(None),
            }
        }
    }

    async fn idle(&self) {
        match &self.ticks {
            Some(ticks) => tokio::time::sleep(ticks.after).await,
            None => std::future::pending().await,
        }
    }

    /// If it can't be appended, the next one may.
    pub(super) async fn tick(&self, partition: Partition) {
        let Some(ticks) = &self.ticks else { return };
        let body = Body::Tick(partition);
        let key = body.log_key();
        let event = Event { id: EventId(ticks.ids.bits128()), key, rules: RULES, origin: None, actor: None, body };
        if let Err(error) = self.log.append(&key, &event).await {
            debug!(partition = partition.0, %error, "an idle partition could not say so");
        }
    }

    /// None if nobody wants it any more.
    pub(super) async fn judge(
        &self,
        lane: &Lane,
        records: &[Record],
        progress: &watch::Sender<Progress>,
    ) -> Result<Option<Projected>, StoreError> {
        let mut patience = Patience::new(progress);
        loop {
            match lane.project(&*self.store, records).await {
                Ok(projected) => {
                    if !projected.parked.is_empty() {
                        self.outcomes.park(projected.parked.iter().copied());
                    }
                    return Ok(Some(projected));
                }
                Err(error) if patience.retry_after(&error).await? => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// False if nobody wants it any more: it is not applied, and so nothing after it may be.
    pub(super) async fn apply(&self, projected: Projected, progress: &watch::Sender<Progress>) -> Result<bool, StoreError> {
        let mut patience = Patience::new(progress);
        // The same batch again is harmless, so whatever part of a failed one was written does not matter.
        while let Err(error) = self.store.apply(&projected.batch).await {
            if !patience.retry_after(&error).await? {
                return Ok(false);
            }
        }
        // First: who waits for the progress may send to what was parked.
        if !projected.unparked.is_empty() {
            self.outcomes.unpark(&projected.unparked);
        }
        if let Some((_, checkpoint)) = projected.batch.checkpoint {
            progress.send_modify(|progress| *progress = Progress::up_to(&checkpoint));
        }
        self.tell(projected.outcomes).await;
        Ok(true)
    }

    /// Begins where the checkpoint stands, after making sure that the log there is the one that the state came from.
    pub(super) async fn resume(&self, partition: Partition, progress: &watch::Sender<Progress>) -> Result<Reading, ProjectorError> {
        let begins = self.log.begins(partition);
        // Seqs of a life that is over would count as older than what is there.
        if self.store.epoch().await?.is_some_and(|epoch| epoch != begins.epoch()) {
            return Err(ProjectorError::Reopened);
        }
        // A checkpoint from before says nothing about this log.
        let Some(checkpoint) = self.store.checkpoint(partition).await?.filter(|checkpoint| checkpoint.seq >= begins) else {
            return Ok(Reading { tail: self.log.tail(partition, begins.offset()).await?, log_time: Millis::ZERO });
        };
        let mut tail = self.log.tail(partition, checkpoint.seq.offset()).await?;
        let last = tail.next(1).await?;
        if last.first().is_none_or(|record| record.event_id != checkpoint.event_id) {
            return Err(ProjectorError::OtherLog(checkpoint.seq.offset()));
        }
        progress.send_modify(|progress| *progress = Progress::up_to(&checkpoint));
        Ok(Reading { tail, log_time: checkpoint.log_time })
    }

    async fn tell(&self, outcomes: Vec<ProjectedOutcome>) {
        let mut elsewhere: HashMap<NodeId, Vec<Notice>> = HashMap::new();
        let mut here = Vec::with_capacity(outcomes.len());
        for told in outcomes {
            let Some(outcome) = self.recall(&told).await else { continue };
            match told.origin.node {
                node if node == self.node => here.push((told.origin.request, outcome)),
                node => elsewhere.entry(node).or_default().push(Notice::Outcome { request: told.origin.request, outcome }),
            }
        }
        self.outcomes.settle(here);
        for (node, notices) in elsewhere {
            static UNTOLD: Seldom = Seldom::new();
            if let Err(error) = self.bus.publish(node, notices).await
                && let Some(unsaid) = UNTOLD.now()
            {
                warn!(%node, %error, unsaid, "outcomes were not told; the node will look for them itself");
            }
        }
    }

    /// An event that was judged before has its outcome in the store.
    async fn recall(&self, told: &ProjectedOutcome) -> Option<Outcome> {
        match (told.outcome, told.conversation) {
            (None, Some(conversation)) => outcome_of(&*self.store, conversation, told.seq).await.ok().flatten(),
            (outcome, _) => outcome,
        }
    }
}

/// The log from a place on. A log may be a cluster, whose clocks differ: time goes on from what was projected last, never backwards.
pub(super) struct Reading {
    tail: Box<dyn Tail>,
    log_time: Millis,
}

impl Reading {
    pub(super) async fn next(&mut self, records_max: usize) -> Result<Vec<Record>, StoreError> {
        let mut records = self.tail.next(records_max).await?;
        for record in &mut records {
            self.log_time = self.log_time.max(record.position.time);
            record.position.time = self.log_time;
        }
        Ok(records)
    }
}

/// Waits for a store that is away, ever longer.
pub(super) struct Patience<'a> {
    progress: &'a watch::Sender<Progress>,
    wait: Duration,
}

impl Patience<'_> {
    pub(super) fn new(progress: &watch::Sender<Progress>) -> Patience<'_> {
        Patience { progress, wait: RETRY_MIN }
    }

    /// True after a while; false if nobody wants it any more; an error if waiting can't mend it.
    pub(super) async fn retry_after(&mut self, error: &StoreError) -> Result<bool, StoreError> {
        if !matches!(error, StoreError::Unavailable(_) | StoreError::Unknown(_)) {
            return Err(error.clone());
        }
        warn!(%error, "the log or the message store is away; projection waits");
        self.progress.send_modify(|progress| progress.trouble = Some(error.to_string()));
        tokio::select! {
            () = tokio::time::sleep(self.wait) => {
                self.wait = (self.wait * 2).min(RETRY_MAX);
                Ok(true)
            }
            () = self.progress.closed() => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use dunlin_model::{Epoch, Position, Seq};

    use super::*;

    /// Brings one record a call, each at the next of these times.
    struct Times(Vec<u64>);

    #[async_trait::async_trait]
    impl Tail for Times {
        async fn next(&mut self, _: usize) -> Result<Vec<Record>, StoreError> {
            let (offset, time) = (Offset(0), Millis(self.0.remove(0)));
            let position = Position { partition: Partition(0), seq: Seq::new(Epoch::FIRST_LIVE, offset), offset, time };
            Ok(vec![Record::new(position, Default::default(), || None)])
        }
    }

    #[tokio::test]
    async fn time_goes_on_from_the_checkpoint_though_brokers_clocks_differ() {
        let mut reading = Reading { tail: Box::new(Times(vec![4, 9, 7, 10])), log_time: Millis(6) };
        for expected in [6, 9, 9, 10] {
            assert_eq!(reading.next(1).await.unwrap()[0].position.time, Millis(expected));
        }
    }
}
