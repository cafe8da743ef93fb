//! A log projected again, from anywhere, in batches of any size, gives the same state; so do its writes in any order, any number of times.

use dunlin_contract::State;
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::support::{
    cases,
    faults::{Fault, Made},
    machine::{Ahead, Machine, stored},
    same,
    scenario::{Scenario, of_a_pair, of_notes_to_self, of_several},
    script::Script,
};

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn after_any_cut_a_replay_from_anywhere_ends_in_the_same_state(scenario in of_a_pair(5..=40), from in vec(any::<Index>(), 41), records_max in 1..12_usize) {
        replays_agree(&scenario, &from, records_max, Ahead::Never)?;
    }

    #[test]
    fn notes_to_self_replay_the_same(scenario in of_notes_to_self(5..=30), from in vec(any::<Index>(), 41), records_max in 1..12_usize) {
        replays_agree(&scenario, &from, records_max, Ahead::Never)?;
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn batches_of_any_size_end_in_the_same_state(scenario in of_several(5..=60), records_max in vec(1..20_usize, 1..60)) {
        let script = Script::of(&scenario);
        let store = stored(State::default());
        let mut machine = Machine::start(&store, &script.records, Fault::None, Ahead::Never);
        let mut sizes = records_max.iter().cycle();
        while machine.batch(&store, *sizes.next().expect("it goes round")) {}
        same(&store.state(), &script.reference)?;
    }

    #[test]
    fn writes_in_any_order_and_again_end_in_the_same_state(scenario in of_several(5..=60), order in order()) {
        reordered_agree(&scenario, &order, Fault::None)?;
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn a_replay_that_judges_ahead_ends_in_the_same_state(
        scenario in of_a_pair(5..=40), from in vec(any::<Index>(), 41), records_max in 1..12_usize, left in 0..40_usize,
    ) {
        replays_agree(&scenario, &from, records_max, Ahead::Left(left))?;
    }

    #[test]
    fn several_conversations_judged_ahead_end_in_the_same_state(scenario in of_several(5..=60), records_max in 1..12_usize, left in 0..40_usize) {
        let script = Script::of(&scenario);
        let store = stored(State::default());
        Machine::start(&store, &script.records, Fault::None, Ahead::Left(left)).finish(&store, records_max);
        same(&store.state(), &script.reference)?;
    }
}

/// For every length of what was projected before the crash: a new projector that begins at some place before that.
fn replays_agree(scenario: &Scenario, from: &[Index], records_max: usize, ahead: Ahead) -> Result<(), TestCaseError> {
    let script = Script::of(scenario);
    let before = stored(State::default());
    let mut first = Machine::start(&before, &script.records, Fault::None, ahead);
    for (cut, from) in (0..=script.records.len()).zip(from) {
        let store = stored(before.state().clone());
        let mut second = Machine::start(&store, &script.records, Fault::None, ahead);
        second.restart(&store, from.index(cut + 1));
        second.finish(&store, records_max);
        same(&store.state(), &script.reference).map_err(|error| TestCaseError::fail(format!("cut at {cut}: {error}")))?;
        first.batch(&before, 1);
    }
    Ok(())
}

/// Where each write comes, and whether it comes again.
pub fn order() -> impl Strategy<Value = Vec<(u16, Option<u16>)>> {
    vec((any::<u16>(), proptest::option::of(any::<u16>())), 1..300)
}

pub fn reordered_agree(scenario: &Scenario, order: &[(u16, Option<u16>)], fault: Fault) -> Result<(), TestCaseError> {
    let script = Script::of(scenario);
    let store = stored(State::default());
    let mut machine = Machine::start(&store, &script.records, fault, Ahead::Never);
    let mut all: Vec<(u16, Made)> = Vec::new();
    let mut places = order.iter().cycle();
    while let Some(made) = machine.next_made(&store) {
        let (place, again) = places.next().expect("it goes round");
        all.extend([Some(*place), *again].into_iter().flatten().map(|place| (place, made.clone())));
    }
    all.sort_by_key(|(place, _)| *place);
    let mut state = State::default();
    all.into_iter().for_each(|(_, made)| fault.make(&mut state, made));
    same(&state, &script.reference)
}
