//! What was set aside and is judged after all comes to what it would have come to at once; only feeds show it later.

use std::collections::BTreeSet;

use dunlin_app::projector::Lane;
use dunlin_contract::{ModelStore, State};
use dunlin_model::{Body, ConversationId, Event, EventId, Happening, LogKey, Partition, Position, RULES, Seq, UserId};
use dunlin_ports::{Batch, MessageStore as _, Record, Write};
use futures::FutureExt as _;
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::support::{
    alice_and, bob, cases,
    faults::Fault,
    machine::{Ahead, Machine, stored},
    now, rules, same,
    scenario::{Scenario, of_several},
    script::{BEGINNING, Script, event, message},
};

/// A program that can judge what the one before could not.
const NEWER: u16 = RULES + 1;

proptest! {
    #![proptest_config(cases(80))]

    #[test]
    fn what_is_replayed_comes_to_what_it_would_have_at_once(
        scenario in of_several(5..=40),
        places in (any::<Index>(), any::<Index>(), any::<Index>()),
        records_max in 1..8_usize,
    ) {
        let Some(Parked { log, store }) = parked(&scenario, places) else { return Ok(()) };
        Machine::upgraded(&store, &log, NEWER).finish(&store, records_max);
        let at_once = stored(State::default());
        Machine::upgraded(&at_once, &log, NEWER).finish(&at_once, 1);
        let (replayed, at_once) = (store.state().clone(), at_once.state().clone());
        prop_assert_eq!(happenings(&replayed), happenings(&at_once));
        same(&timeless(replayed), &timeless(at_once))?;
    }

    #[test]
    fn wherever_projectors_end_and_begin_a_replay_ends_in_the_same_state(
        scenario in of_several(5..=40),
        places in (any::<Index>(), any::<Index>(), any::<Index>()),
        turns in vec((any::<bool>(), prop::option::weighted(0.2, any::<Index>())), 0..200),
        records_max in 1..8_usize,
    ) {
        let Some(Parked { log, store }) = parked(&scenario, places) else { return Ok(()) };
        let straight = stored(store.state().clone());
        Machine::upgraded(&straight, &log, NEWER).finish(&straight, 1);
        let mut projectors = [Machine::upgraded(&store, &log, NEWER), Machine::upgraded(&store, &log, NEWER)];
        for (second, restart) in turns {
            let projector = &mut projectors[usize::from(second)];
            if let Some(from) = restart {
                projector.restart(&store, from.index(projector.resume_at(&store) + 1));
            }
            projector.step(&store, records_max);
        }
        projectors.iter_mut().for_each(|projector| projector.finish(&store, records_max));
        same(&store.state(), &straight.state())?;
    }

    #[test]
    fn a_replay_that_is_judged_ahead_knows_what_the_batch_before_set_aside(
        scenario in of_several(5..=40),
        places in (any::<Index>(), any::<Index>(), any::<Index>()),
        left in 0..40_usize,
        records_max in 1..8_usize,
    ) {
        let Some(Parked { log, store }) = parked(&scenario, places) else { return Ok(()) };
        let straight = stored(store.state().clone());
        Machine::upgraded(&straight, &log, NEWER).finish(&straight, 1);
        Machine::upgraded(&store, &log, NEWER).judging(Ahead::Left(left)).finish(&store, records_max);
        same(&store.state(), &straight.state())?;
    }
}

struct Parked {
    /// With one event that only a newer program can judge, and later an unpark event of its log key.
    log: Vec<Record>,
    /// What a program came to that could not judge it, when it ended.
    store: ModelStore,
}

fn parked(scenario: &Scenario, (poison, unpark, end): (Index, Index, Index)) -> Option<Parked> {
    let mut log = Script::of(scenario).records;
    let place = poison.index(log.len().max(1));
    let key = Event::decode(&log.get(place)?.bytes).ok()?.key;
    let after = place + 1 + unpark.index((log.len() - place).max(2) - 1);
    log[place] = newer(&log[place]);
    *log.get_mut(after)? = unpark_at(&log[after.min(log.len() - 1)].clone(), key);
    let store = stored(State::default());
    let end = end.index(after + 1);
    Machine::start(&store, &log[..end], Fault::None, Ahead::Never).finish(&store, 3);
    Some(Parked { log, store })
}

fn newer(record: &Record) -> Record {
    let event = Event::decode(&record.bytes).expect("it was readable");
    Record::new(record.position, Event { rules: NEWER, ..event }.encode().into(), || None)
}

/// In the place of another event.
fn unpark_at(record: &Record, key: LogKey) -> Record {
    unpark_without(record, key, None)
}

fn unpark_without(record: &Record, key: LogKey, left_out: Option<Seq>) -> Record {
    let id = EventId(*record.position.seq.get().to_be_bytes().repeat(2).first_chunk().expect("16 bytes"));
    let event = Event { id, key, rules: RULES, origin: None, actor: None, body: Body::Unpark(key, left_out) };
    Record::new(record.position, event.encode().into(), || None)
}

type Happened = (UserId, ConversationId, Seq, Happening, Option<Seq>);

fn happenings(state: &State) -> BTreeSet<Happened> {
    state.feed.iter().map(|((user, _), row)| (user.clone(), row.key.conversation, row.key.seq, row.what, row.target)).collect()
}

