//! A primary dies and its standby takes over. Needs a PostgreSQL of its own with a synchronous standby, and leaves it with one less:
//! `cargo xtask engines up --set full`, then with its addresses
//! `cargo test -p dunlin-postgres --features engines --test failover -- --ignored --nocapture`

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod support;

use std::{sync::Arc, time::Duration};

use dunlin_contract::ids;
use dunlin_model::{Millis, UserChange, UserId};
use dunlin_ports::{Directory as _, StoreError};
use dunlin_postgres::{Database, Directory, Options, ShardSet, schema};
use support::connect;
use tokio::{task::JoinSet, time::Instant};

const WATCHED: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "kills a primary"]
async fn what_was_acknowledged_is_there_after_the_death_of_the_primary() {
    let primary = support::database().await;
    let standby = std::env::var("DUNLIN_TEST_POSTGRES_STANDBY").expect("DUNLIN_TEST_POSTGRES_STANDBY names its standby");
    let place = |url: &str| url.rsplit_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
    let (server, name) = primary.rsplit_once('/').unwrap();
    let both = format!("{server},{}/{name}", place(&standby));
    let options = Options::new([Database { name: "a".into(), url: both.clone(), shards: ShardSet::ALL }], both);
    schema::apply(&options).await.unwrap();
    let directory = Arc::new(Directory::open(&options).await.unwrap());

    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        callers.spawn(call_again_and_again(Arc::clone(&directory), began));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let died_at = began.elapsed();
    // Its working folder is the data folder.
    let kill = "COPY (SELECT 1) TO PROGRAM 'kill -9 $(head -1 postmaster.pid)'";
    let _ = connect(&primary).await.batch_execute(kill).await;
    connect(&standby).await.batch_execute("SELECT pg_promote()").await.unwrap();
    let promoted_at = began.elapsed();

    let (mut kept, mut failures, mut longest) = (Vec::new(), 0, Duration::ZERO);
    for seen in callers.join_all().await {
        kept.extend(seen.acknowledged);
        failures += seen.failures;
        longest = longest.max(seen.longest);
    }
    println!(
        "{} acknowledged, {failures} failed, the longest took {longest:?}; promoted {:?} after the death",
        kept.len(),
        promoted_at - died_at
    );
    for id in &kept {
        assert!(directory.user(id).await.unwrap().is_some(), "{id} was acknowledged");
    }
    assert!(longest < options.call_timeout + Duration::from_secs(1), "{longest:?}");
}

#[derive(Default)]
struct Seen {
    acknowledged: Vec<UserId>,
    failures: u32,
    longest: Duration,
}

async fn call_again_and_again(directory: Arc<Directory>, began: Instant) -> Seen {
    let mut seen = Seen::default();
    while began.elapsed() < WATCHED {
        let (id, asked) = (ids::user(), Instant::now());
        match directory.upsert_user(&id, UserChange::default(), Millis(1)).await {
            Ok(_) => seen.acknowledged.push(id),
            Err(StoreError::Unavailable(_) | StoreError::Unknown(_)) => seen.failures += 1,
            Err(error) => panic!("{error}"),
        }
        seen.longest = seen.longest.max(asked.elapsed());
    }
    seen
}
