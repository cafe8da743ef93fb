//! A device that resumes from what it stored misses nothing, however unequal the speed of the log's partitions.

use std::{collections::BTreeSet, sync::Arc};

use dunlin_app::App;
use dunlin_contract::ModelStore;
use dunlin_model::{EventId, FeedKey, Millis, Partition, Seq};
use dunlin_ports::{Checkpoint, Record};
use proptest::{collection::vec, prelude::*};

use crate::support::{
    alice, alice_and, bob, carol, cases,
    faults::Fault,
    machine::{Ahead, Machine},
    now,
    reading::reader_of,
    script::{BEGINNING, event_of, message},
};

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_device_that_resumes_misses_nothing(trip in trip()) {
        nothing_is_missed(&trip, Fault::None, Ticks::First)?;
    }
}

/// Two partitions, each with one conversation of Alice's, and a device of hers that comes and goes.
#[derive(Clone, Debug)]
pub struct Trip {
    /// How much later than the one before each event is, by partition.
    after_ms: [Vec<u64>; 2],
    moves: Vec<Move>,
}

#[derive(Clone, Debug)]
enum Move {
    Project {
        partition: usize,
        steps: usize,
        records_max: usize,
    },
    /// Resumes, reads so many pages, and stores what each of them calls safe.
    Device {
        limit: usize,
        pages: usize,
    },
}

pub fn trip() -> impl Strategy<Value = Trip> {
    let times = || vec(prop_oneof![3 => Just(0), 2 => 1..3_u64, 1 => 10..20_u64], 1..12);
    let moves = prop_oneof![
        3 => (0..2_usize, 1..20_usize, 1..4_usize).prop_map(|(partition, steps, records_max)| Move::Project { partition, steps, records_max }),
        1 => (1..4_usize, 1..4_usize).prop_map(|(limit, pages)| Move::Device { limit, pages }),
    ];
    (times(), times(), vec(moves, 0..40)).prop_map(|(one, other, moves)| Trip { after_ms: [one, other], moves })
}

/// Whether each partition has had an event before the trip begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ticks {
    First,
    None,
}

pub fn nothing_is_missed(trip: &Trip, fault: Fault, ticks: Ticks) -> Result<(), TestCaseError> {
    let logs = [0, 1].map(|partition| records(partition, &trip.after_ms[partition]));
    let store = Arc::new(ModelStore::default());
    if ticks == Ticks::First {
        let tick = Checkpoint { seq: Seq::ZERO, log_time: BEGINNING, event_id: EventId([0; 16]) };
        (0..2).for_each(|partition| store.state().write_checkpoint(Partition(partition), tick));
    }
    let mut machines = [0, 1].map(|partition| Machine::start(&store, &logs[partition], fault, Ahead::Never));
    let mut device = Device { app: reader_of(&store, 2), stored: None, got: BTreeSet::new() };
    for turn in &trip.moves {
        match turn {
            Move::Project { partition, steps, records_max } => {
                (0..*steps).for_each(|_| _ = machines[*partition].step(&store, *records_max));
            }
            Move::Device { limit, pages } => device.read(*limit, *pages),
        }
    }
    machines.iter_mut().for_each(|machine| machine.finish(&store, 1));
    device.read(3, usize::MAX);
    let all: BTreeSet<FeedKey> = store.state().feed.keys().filter(|(user, _)| *user == alice()).map(|(_, key)| *key).collect();
    let missed: Vec<_> = all.difference(&device.got).collect();
    prop_assert!(missed.is_empty(), "missed: {:?}", missed);
    Ok(())
}

struct Device {
    app: App,
    stored: Option<String>,
    got: BTreeSet<FeedKey>,
}

impl Device {
    fn read(&mut self, limit: usize, pages: usize) {
        let mut after = self.stored.clone();
        for _ in 0..pages {
            let page = now(self.app.feed(&alice(), after.as_deref(), limit)).expect("a feed");
            self.got.extend(page.rows.iter().map(|row| row.key));
            self.stored = Some(page.safe);
            let Some(next) = page.next else { return };
            after = Some(next);
        }
    }
}

/// The first event stands at offset 1: a tick came before it.
fn records(partition: usize, after_ms: &[u64]) -> Vec<Record> {
    let (pair, sender) = if partition == 0 { (alice_and(bob()), bob()) } else { (alice_and(carol()), carol()) };
    let mut time = BEGINNING;
    let mut records = Vec::new();
    for (place, after_ms) in (1..).zip(after_ms) {
        time = Millis(time.0 + after_ms);
        let body = message(&pair, &format!("c{place}"), "hi");
        records.push(event_of(Partition(partition as u32), place, time, Some(sender.clone()), body).1);
    }
    records
}

#[test]
fn what_is_safe_to_store_lies_below_the_horizon_on_every_page() {
    let store = Arc::new(ModelStore::default());
    let log = records(0, &[10, 10, 10, 10]);
    let tick = Checkpoint { seq: Seq::ZERO, log_time: Millis(BEGINNING.0 + 5), event_id: EventId([0; 16]) };
    store.state().write_checkpoint(Partition(1), tick);
    Machine::start(&store, &log, Fault::None, Ahead::Never).finish(&store, 1);
    let mut device = Device { app: reader_of(&store, 2), stored: None, got: BTreeSet::new() };
    device.read(2, 2);
    let late = records(1, &[6]);
    Machine::start(&store, &late, Fault::None, Ahead::Never).finish(&store, 1);
    device.read(10, 1);
    assert_eq!(device.got.len(), 5, "the event of the slow partition is older than the pages read before it");
}

#[test]
fn a_device_that_had_nothing_to_read_is_not_told_to_start_over() {
    let store = Arc::new(ModelStore::default());
    let app = reader_of(&store, 2);
    let tick = |offset, log_time| Checkpoint { seq: Seq::from_u64(offset).unwrap(), log_time, event_id: EventId([0; 16]) };
    store.state().write_checkpoint(Partition(0), tick(0, BEGINNING));
    let page = now(app.feed(&alice(), None, 10)).expect("a feed");
    assert!(page.rows.is_empty() && !page.reset);
    store.state().write_checkpoint(Partition(0), tick(1, Millis(BEGINNING.0 + 1_000)));
    let page = now(app.feed(&alice(), Some(&page.safe), 10)).expect("a feed");
    assert!(!page.reset, "a second later nothing that was kept is gone");
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_partition_without_a_checkpoint_holds_the_horizon_back(trip in trip()) {
        nothing_is_missed(&trip, Fault::None, Ticks::None)?;
    }
}
