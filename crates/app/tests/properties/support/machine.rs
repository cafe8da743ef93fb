//! A projector that takes one step when told to: judges a batch, or makes one of the writes that follow from it.

use std::collections::VecDeque;

use dunlin_app::{Rules, projector::Lane};
use dunlin_contract::ModelStore;
use dunlin_model::{Event, Seq};
use dunlin_ports::Record;

use super::{
    faults::{Fault, Made},
    now,
};

pub struct Machine<'a> {
    /// What the log holds of one partition.
    records: &'a [Record],
    fault: Fault,
    batches: Batches,
    lane: Lane,
    /// What the lane's head had passed when the lane first asked for it.
    passed: Option<Seq>,
    next: usize,
    pending: VecDeque<Made>,
    starts: u32,
}

/// Where a batch may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batches {
    Anywhere,
    /// No batch has both events that the lane's first head had passed and events that it had not.
    EndAtHead,
}

impl<'a> Machine<'a> {
    pub fn start(store: &ModelStore, records: &'a [Record], fault: Fault, batches: Batches) -> Machine<'a> {
        Machine { records, fault, batches, lane: lane(store), passed: None, next: 0, pending: VecDeque::new(), starts: 0 }
    }

    /// The process ends wherever it stands, and another begins at a place of the log.
    pub fn restart(&mut self, store: &ModelStore, from: usize) {
        if self.fault != Fault::KeepsLane {
            (self.lane, self.passed) = (lane(store), None);
        }
        (self.next, self.starts) = (from, self.starts + 1);
        self.pending.clear();
    }

    /// One step; false if there is nothing left to do.
    pub fn step(&mut self, store: &ModelStore, records_max: usize) -> bool {
        if let Some(made) = self.pending.pop_front() {
            self.fault.make(&mut store.state(), made);
            return true;
        }
        self.judge(store, records_max)
    }

    /// One batch, judged and written.
    pub fn batch(&mut self, store: &ModelStore, records_max: usize) -> bool {
        let more = self.step(store, records_max);
        while !self.pending.is_empty() {
            self.step(store, records_max);
        }
        more
    }

    /// Makes the next write, one event at a time, and tells which; none at the end.
    pub fn next_made(&mut self, store: &ModelStore) -> Option<Made> {
        while self.pending.is_empty() && self.judge(store, 1) {}
        let made = self.pending.front().cloned()?;
        self.step(store, 1);
        Some(made)
    }

    pub fn finish(&mut self, store: &ModelStore, records_max: usize) {
        while self.step(store, records_max) {}
    }

    /// Where a projector may begin at the latest: what the stored checkpoint says.
    pub fn resume_at(&self, store: &ModelStore) -> usize {
        let Some(first) = self.records.first().map(|record| record.position) else { return 0 };
        let checkpoint = store.state().checkpoints.get(&first.partition).copied();
        checkpoint.map_or(0, |checkpoint| (checkpoint.offset.0 + 1).saturating_sub(first.offset.0) as usize)
    }

    fn judge(&mut self, store: &ModelStore, records_max: usize) -> bool {
        let mut batch = &self.records[self.next..];
        batch = &batch[..records_max.min(batch.len())];
        if self.batches == Batches::EndAtHead {
            let stored = store.state().heads.values().map(|head| head.applied).max().unwrap_or_default();
            let applied = self.passed.unwrap_or(stored);
            let passed = batch.iter().take_while(|record| record.position.seq <= applied).count();
            batch = &batch[..if passed > 0 { passed } else { batch.len() }];
            self.passed = batch.iter().any(asks_for_a_head).then_some(applied).or(self.passed);
        }
        if batch.is_empty() {
            return false;
        }
        let misled = self.fault.misleads(&store.state()).map(stored);
        let projected = now(self.lane.project(misled.as_ref().unwrap_or(store), batch)).expect("the model store never fails");
        self.pending = self.fault.order(projected.batch, self.starts);
        self.next += batch.len();
        true
    }
}

fn asks_for_a_head(record: &Record) -> bool {
    Event::decode(&record.bytes).is_ok_and(|event| event.body.conversation().is_some())
}

fn lane(store: &ModelStore) -> Lane {
    now(Lane::new(Rules::default(), store)).expect("the model store never fails")
}

/// A store that holds this.
pub fn stored(state: dunlin_contract::State) -> ModelStore {
    let store = ModelStore::default();
    *store.state() = state;
    store
}
