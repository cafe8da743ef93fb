//! Random logs: who does what, to which message, how much later. Targets are named by index, so that a scenario still means something
//! after steps are taken out of it.

use std::ops::RangeInclusive;

use dunlin_model::{Millis, Pair, VisibilityChange};
use proptest::{collection::vec, option, prelude::*};

use super::{alice, alice_and, bob, carol};

#[derive(Clone, Debug)]
pub struct Scenario {
    /// The conversations that the steps are about.
    pub pairs: Vec<Pair>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub struct Step {
    /// How much log time has passed since the step before.
    pub after_ms: u64,
    /// Which of the scenario's pairs.
    pub pair: usize,
    pub actor: Actor,
    pub act: Act,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Actor {
    One,
    Other,
    Stranger,
    System,
}

#[derive(Clone, Debug)]
pub enum Act {
    Open,
    Message {
        opens: Opens,
        client_id: u8,
        says: u8,
        reply_to: Option<Target>,
        /// Only strangers are ever robots here.
        robot: bool,
    },
    Edit(Target, u8),
    Delete(Target),
    Hide(Target),
    React {
        target: Target,
        emoji: u8,
        on: bool,
    },
    Read(Target),
    Visibility(VisibilityChange),
    Block(bool),
    /// No event: a device of the actor has everything up to a message.
    Delivered(Target),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opens {
    Nothing,
    Itself,
    /// Brings the opening of another conversation.
    Another,
}

#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// One of the messages that the conversation has so far.
    Message(usize),
    /// Whatever the log holds at an earlier place, of whichever conversation.
    Event(usize),
    /// What is not there yet, but may be later.
    Beyond(usize),
}

/// Everything of one pair: one log key.
pub fn of_a_pair(steps: RangeInclusive<usize>) -> impl Strategy<Value = Scenario> {
    scenario(vec![alice_and(bob())], steps)
}

pub fn of_notes_to_self(steps: RangeInclusive<usize>) -> impl Strategy<Value = Scenario> {
    scenario(vec![alice_and(alice())], steps)
}

pub fn of_several(steps: RangeInclusive<usize>) -> impl Strategy<Value = Scenario> {
    scenario(vec![alice_and(bob()), alice_and(carol()), alice_and(alice())], steps)
}

fn scenario(pairs: Vec<Pair>, steps: RangeInclusive<usize>) -> impl Strategy<Value = Scenario> {
    vec(step(pairs.len()), steps).prop_map(move |steps| Scenario { pairs: pairs.clone(), steps })
}

fn step(pairs: usize) -> impl Strategy<Value = Step> {
    (after_ms(), 0..pairs, actor(), act()).prop_map(|(after_ms, pair, actor, act)| Step { after_ms, pair, actor, act })
}

/// Often no time at all; sometimes to the edge of the window in which a repeated client id is the same message, or into another month.
fn after_ms() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => Just(0),
        8 => 1..=1_000_u64,
        2 => Just(Millis::DAY / 2),
        1 => Just(Millis::DAY),
        1 => Just(Millis::DAY + 1),
        1 => Just(40 * Millis::DAY),
    ]
}

fn actor() -> impl Strategy<Value = Actor> {
    prop_oneof![6 => Just(Actor::One), 6 => Just(Actor::Other), 1 => Just(Actor::Stranger), 1 => Just(Actor::System)]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        1 => Just(Act::Open),
        10 => message(),
        3 => (target(), 0..6_u8).prop_map(|(target, says)| Act::Edit(target, says)),
        3 => target().prop_map(Act::Delete),
        2 => target().prop_map(Act::Hide),
        2 => (target(), 0..2_u8, any::<bool>()).prop_map(|(target, emoji, on)| Act::React { target, emoji, on }),
        3 => target().prop_map(Act::Read),
        3 => visibility().prop_map(Act::Visibility),
        3 => prop_oneof![1 => Just(true), 5 => Just(false)].prop_map(Act::Block),
        1 => target().prop_map(Act::Delivered),
    ]
}

fn message() -> impl Strategy<Value = Act> {
    let opens = prop_oneof![3 => Just(Opens::Nothing), 6 => Just(Opens::Itself), 1 => Just(Opens::Another)];
    (opens, 0..8_u8, 0..6_u8, option::weighted(0.2, target()), any::<bool>()).prop_map(|(opens, client_id, says, reply_to, robot)| {
        // Few client ids, each mostly with one thing to say: repeats are frequent, and some bring another body.
        let says = if says < 3 { client_id % 6 } else { says };
        Act::Message { opens, client_id, says, reply_to, robot }
    })
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        8 => (0..64_usize).prop_map(Target::Message),
        1 => (0..64_usize).prop_map(Target::Event),
        1 => (0..4_usize).prop_map(Target::Beyond),
    ]
}

fn visibility() -> impl Strategy<Value = VisibilityChange> {
    prop_oneof![Just(VisibilityChange::Archive), Just(VisibilityChange::Activate), Just(VisibilityChange::Delete)]
}
