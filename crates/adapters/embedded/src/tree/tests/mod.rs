//! A model in memory to compare with, and batches that are a function of their number.

mod corruption;
mod durability;
mod pressure;
mod visibility;

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Options, Snapshot, Tree, TreeError};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Batch = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Everything small, so that a few thousand rows are flushed and compacted many times.
fn small() -> Options {
    Options {
        memtable_bytes: 32 << 10,
        table_bytes: 64 << 10,
        cache_bytes: 1 << 20,
        stall_max: Duration::from_secs(30),
        ..Options::default()
    }
}

/// New rows, overwritten ones, deleted ones, and now and then a large value.
fn batch(number: u64) -> Batch {
    let mut random = StdRng::seed_from_u64(number);
    let mut batch = Batch::new();
    for row in 0..random.random_range(0..20u64) {
        batch.insert(format!("new/{number:06}/{row:02}").into_bytes(), Some(vec![row as u8; random.random_range(0..200)]));
    }
    for _ in 0..5 {
        let key = format!("hot/{:03}", random.random_range(0..200u64)).into_bytes();
        let value = random.random_bool(0.8).then(|| format!("{number} {}", "x".repeat(random.random_range(0..300))).into_bytes());
        batch.insert(key, value);
    }
    if random.random_bool(0.02) {
        batch.insert(format!("large/{number:06}").into_bytes(), Some(vec![number as u8; 70_000]));
    }
    if number > 100 {
        batch.insert(format!("new/{:06}/{:02}", random.random_range(0..number), random.random_range(0..20u64)).into_bytes(), None);
    }
    batch
}

fn apply(tree: &Tree, number: u64) {
    tree.apply(batch(number), number).expect("apply");
}

fn apply_to(model: &mut Model, number: u64) {
    for (key, value) in batch(number) {
        match value {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    }
}

/// The state after the batches 1 to `last`.
fn model(last: u64) -> Model {
    let mut model = Model::new();
    (1..=last).for_each(|number| apply_to(&mut model, number));
    model
}

/// Everything in a snapshot, read in each way there is (of single rows, a thousand); they have to agree.
fn read_all(snapshot: &Snapshot) -> Result<Model, TreeError> {
    let owned = |row: Result<(super::Slice, super::Slice), TreeError>| row.map(|(key, value)| (key.to_vec(), value.to_vec()));
    let rows = snapshot.range(..)?.map(owned).collect::<Result<Vec<_>, _>>()?;
    let mut backwards = snapshot.range(..)?.rev().map(owned).collect::<Result<Vec<_>, _>>()?;
    backwards.reverse();
    assert_eq!(rows.len(), backwards.len());
    assert!(rows == backwards, "the directions disagree");
    for (key, value) in rows.iter().step_by(rows.len() / 1_000 + 1) {
        assert_eq!(snapshot.get(key)?.as_deref(), Some(&value[..]), "get and range disagree");
    }
    Ok(rows.into_iter().collect())
}

fn assert_content(snapshot: &Snapshot, expected: &Model) {
    let found = read_all(snapshot).expect("read");
    for (key, value) in expected {
        assert!(found.get(key) == Some(value), "{} is missing or differs", String::from_utf8_lossy(key));
    }
    assert_eq!(found.len(), expected.len(), "there are rows too many");
}

/// Waits until compaction has nothing left to do.
fn settle(tree: &Tree) {
    while tree.stats().is_compacting {
        std::thread::sleep(Duration::from_millis(2));
    }
}
