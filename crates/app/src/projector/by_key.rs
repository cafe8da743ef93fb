//! Drives one partition whose store is far away: events of different log keys are judged and applied beside each other, those of one key in
//! order. A checkpoint stands only for what is finished with everything before it.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use dunlin_model::{LogKey, Partition};
use dunlin_ports::{Batch, Checkpoint, Record, StoreError};
use foldhash::fast::RandomState;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{
    Lane, Progress, Projector, ProjectorError,
    run::{Patience, Reading},
};

/// How many events have been read and are not finished, at most.
const UNFINISHED_MAX: usize = 4_096;
/// How many batches are under way at once, at most. What comes meanwhile forms the next ones: the busier, the larger they are.
const BATCHES_MAX: usize = 8;
const BATCH_EVENTS_MAX: usize = 256;

/// How much is judged again after a crash, and how far behind lies what feeds call safe.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(500);

impl Projector {
    pub(super) async fn project_by_key(&self, partition: Partition, progress: &watch::Sender<Progress>) -> Result<(), ProjectorError> {
        let lane = self.lane(partition).await?;
        let mut reading = self.resume(partition, progress).await?;
        let mut queue = Queue::default();
        let mut batches: FuturesUnordered<BoxFuture<'_, _>> = FuturesUnordered::new();
        // One at a time.
        let mut checkpoints: FuturesUnordered<BoxFuture<'_, _>> = FuturesUnordered::new();
        let mut checkpoint_due = interval(CHECKPOINT_EVERY);
        checkpoint_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut idle_from = Instant::now();
        loop {
            while batches.len() < BATCHES_MAX
                && let Some(taken) = queue.take()
            {
                batches.push(self.project_batch(&lane, taken, progress).boxed());
            }
            tokio::select! {
                () = progress.closed() => break,
                Some(finished) = batches.next() => {
                    let Some(finished) = finished? else { return Ok(()) };
                    queue.finish(finished, progress);
                }
                records = self.read(&mut reading, queue.room(), progress), if queue.room() > 0 => {
                    let Some(records) = records? else { return Ok(()) };
                    idle_from = Instant::now();
                    queue.add(records);
                }
                Some(written) = checkpoints.next() => written?,
                _ = checkpoint_due.tick(), if checkpoints.is_empty() => {
                    checkpoints.extend(queue.checkpoint().map(|last| self.write_checkpoint(partition, last, progress).boxed()));
                }
                () = self.idle_since(idle_from) => {
                    idle_from = Instant::now();
                    let projector = self.clone();
                    tokio::spawn(async move { projector.tick(partition).await });
                }
            }
        }
        // Whoever goes on has the less to judge again.
        while let Some(Ok(Some(finished))) = batches.next().await {
            queue.finish(finished, progress);
        }
        while checkpoints.next().await.is_some() {}
        match queue.checkpoint() {
            None => Ok(()),
            Some(last) => Ok(self.write_checkpoint(partition, last, progress).await?),
        }
    }

