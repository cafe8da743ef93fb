//! Two projectors of one partition at once, as after a rebalance that one of them has not noticed: the store ends as if there had been one.

use dunlin_contract::State;
use proptest::prelude::*;

use crate::support::{
    alice_and, bob, cases,
    faults::Fault,
    machine::{Ahead, Machine, stored},
    same,
    scenario::{Act, Actor, Opens, Scenario, Step, Target, of_a_pair, of_notes_to_self},
    schedule::{Schedule, schedule},
    script::Script,
};

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn two_projectors_in_any_interleaving_end_as_one(scenario in of_a_pair(5..=60), schedule in schedule()) {
        interleaved_agree(&scenario, &schedule, Fault::None, Ahead::Never)?;
    }

    #[test]
    fn two_projectors_of_notes_to_self_end_as_one(scenario in of_notes_to_self(5..=40), schedule in schedule()) {
        interleaved_agree(&scenario, &schedule, Fault::None, Ahead::Never)?;
    }
}

pub fn interleaved_agree(scenario: &Scenario, schedule: &Schedule, fault: Fault, ahead: Ahead) -> Result<(), TestCaseError> {
    let script = Script::of(scenario);
    same(&schedule.run(&script, fault, ahead), &script.reference)
}

#[test]
fn one_projector_may_end_at_any_write_and_another_begin_anywhere() {
    for (name, script) in small_scripts() {
        script.choose_rules();
        for cut in 0..=steps_of(&script) {
            for from in 0..=script.records.len() {
                let store = stored(State::default());
                let mut first = Machine::start(&store, &script.records, Fault::None, Ahead::Never);
                (0..cut).for_each(|_| _ = first.step(&store, ALL));
                let mut second = Machine::start(&store, &script.records, Fault::None, Ahead::Never);
                second.restart(&store, from.min(second.resume_at(&store)));
                second.finish(&store, ALL);
                same(&store.state(), &script.reference).unwrap_or_else(|error| panic!("{name}, cut at {cut}, from {from}: {error}"));
            }
        }
    }
}

#[test]
fn a_zombie_may_go_on_at_any_write_of_the_other() {
    for (name, script) in small_scripts() {
        script.choose_rules();
        let steps = steps_of(&script);
        for cut in 0..=steps {
            for other_cut in 0..=steps {
                let store = stored(State::default());
                let mut zombie = Machine::start(&store, &script.records, Fault::None, Ahead::Never);
                (0..cut).for_each(|_| _ = zombie.step(&store, ALL));
                let mut other = Machine::start(&store, &script.records, Fault::None, Ahead::Never);
                (0..other_cut).for_each(|_| _ = other.step(&store, 2));
                zombie.finish(&store, ALL);
                other.finish(&store, ALL);
                same(&store.state(), &script.reference).unwrap_or_else(|error| panic!("{name}, cut at {cut}, {other_cut}: {error}"));
            }
        }
    }
}

#[test]
fn a_projector_may_write_between_two_questions_of_another() {
    for (name, script) in small_scripts() {
        script.choose_rules();
        let mut states = vec![State::default()];
        let store = stored(State::default());
        let mut other = Machine::start(&store, &script.records, Fault::None, Ahead::Never);
        while other.step(&store, 2) {
            states.push(store.state().clone());
        }
        for (from, before) in states.iter().enumerate() {
            for (to, after) in states.iter().enumerate().skip(from) {
                let store = stored(before.clone());
                let mut machine = Machine::start(&store, &script.records, Fault::None, Ahead::Never);
                machine.restart(&store, machine.resume_at(&store));
                store.meanwhile(after.clone());
                machine.finish(&store, ALL);
                same(&store.state(), &script.reference).unwrap_or_else(|error| panic!("{name}, from {from} to {to}: {error}"));
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn two_projectors_that_judge_ahead_end_as_one(scenario in of_a_pair(5..=60), schedule in schedule(), left in 0..40_usize) {
        interleaved_agree(&scenario, &schedule, Fault::None, Ahead::Left(left))?;
    }
}

#[test]
fn a_retry_in_one_batch_with_its_first_try_is_a_duplicate_also_after_a_restart() {
    let (_, script) = small_scripts().swap_remove(0);
    script.choose_rules();
    let store = stored(State::default());
    let mut first = Machine::start(&store, &script.records, Fault::None, Ahead::Never);
    while store.state().heads.is_empty() {
        first.step(&store, 1); // It ends after the head of the first event, before its checkpoint.
    }
    let mut second = Machine::start(&store, &script.records, Fault::None, Ahead::Never);
    second.finish(&store, ALL);
    same(&store.state(), &script.reference).unwrap_or_else(|error| panic!("{error}"));
}

const ALL: usize = 100;

/// Short logs, each around one thing that a second look could judge otherwise.
fn small_scripts() -> Vec<(&'static str, Script)> {
    use Actor::{One, Other};
    let says = |actor, client_id| (actor, Act::Message { opens: Opens::Itself, client_id, says: client_id, reply_to: None, robot: false });
    let last = Target::Message(0);
    let scenarios = [
        ("retries", vec![says(One, 2), says(One, 2), says(Other, 2), says(One, 2)]),
        ("blocks", vec![says(One, 2), (Other, Act::Block(true)), says(One, 3), (Other, Act::Block(false)), says(One, 3)]),
        ("deletion", vec![says(One, 2), (One, Act::Edit(last, 3)), (One, Act::Delete(last)), (One, Act::Edit(last, 4))]),
        ("marks", vec![says(One, 2), says(One, 3), (Other, Act::Read(Target::Message(1))), (Other, Act::Read(last)), says(Other, 4)]),
        ("opening", vec![(Other, Act::Hide(Target::Event(0))), (One, Act::Open), (Other, Act::Open), says(Other, 2)]),
    ];
    scenarios.into_iter().map(|(name, acts)| (name, Script::of(&scenario(acts)))).collect()
}

fn scenario(acts: Vec<(Actor, Act)>) -> Scenario {
    let steps = acts.into_iter().map(|(actor, act)| Step { after_ms: 1, pair: 0, actor, act }).collect();
    Scenario { pairs: vec![alice_and(bob())], steps }
}

/// How many steps one projector takes that gets the whole log at once.
fn steps_of(script: &Script) -> usize {
    let store = stored(State::default());
    let mut machine = Machine::start(&store, &script.records, Fault::None, Ahead::Never);
    std::iter::from_fn(|| machine.step(&store, ALL).then_some(())).count()
}
