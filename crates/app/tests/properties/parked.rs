//! An event that can't be read, or not judged yet, sets its log key aside, and nothing else.

use std::collections::BTreeSet;

use dunlin_contract::State;
use dunlin_model::{DecodeError, Event, LogKey, RULES, Seq};
use dunlin_ports::Record;
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::support::{
    alice_and, bob, carol, cases,
    faults::Fault,
    machine::{Ahead, Machine, stored},
    same,
    scenario::{Scenario, of_several},
    script::{BEGINNING, Script, event, message},
};

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn an_event_that_cant_be_judged_sets_its_key_aside_and_others_go_on_also_after_a_restart(
        scenario in of_several(5..=40),
        poison in (any::<Index>(), prop_oneof![Just(unreadable as Spoil), Just(ahead as Spoil), Just(to_come as Spoil), Just(strange as Spoil), Just(stray as Spoil)]),
        records_max in 1..8_usize,
        restarts in vec(any::<bool>(), 40),
    ) {
        let Some(Poisoned { log, key, parked, others }) = poisoned(&scenario, poison.0, poison.1) else { return Ok(()) };
        let store = stored(State::default());
        let mut machine = Machine::start(&store, &log, Fault::None, Ahead::Never);
        for restarts in restarts.iter().cycle() {
            if *restarts {
                machine.restart(&store, machine.resume_at(&store));
            }
            if !machine.batch(&store, records_max) {
                break;
            }
        }
        let mut state = store.state().clone();
        let aside: BTreeSet<(LogKey, Seq)> = std::mem::take(&mut state.parked).into_keys().collect();
        prop_assert_eq!(aside, parked.iter().map(|seq| (key, *seq)).collect());
        let checkpoint = state.checkpoints.values().next().expect("the log was projected").seq;
        prop_assert_eq!(checkpoint, log[log.len() - 1].position.seq, "nothing is held back");
        state.checkpoints.clear();
        same(&state, &others)?;
    }
}

struct Poisoned {
    log: Vec<Record>,
    key: LogKey,
    /// The unreadable event and what follows it under its key.
    parked: Vec<Seq>,
    /// What the rest of the log comes to.
    others: State,
}

/// The scenario's log, with one event that this version can't judge.
fn poisoned(scenario: &Scenario, poison: Index, spoil: Spoil) -> Option<Poisoned> {
    let mut log = Script::of(scenario).records;
    let place = poison.index(log.len().max(1));
    let spoiled = spoil(log.get(place)?);
    log[place] = spoiled;
    let (key, from) = (log[place].key, log[place].position.seq);
    let is_parked = |record: &Record| record.key == key && record.position.seq >= from;
    let (parked, rest): (Vec<Record>, Vec<Record>) = log.iter().cloned().partition(is_parked);
    let store = stored(State::default());
    Machine::start(&store, &rest, Fault::None, Ahead::Never).finish(&store, 1);
    store.state().checkpoints.clear();
    let parked = parked.iter().map(|record| record.position.seq).collect();
    let others = store.state().clone();
    Some(Poisoned { log, key, parked, others })
}

type Spoil = fn(&Record) -> Record;

/// An event of rules that come after this version's.
fn ahead(record: &Record) -> Record {
    let mut event = Event::decode(&record.bytes).expect("it was readable");
    event.rules = RULES + 1;
    Record::new(record.position, event.encode().into(), || None)
}

/// The same envelope around a body of a kind that does not exist.
fn unreadable(record: &Record) -> Record {
    let event = Event::decode(&record.bytes).expect("it was readable");
    let body = minicbor::to_vec(&event.body).expect("writing to memory does not fail");
    let mut bytes = record.bytes.to_vec();
    let kind = bytes.len() - body.len() + 1; // The body comes last; its kind follows the length of a short list.
    bytes[kind] = 23;
    assert!(matches!(Event::decode(&bytes), Err(DecodeError::Malformed(_))), "it can still be read");
    Record::new(record.position, bytes.into(), || None)
}

/// Bytes of a format to come. What key they are of, only the log can tell.
fn to_come(record: &Record) -> Record {
    Record::new(record.position, [&[250], &*record.bytes].concat().into(), || Some(record.key))
}

/// Nobody of ours wrote it. It sets nothing aside but itself, and others of its kind.
fn strange(record: &Record) -> Record {
    let strange = Record::new(record.position, "{\"hello\":1}".into(), || None);
    assert_eq!(strange.key, LogKey::of_strangers(record.position.partition));
    strange
}

/// An event of another partition, which a tool has put here.
fn stray(record: &Record) -> Record {
    Record { key: LogKey::of_strangers(record.position.partition), ..record.clone() }
}

/// Bob writes, then something that can't be read, then more; Carol writes too.
fn small_log() -> Vec<Record> {
    let says = |place, other: fn() -> _, text| event(place, BEGINNING, Some(other()), message(&alice_and(other()), text, text)).1;
    vec![says(0, bob, "before"), unreadable(&says(1, bob, "unreadable")), says(2, bob, "after"), says(3, carol, "elsewhere")]
}

#[test]
fn what_came_before_stays_and_what_comes_after_waits() {
    let (store, log) = (stored(State::default()), small_log());
    Machine::start(&store, &log, Fault::None, Ahead::Never).finish(&store, 10);
    let state = store.state();
    let stored: Vec<Seq> = state.messages.keys().map(|(_, seq)| *seq).collect::<BTreeSet<_>>().into_iter().collect();
    assert_eq!(stored, [log[0].position.seq, log[3].position.seq]);
    let parked: Vec<_> = state.parked.iter().map(|((_, seq), row)| (*seq, row.bytes.clone())).collect();
    let expected: Vec<_> = log[1..3].iter().map(|record| (record.position.seq, record.bytes.clone())).collect();
    assert_eq!(parked, expected, "set aside as the log holds them");
}

#[test]
fn what_came_before_is_projected_wherever_the_projector_ended() {
    let log = small_log();
    let whole = stored(State::default());
    Machine::start(&whole, &log, Fault::None, Ahead::Never).finish(&whole, 10);
    for cut in 0..40 {
        let store = stored(State::default());
        let mut first = Machine::start(&store, &log, Fault::None, Ahead::Never);
        (0..cut).for_each(|_| _ = first.step(&store, 10));
        let mut second = Machine::start(&store, &log, Fault::None, Ahead::Never);
        second.restart(&store, second.resume_at(&store));
        second.finish(&store, 10);
        same(&store.state(), &whole.state()).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
    }
}