    /// None if nobody wants it any more.
    async fn read(
        &self,
        reading: &mut Reading,
        records_max: usize,
        progress: &watch::Sender<Progress>,
    ) -> Result<Option<Vec<Record>>, StoreError> {
        let mut patience = Patience::new(progress);
        loop {
            match reading.next(records_max).await {
                Ok(records) => return Ok(Some(records)),
                Err(error) if patience.retry_after(&error).await? => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// What is finished then; none if nobody wants it any more.
    async fn project_batch(&self, lane: &Lane, taken: Taken, progress: &watch::Sender<Progress>) -> Result<Option<Taken>, StoreError> {
        let Some(mut projected) = self.judge(lane, &taken.records, progress).await? else { return Ok(None) };
        projected.batch.checkpoint = None;
        Ok(self.apply(projected, progress).await?.then_some(taken))
    }

    async fn write_checkpoint(
        &self,
        partition: Partition,
        checkpoint: Checkpoint,
        progress: &watch::Sender<Progress>,
    ) -> Result<(), StoreError> {
        let batch = Batch { checkpoint: Some((partition, checkpoint)), ..Batch::default() };
        let mut patience = Patience::new(progress);
        while let Err(error) = self.store.apply(&batch).await {
            if !patience.retry_after(&error).await? {
                break;
            }
        }
        Ok(())
    }

    async fn idle_since(&self, from: Instant) {
        match &self.ticks {
            Some(ticks) => sleep_until(from + ticks.after).await,
            None => std::future::pending().await,
        }
    }
}

/// Events between being read and being finished.
#[derive(Default)]
struct Queue {
    /// In the order of the log.
    waiting: VecDeque<Record>,
    /// Log keys with events under way.
    busy: HashSet<LogKey, RandomState>,
    /// All that were read, from the first on that is not finished, each with whether it is.
    unfinished: VecDeque<(Checkpoint, bool)>,
    /// The last of those that are finished with everything before it, if its checkpoint is not written yet.
    finished: Option<Checkpoint>,
}

/// A batch, and its log keys.
struct Taken {
    records: Vec<Record>,
    keys: Vec<LogKey>,
}

impl Queue {
    fn room(&self) -> usize {
        UNFINISHED_MAX.saturating_sub(self.unfinished.len())
    }

    fn add(&mut self, records: Vec<Record>) {
        for record in records {
            self.unfinished.push_back((Checkpoint::at(&record), false));
            self.waiting.push_back(record);
        }
    }

    /// The next batch: waiting events whose log keys have none under way.
    fn take(&mut self) -> Option<Taken> {
        let mut taken = Taken { records: Vec::new(), keys: Vec::new() };
        let mut own = HashSet::<LogKey, RandomState>::default();
        let mut left = VecDeque::with_capacity(self.waiting.len());
        for record in self.waiting.drain(..) {
            let key = record.key;
            let is_free = own.contains(&key) || !self.busy.contains(&key);
            if taken.records.len() == BATCH_EVENTS_MAX || !is_free {
                left.push_back(record);
                continue;
            }
            if own.insert(key) {
                self.busy.insert(key);
                taken.keys.push(key);
            }
            taken.records.push(record);
        }
        self.waiting = left;
        (!taken.records.is_empty()).then_some(taken)
    }

    fn finish(&mut self, taken: Taken, progress: &watch::Sender<Progress>) {
        taken.keys.iter().for_each(|key| _ = self.busy.remove(key));
        for record in taken.records {
            if let Ok(place) = self.unfinished.binary_search_by_key(&record.position.seq, |(checkpoint, _)| checkpoint.seq) {
                self.unfinished[place].1 = true;
            }
        }
        let mut last = None;
        while let Some((checkpoint, _)) = self.unfinished.pop_front_if(|(_, is_finished)| *is_finished) {
            last = Some(checkpoint);
        }
        if let Some(last) = last {
            self.finished = Some(last);
            progress.send_modify(|progress| *progress = Progress::up_to(&last));
        }
    }

    fn checkpoint(&mut self) -> Option<Checkpoint> {
        self.finished.take()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use dunlin_model::{Body, Epoch, Event, EventId, Millis, Offset, Position, RULES, Seq};
    use proptest::prelude::*;

    use super::*;

    /// An event of one of a few log keys.
    fn record(offset: u64, key: u8) -> Record {
        let (partition, offset) = (Partition(0), Offset(offset));
        let body = Body::Tick(Partition(u32::from(key)));
        let event = Event { id: EventId([key; 16]), key: body.log_key(), rules: RULES, origin: None, actor: None, body };
        let position = Position { partition, seq: Seq::new(Epoch::FIRST_LIVE, offset), offset, time: Millis(offset.0) };
        Record::new(position, event.encode().into(), || None)
    }

    fn seqs(taken: &Taken) -> impl Iterator<Item = Seq> {
        taken.records.iter().map(|record| record.position.seq)
    }

    proptest! {
        #[test]
        fn keys_keep_their_order_and_a_checkpoint_waits_for_all_before_it(
            keys in prop::collection::vec(0..6_u8, 1..200),
            turns in prop::collection::vec((0..3_u8, 0..20_usize), 1..400),
        ) {
            let (progress, told) = watch::channel(Progress::default());
            let mut queue = Queue::default();
            let records: Vec<Record> = (0..).zip(&keys).map(|(offset, key)| record(offset, *key)).collect();
            let mut log = records.iter().cloned();
            let mut under_way: Vec<Taken> = Vec::new();
            let mut finished: Vec<Seq> = Vec::new();
            // At last, everything is read and finished.
            let all = (0..keys.len() * 2).map(|_| (2, 0));
            for (what, number) in turns.into_iter().chain([(0, keys.len())]).chain(all) {
                match what {
                    0 => queue.add(log.by_ref().take(number).collect()),
                    1 => {}
                    _ if under_way.is_empty() => {}
                    _ => {
                        let taken = under_way.remove(number % under_way.len());
                        finished.extend(seqs(&taken));
                        queue.finish(taken, &progress);
                    }
                }
                if what > 0 && let Some(taken) = queue.take() {
                    for other in &under_way {
                        prop_assert!(taken.keys.iter().all(|key| !other.keys.contains(key)), "one key is under way twice");
                    }
                    under_way.push(taken);
                }
                let mut by_key: HashMap<u8, Vec<Seq>> = HashMap::new();
                for seq in &finished {
                    by_key.entry(keys[seq.offset().0 as usize]).or_default().push(*seq);
                }
                prop_assert!(by_key.values().all(|seqs| seqs.is_sorted()), "{by_key:?}");
                if let Some(checkpoint) = queue.checkpoint() {
                    let before = records.iter().map(|record| record.position.seq).filter(|seq| *seq <= checkpoint.seq);
                    prop_assert!(before.clone().all(|seq| finished.contains(&seq)), "{checkpoint:?} too early");
                    prop_assert_eq!(told.borrow().next, checkpoint.seq.offset().next());
                }
            }
            prop_assert_eq!(finished.len(), keys.len());
            prop_assert_eq!(told.borrow().next, Offset(keys.len() as u64));
            prop_assert!(queue.waiting.is_empty() && queue.busy.is_empty() && queue.unfinished.is_empty());
        }
    }
}
