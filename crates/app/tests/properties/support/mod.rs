//! What the properties share. No property is stated here.

pub mod faults;
pub mod machine;
pub mod naive;
pub mod reading;
pub mod scenario;
pub mod schedule;
pub mod script;

use std::cell::Cell;

use dunlin_app::Rules;
use dunlin_contract::State;
use dunlin_model::{Epoch, Offset, Pair, Seq, UserId};
use futures::FutureExt;
use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};

thread_local! {
    static IDS_IN_HEADS: Cell<bool> = const { Cell::new(false) };
}

/// Half of the scenarios are judged as on a cluster: heads keep client ids, and what they tell the store is not asked for.
pub fn choose_rules(steps: usize) {
    IDS_IN_HEADS.set(steps.is_multiple_of(2));
}

pub fn rules() -> Rules {
    Rules { ids_in_heads: IDS_IN_HEADS.get(), ..Rules::default() }
}

/// The model store never waits, so neither does anything over it.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the model store never waits")
}

pub fn alice() -> UserId {
    user("alice")
}

pub fn bob() -> UserId {
    user("bob")
}

pub fn carol() -> UserId {
    user("carol")
}

pub fn alice_and(other: UserId) -> Pair {
    Pair::new(alice(), other)
}

/// The place of a log's event, counted from zero.
pub fn seq(place: usize) -> Seq {
    Seq::new(Epoch::FIRST_LIVE, Offset(place as u64))
}

fn user(id: &str) -> UserId {
    UserId::parse(id).expect("short and of the alphabet")
}

/// So many cases, or as many as the environment asks for.
pub fn cases(cases: u32) -> Config {
    let asked = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { cases };
    Config { cases, failure_persistence: None, ..asked }
}

/// Whether any of so many cases breaks the property. The same cases each time, so a fault that is found once always is.
pub fn is_refuted<T: Strategy>(cases: u32, strategy: &T, property: impl Fn(T::Value) -> Result<(), TestCaseError>) -> bool {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    match runner.run(strategy, property) {
        Ok(()) => false,
        Err(TestError::Fail(..)) => true,
        Err(TestError::Abort(why)) => panic!("the cases could not be made: {why}"),
    }
}

/// `Ok` if every cell is equal; else which tables differ.
pub fn same(left: &State, right: &State) -> Result<(), TestCaseError> {
    macro_rules! differing {
        ($($table:ident),*) => { [$((stringify!($table), left.$table != right.$table)),*] };
    }
    let tables = differing!(
        heads,
        messages,
        edits,
        index,
        deleted,
        hidden,
        reactions,
        inbox,
        members,
        blocks,
        standings,
        feed,
        dedup,
        outcomes,
        parked,
        replays,
        checkpoints
    );
    let differing: Vec<&str> = tables.into_iter().filter(|(_, differs)| *differs).map(|(table, _)| table).collect();
    if differing.is_empty() && left == right { Ok(()) } else { Err(TestCaseError::fail(format!("these tables differ: {differing:?}"))) }
}
