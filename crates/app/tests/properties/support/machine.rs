//! A projector that takes one step when told to: judges a batch, or makes one of the writes that follow from it.

use std::collections::VecDeque;

use dunlin_app::projector::{Lane, Rules};
use dunlin_contract::ModelStore;
use dunlin_model::{Partition, RULES};
use dunlin_ports::Record;

use super::{
    faults::{Fault, Made},
    now, rules,
};

pub struct Machine<'a> {
    /// What the log holds of one partition.
    records: &'a [Record],
    fault: Fault,
    ahead: Ahead,
    /// The newest version of the rules that it knows.
    known: u16,
    lane: Lane,
    next: usize,
    /// What the batches that were judged and not written yet still have to write: one, or two while the second was judged ahead.
    pending: VecDeque<VecDeque<Made>>,
    starts: u32,
}

/// When the next batch is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ahead {
    /// When everything of the one before is written.
    Never,
    /// When at most so many of its writes are left.
    Left(usize),
}

impl<'a> Machine<'a> {
    pub fn start(store: &ModelStore, records: &'a [Record], fault: Fault, ahead: Ahead) -> Machine<'a> {
        Machine { records, fault, ahead, known: RULES, lane: lane(store, RULES), next: 0, pending: VecDeque::new(), starts: 0 }
    }

    /// Goes on from the stored checkpoint, as a program that knows these rules.
    pub fn upgraded(store: &ModelStore, records: &'a [Record], known: u16) -> Machine<'a> {
        let mut machine = Machine { known, ..Machine::start(store, records, Fault::None, Ahead::Never) };
        machine.restart(store, machine.resume_at(store));
        machine
    }

    pub fn judging(self, ahead: Ahead) -> Machine<'a> {
        Machine { ahead, ..self }
    }

    /// The process ends wherever it stands, and another begins at a place of the log.
    pub fn restart(&mut self, store: &ModelStore, from: usize) {
        if self.fault != Fault::KeepsLane {
            self.lane = lane(store, self.known);
        }
        (self.next, self.starts) = (from, self.starts + 1);
        self.pending.clear();
    }

    /// One step; false if there is nothing left to do.
    pub fn step(&mut self, store: &ModelStore, records_max: usize) -> bool {
        match (self.pending.len(), self.ahead) {
            (0, _) => return self.judge(store, records_max),
            (1, Ahead::Left(left)) if self.pending[0].len() <= left && self.judge(store, records_max) => return true,
            _ => {}
        }
        if let Some(made) = self.pending[0].pop_front() {
            self.fault.make(&mut store.state(), made);
        }
        if self.pending[0].is_empty() {
            self.pending.pop_front();
        }
        true
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
        let made = self.pending.front()?.front().cloned()?;
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
        checkpoint.map_or(0, |checkpoint| (checkpoint.seq.offset().0 + 1).saturating_sub(first.offset.0) as usize)
    }

    fn judge(&mut self, store: &ModelStore, records_max: usize) -> bool {
        let batch = &self.records[self.next..];
        let batch = &batch[..records_max.min(batch.len())];
        if batch.is_empty() {
            return false;
        }
        let misled = self.fault.misleads(&store.state()).map(stored);
        let projected = now(self.lane.project(misled.as_ref().unwrap_or(store), batch)).expect("the model store never fails");
        let made = self.fault.order(projected.batch, self.starts);
        if !made.is_empty() {
            self.pending.push_back(made);
        }
        self.next += batch.len();
        true
    }
}

fn lane(store: &ModelStore, known: u16) -> Lane {
    now(Lane::new(Rules { known, ..rules() }, store, Partition(0), 1)).expect("the model store never fails")
}

/// A store that holds this.
pub fn stored(state: dunlin_contract::State) -> ModelStore {
    let store = ModelStore::default();
    *store.state() = state;
    store
}