/// Without what tells that something waited for a while.
fn timeless(mut state: State) -> State {
    state.feed.clear();
    state.parked.clear();
    state.replays.clear();
    state
}

fn says(place: usize, text: &str) -> Record {
    event(place, BEGINNING, Some(bob()), message(&alice_and(bob()), text, text)).1
}

#[test]
fn what_nobody_of_ours_wrote_is_forgotten_and_the_next_is_parked_again() {
    let strange = |place| Record::new(says(place, "x").position, "hello".into(), || None);
    let key = LogKey::of_strangers(strange(0).position.partition);
    let store = stored(State::default());
    let log = [strange(0), says(1, "one"), unpark_at(&says(2, "x"), key), says(3, "two"), strange(4), says(5, "three")];
    let waiting = || {
        let parked = store.parked(10).now_or_never().expect("a model store does not wait").unwrap();
        parked.into_iter().filter(|parked| parked.first.is_some()).map(|parked| parked.key).collect::<Vec<_>>()
    };
    let mut machine = Machine::start(&store, &log, Fault::None, Ahead::Never);
    for expected in [&[key][..], &[key], &[], &[], &[key], &[key]] {
        assert!(machine.batch(&store, 1));
        assert_eq!(waiting(), expected);
    }
    assert_eq!(store.state().messages.len(), 3);
}

#[test]
fn what_still_cant_be_judged_stays_parked_from_there_on() {
    let later = |place, text| {
        let event = Event { rules: NEWER + 1, ..Event::decode(&says(place, text).bytes).unwrap() };
        Record::new(says(place, text).position, event.encode().into(), || None)
    };
    let key = alice_and(bob()).log_key();
    let log = [newer(&says(0, "one")), says(1, "two"), later(2, "three"), says(3, "four"), unpark_at(&says(4, "x"), key), says(5, "five")];
    let store = stored(State::default());
    Machine::start(&store, &log[..4], Fault::None, Ahead::Never).finish(&store, 10);
    Machine::upgraded(&store, &log, NEWER).finish(&store, 10);
    let seqs = |store: &ModelStore| store.state().messages.keys().map(|(_, seq)| seq.offset().0).collect::<Vec<_>>();
    assert_eq!(seqs(&store), [0, 1], "what comes after the one that can't be judged waits with it");

    let again = [&log[..], &[unpark_at(&says(6, "x"), key), says(7, "six")]].concat();
    Machine::upgraded(&store, &again, NEWER + 1).finish(&store, 10);
    assert_eq!(seqs(&store), [0, 1, 2, 3, 5, 7]);
    let state = store.state();
    assert!(state.heads.values().all(|head| head.n.0 == 6));
}

#[test]
fn what_nobody_can_read_is_left_out_and_the_rest_goes_on_also_when_all_is_judged_again() {
    let key = alice_and(bob()).log_key();
    let junk = Record::new(says(1, "x").position, "hello".into(), || Some(key));
    let unpark = unpark_without(&says(3, "x"), key, Some(junk.position.seq));
    let log = [says(0, "one"), junk, says(2, "two"), unpark, says(4, "three")];
    let store = stored(State::default());
    Machine::start(&store, &log, Fault::None, Ahead::Never).finish(&store, 1);
    for again in [1, 2, 10] {
        let seqs: Vec<u64> = store.state().messages.keys().map(|(_, seq)| seq.offset().0).collect();
        assert_eq!(seqs, [0, 2, 4]);
        assert!(store.state().heads.values().all(|head| head.n.0 == 3));
        let mut machine = Machine::start(&store, &log, Fault::None, Ahead::Never);
        machine.restart(&store, 0);
        machine.finish(&store, again);
    }
}

#[test]
fn what_is_parked_in_another_partition_is_not_remembered() {
    let partitions = 4;
    let keys: Vec<LogKey> = (0..partitions).map(|partition| LogKey::of_strangers(Partition(partition))).collect();
    let store = stored(State::default());
    let batch = Batch { writes: keys.iter().map(|key| set_aside(*key)).collect(), ..Batch::default() };
    now(store.apply(&batch)).unwrap();
    for (partition, key) in (0..).map(Partition).zip(&keys) {
        let lane = now(Lane::new(rules(), &store, partition, partitions)).unwrap();
        assert_eq!(lane.parked(), [*key]);
        let strange = Record::new(Position { partition, ..says(9, "x").position }, "hello".into(), || None);
        assert_eq!(now(lane.project(&store, &[strange])).unwrap().parked, [*key]);
    }
}

fn set_aside(key: LogKey) -> Write {
    let Position { seq: at, time, .. } = says(0, "x").position;
    Write::Parked { key, at, time, bytes: "hello".into() }
}

#[test]
fn unparking_what_is_not_parked_does_nothing() {
    let key = alice_and(bob()).log_key();
    let log = [says(0, "one"), unpark_at(&says(1, "x"), key), says(2, "two")];
    let store = stored(State::default());
    Machine::start(&store, &log, Fault::None, Ahead::Never).finish(&store, 10);
    let state = store.state();
    assert_eq!((state.messages.len(), state.replays.len()), (2, 0));
}
