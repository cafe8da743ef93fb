//! The properties bite: for each rule, a projector or store that breaks it is found out, and the one that keeps it is not, by the same cases.

use crate::{
    feed::{Ticks, nothing_is_missed, trip},
    indexes::{grown, stretches_hold},
    lockstep::agrees_with_naive,
    replay::{order, reordered_agree},
    support::{
        faults::Fault,
        is_refuted,
        machine::Ahead,
        scenario::{of_a_pair, of_several},
        schedule::schedule,
    },
    two_projectors::interleaved_agree,
};

/// Inputs: one head, everything else as of the event.
#[test]
fn inputs_that_are_not_as_of_the_event_are_found() {
    for fault in [Fault::HeadFirst, Fault::LatestDedup, Fault::LatestBlocks, Fault::LatestTarget, Fault::KeepsLane] {
        assert!(interleaving_finds(fault), "{fault:?} was not found");
    }
    assert!(!interleaving_finds(Fault::None));
}

/// Feed order.
#[test]
fn a_feed_that_calls_too_much_safe_is_found() {
    let finds = |fault| is_refuted(400, &trip(), |trip| nothing_is_missed(&trip, fault, Ticks::First));
    for fault in [Fault::HorizonIsHighest, Fault::HorizonIsInclusive, Fault::CheckpointFirst] {
        assert!(finds(fault), "{fault:?} was not found");
    }
    assert!(!finds(Fault::None));
}

/// Feed order: the checkpoint is also where a projector resumes.
#[test]
fn a_checkpoint_before_its_events_is_found() {
    assert!(interleaving_finds(Fault::CheckpointFirst));
}

/// Dedup.
#[test]
fn an_event_that_takes_itself_for_a_duplicate_is_found() {
    assert!(interleaving_finds(Fault::OwnSeqIsDuplicate));
}

/// Marks.
#[test]
fn marks_that_fall_are_found() {
    let reordering_finds = |fault| is_refuted(100, &(of_several(5..=60), order()), |(log, order)| reordered_agree(&log, &order, fault));
    let naive_finds = |fault| is_refuted(20, &of_a_pair(5..=60), |scenario| agrees_with_naive(&scenario, fault));
    assert!(reordering_finds(Fault::LastMarkWins) && naive_finds(Fault::LastMarkWins));
    assert!(!reordering_finds(Fault::None) && !naive_finds(Fault::None));
}

/// Buckets.
#[test]
fn buckets_that_are_not_decided_from_the_head_are_found() {
    let stretches_find = |fault| is_refuted(60, &grown(), |grown| stretches_hold(&grown, fault));
    assert!(interleaving_finds(Fault::BucketFromClock));
    assert!(stretches_find(Fault::NoIndexAtCut));
    assert!(!stretches_find(Fault::None));
}

fn interleaving_finds(fault: Fault) -> bool {
    let cases = (of_a_pair(5..=60), schedule());
    is_refuted(400, &cases, |(scenario, schedule)| interleaved_agree(&scenario, &schedule, fault, Ahead::Never))
}
