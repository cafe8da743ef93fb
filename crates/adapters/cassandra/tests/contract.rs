//! The message store's promises, kept by a real Cassandra: the one that DUNLIN_TEST_CASSANDRA names.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{
    collections::BTreeMap,
    env,
    sync::{Arc, LazyLock},
};

use dunlin_cassandra::{ConnectError, Messages, Options, SchemaError, schema};
use dunlin_model::{Epoch, Millis, Offset};
use dunlin_ports::Life;
use tokio::runtime::Runtime;

dunlin_contract::message_store!(store().await);

/// One keyspace and one session for all cases: making tables takes seconds. They live on a runtime of their own, which outlives each case's.
static STORE: LazyLock<(Runtime, Arc<Messages>)> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let options = options("dunlin_contract");
    let store = std::thread::scope(|scope| {
        let open = || {
            runtime.block_on(async {
                schema::apply(&options).await.expect("apply the schema");
                Messages::open(options.clone()).await.expect("open the store")
            })
        };
        scope.spawn(open).join().unwrap()
    });
    (runtime, Arc::new(store))
});

async fn store() -> Arc<Messages> {
    Arc::clone(&STORE.1)
}

fn options(keyspace: &str) -> Options {
    let nodes = env::var("DUNLIN_TEST_CASSANDRA").expect("DUNLIN_TEST_CASSANDRA names a Cassandra; `cargo xtask engines up` starts one");
    let nodes: Vec<String> = nodes.split(',').map(str::to_owned).collect();
    let replicas = nodes.len().min(3) as u32;
    Options { nodes, keyspace: keyspace.into(), replication: BTreeMap::from([("dc1".into(), replicas)]), ..Options::default() }
}

async fn refusal(options: Options) -> ConnectError {
    Messages::open(options).await.err().expect("a refusal")
}

#[tokio::test]
async fn a_keyspace_that_is_not_there_is_told_with_what_to_do() {
    let error = refusal(options("dunlin_nowhere")).await;
    assert!(matches!(error, ConnectError::Schema(SchemaError::Missing(_))), "{error}");
    assert!(error.to_string().contains("dunlin schema apply"), "{error}");
}

#[tokio::test]
async fn another_replication_is_refused() {
    store().await;
    let other = Options { replication: BTreeMap::from([("dc1".into(), 2)]), ..options("dunlin_contract") };
    let error = refusal(other).await;
    assert!(error.to_string().contains("is replicated as dc1: 1, the configuration says dc1: 2"), "{error}");
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_told_by_its_address() {
    let error = refusal(Options { nodes: vec!["127.0.0.1:1".into()], ..options("dunlin_contract") }).await;
    assert!(matches!(&error, ConnectError::Unreachable { nodes, .. } if nodes == "127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn the_latest_life_of_the_log_counts_whenever_it_was_written() {
    let options = options("dunlin_lives");
    schema::apply(&options).await.unwrap();
    let store = Messages::open(options).await.unwrap();
    let life = |epoch| Life { epoch, log: format!("log {}", epoch.0), begins: vec![Offset(7), Offset(0)], not_before: Millis(5) };
    for epoch in [Epoch(2), Epoch(4), Epoch(3)] {
        store.begin_life(&life(epoch)).await.unwrap();
    }
    assert_eq!(store.life().await.unwrap(), Some(life(Epoch(4))));
}

#[tokio::test]
async fn applying_a_schema_again_changes_nothing() {
    store().await;
    schema::apply(&options("dunlin_contract")).await.unwrap();
}
