//! What a real PostgreSQL does beyond the contract: starts that are refused, connections that break, pools that are full.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod support;

use std::{sync::Arc, time::Duration};

use dunlin_contract::ids;
use dunlin_model::{Millis, PhoneNumber, UserChange, UserId};
use dunlin_ports::{Directory as _, PHONE_CLAIM_MS_MAX, StoreError};
use dunlin_postgres::{Database, Directory, Options, SchemaError, Shard, StartError, schema};
use support::{
    applied, connect, open,
    proxy::{Cut, Proxy},
};
use tokio::time::{Instant, timeout};

async fn refusal(options: &Options) -> StartError {
    Directory::open(options).await.err().expect("a refusal")
}

#[tokio::test]
async fn a_database_without_tables_is_told_with_what_to_do() {
    let error = refusal(&support::options(&[("a", "0-63")]).await).await;
    assert!(matches!(&error, StartError::Schema(SchemaError::Missing(name)) if name == "a"), "{error}");
    assert!(error.to_string().contains("dunlin schema apply"), "{error}");
}

#[tokio::test]
async fn applying_again_or_at_once_changes_nothing() {
    let options = support::options(&[("a", "0-9"), ("b", "10-63")]).await;
    let (one, other) = tokio::join!(schema::apply(&options), schema::apply(&options));
    one.unwrap();
    other.unwrap();
    let id = ids::user();
    let user = open(&options).await.upsert_user(&id, UserChange::default(), Millis(5)).await.unwrap();
    schema::apply(&options).await.unwrap();
    assert_eq!(open(&options).await.user(&id).await.unwrap(), Some(user));
}

#[tokio::test]
async fn shards_are_where_the_options_say_and_a_user_is_in_its_own() {
    let options = support::options(&[("a", "0-9"), ("b", "10-63")]).await;
    schema::apply(&options).await.unwrap();
    let directory = open(&options).await;
    for _ in 0..20 {
        let id = ids::user();
        directory.upsert_user(&id, UserChange::default(), Millis(5)).await.unwrap();
        let shard = Shard::of(id.as_str());
        let holder = &options.databases[usize::from(shard.number() > 9)];
        let sql = format!("SELECT id FROM dunlin_shard_{:02}.users WHERE id = $1", shard.number());
        assert_eq!(connect(&holder.url).await.query(&sql, &[&id.as_str()]).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn making_shards_goes_on_where_it_was_interrupted_and_is_never_done_anew() {
    let options = support::options(&[("a", "0-31"), ("b", "32-63")]).await;
    schema::apply(&options).await.unwrap();
    let [a, b] = [connect(&options.databases[0].url).await, connect(&options.databases[1].url).await];
    let lose = "DELETE FROM dunlin.shards WHERE shard >= 40; DROP SCHEMA dunlin_shard_40 CASCADE";
    b.batch_execute(lose).await.unwrap();
    for tried in [schema::apply(&options).await.err().unwrap(), refusal(&options).await] {
        assert!(matches!(tried, StartError::Schema(SchemaError::Nowhere(lost)) if lost.to_string() == "40-63"), "{tried}");
    }
    for client in [&a, &b] {
        client.batch_execute("UPDATE dunlin.database SET founded = false").await.unwrap();
    }
    assert!(matches!(refusal(&options).await, StartError::Schema(SchemaError::Missing(_))));
    for shard in 41..64 {
        b.batch_execute(&format!("DROP SCHEMA dunlin_shard_{shard} CASCADE")).await.unwrap();
    }
    schema::apply(&options).await.unwrap();
    open(&options).await;
}

#[tokio::test]
async fn another_version_is_refused_and_left_alone() {
    let options = applied().await;
    let client = connect(&options.databases[0].url).await;
    client.batch_execute("UPDATE dunlin.shards SET version = 99 WHERE shard = 7").await.unwrap();
    for refused in [refusal(&options).await, schema::apply(&options).await.unwrap_err()] {
        let StartError::Schema(SchemaError::Newer { what, found: 99, .. }) = refused else { panic!("{refused}") };
        assert_eq!(what, "shard 7");
    }
    client.batch_execute("UPDATE dunlin.shards SET version = 0 WHERE shard = 7").await.unwrap();
    let error = refusal(&options).await;
    assert!(error.to_string().contains("shard 7 of the PostgreSQL database a has schema version 0"), "{error}");
}

#[tokio::test]
async fn a_database_whose_commits_wait_for_nobody_is_refused_unless_that_is_wanted() {
    let options = Options { require_synchronous: true, ..applied().await };
    let names = connect(&options.databases[0].url).await.query_one("SHOW synchronous_standby_names", &[]).await.unwrap();
    if !names.get::<_, String>(0).is_empty() {
        open(&options).await; // The full set of engines has a standby.
        return;
    }
    let error = refusal(&options).await.to_string();
    assert!(error.contains("don't wait for a standby: synchronous_standby_names is empty"), "{error}");
    assert!(error.contains("require_synchronous"), "{error}");
}

#[tokio::test]
async fn nobody_is_told_a_password() {
    let server = support::server();
    let elsewhere = |url: &str| Options {
        wait_max: Duration::from_millis(500),
        ..Options::new([Database { name: "a".into(), url: url.to_owned(), shards: dunlin_postgres::ShardSet::ALL }], url)
    };
    let (_, host) = server.rsplit_once('@').unwrap();
    let (host, _) = host.split_once('/').unwrap();
    for url in [
        "postgres://ann:swordfish@127.0.0.1:1/dunlin".to_owned(),
        format!("postgres://nobody-{}:swordfish@{host}/postgres", ids::hex()),
        format!("postgres://postgres:swordfish@{host}/{}", ids::hex()),
    ] {
        let options = Options { password: Some("opensesame".into()), ..elsewhere(&url) };
        let error = refusal(&options).await;
        let words = format!("{error} {error:?} {options:?}");
        assert!(matches!(error, StartError::Unreachable { .. } | StartError::NotLetIn { .. }), "{words}");
        assert!(!words.contains("swordfish") && !words.contains("opensesame"), "{words}");
    }
}

/// A directory behind a proxy, and one that is not.
async fn behind_a_proxy() -> (Proxy, Options, Directory) {
    let direct = applied().await;
    let (proxy, through) = Proxy::before(&direct.databases[0].url).await;
    let mut options = direct.clone();
    options.databases[0].url = through;
    (proxy, options, open(&direct).await)
}

#[tokio::test]
async fn a_commit_that_nobody_heard_of_is_made_again_and_changes_nothing_more() {
    let (proxy, options, direct) = behind_a_proxy().await;
    let directory = open(&options).await;
    for cut in [Cut::AfterCommit, Cut::BeforeCommit] {
        let id = ids::user();
        proxy.cut(cut, 1);
        let user = directory.upsert_user(&id, UserChange::default(), Millis(5)).await.unwrap();
        assert_eq!(direct.user(&id).await.unwrap(), Some(user));
    }
}

#[tokio::test]
async fn a_commit_whose_outcome_stays_unknown_is_told_so() {
    let (proxy, options, direct) = behind_a_proxy().await;
    let directory = open(&Options { call_timeout: Duration::from_millis(300), ..options }).await;
    for (cut, is_done) in [(Cut::AfterCommit, true), (Cut::BeforeCommit, false)] {
        let id = ids::user();
        proxy.cut(cut, u32::MAX);
        let outcome = directory.upsert_user(&id, UserChange::default(), Millis(5)).await;
        assert!(matches!(outcome, Err(StoreError::Unknown(_))), "{outcome:?}");
        assert_eq!(direct.user(&id).await.unwrap().is_some(), is_done);
    }
}

#[tokio::test]
async fn a_database_that_is_away_is_unavailable_within_the_calls_time_and_comes_back() {
    let (proxy, options, _) = behind_a_proxy().await;
    let directory = open(&Options { call_timeout: Duration::from_secs(1), ..options }).await;
    let id = ids::user();
    proxy.cut(Cut::Always, u32::MAX);
    let began = Instant::now();
    let (read, written) = tokio::join!(directory.user(&id), directory.upsert_user(&id, UserChange::default(), Millis(5)));
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    assert!(matches!(written, Err(StoreError::Unavailable(_))), "{written:?}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    proxy.cut(Cut::Never, 0);
    directory.upsert_user(&id, UserChange::default(), Millis(5)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_back_is_noticed_however_many_ask_for_it() {
    let (proxy, options, _) = behind_a_proxy().await;
    let directory = Arc::new(open(&Options { call_timeout: Duration::from_millis(300), ..options }).await);
    proxy.cut(Cut::Always, u32::MAX);
    let callers: Vec<_> = (0..16)
        .map(|number| {
            let directory = Arc::clone(&directory);
            tokio::spawn(async move {
                let id = ids::user();
                loop {
                    // Both at once, as a request may: the first to be refused ends the other.
                    let change = UserChange::default();
                    let asked = async { tokio::try_join!(directory.user(&id), directory.upsert_user(&id, change, Millis(5))) };
                    if asked.await.is_ok() {
                        return number;
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
        })
        .collect();
    let is_away = async |expected: bool| {
        let until = Instant::now() + Duration::from_secs(60);
        while directory.troubles().is_empty() == expected {
            assert!(Instant::now() < until, "it never says that it is {}", if expected { "away" } else { "back" });
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    is_away(true).await;
    proxy.cut(Cut::Never, 0);
    is_away(false).await;
    for caller in callers {
        tokio::time::timeout(Duration::from_secs(60), caller).await.expect("everyone is served again").unwrap();
    }
}

#[tokio::test]
async fn a_host_that_hangs_is_left_for_the_next_within_one_call() {
    let (proxy, mut options, direct) = behind_a_proxy().await;
    // The same server again, without the proxy.
    let server = support::server();
    let (_, place) = server.rsplit_once('@').unwrap();
    let through = format!("127.0.0.1:{}", proxy.port);
    let both = format!("{through},{}", place.split_once('/').unwrap().0);
    options.databases[0].url = options.databases[0].url.replace(&through, &both);
    let options = Options { wait_max: Duration::from_secs(1), call_timeout: Duration::from_secs(10), ..options };
    let directory = open(&options).await;
    let id = ids::user();
    directory.upsert_user(&id, UserChange::default(), Millis(5)).await.unwrap();
    proxy.cut(Cut::Hang, u32::MAX);
    let began = Instant::now();
    let user = directory.upsert_user(&id, UserChange::default(), Millis(6)).await.unwrap();
    assert!(began.elapsed() < options.call_timeout, "{:?}", began.elapsed());
    assert_eq!(direct.user(&id).await.unwrap(), Some(user));
}

#[tokio::test]
async fn connections_that_are_killed_under_load_lose_nothing() {
    let options = applied().await;
    let directory = Arc::new(open(&options).await);
    let killer = tokio::spawn({
        let url = options.databases[0].url.clone();
        async move {
            let client = connect(&url).await;
            loop {
                let kill =
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
                client.query(kill, &[]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    });
    let callers = (0..8).map(|_| {
        let directory = Arc::clone(&directory);
        tokio::spawn(async move {
            for at in 0..50 {
                let id = ids::user();
                let user = directory.upsert_user(&id, UserChange::default(), Millis(at)).await.unwrap();
                assert_eq!(directory.user(&id).await.unwrap(), Some(user));
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    killer.abort();
}

#[tokio::test]
async fn there_are_no_more_connections_than_allowed() {
    let options = Options { connections_max: 2, ..applied().await };
    let directory = Arc::new(open(&options).await);
    let callers = (0..50).map(|_| {
        let directory = Arc::clone(&directory);
        tokio::spawn(async move { directory.upsert_user(&ids::user(), UserChange::default(), Millis(1)).await })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap().unwrap();
    }
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'dunlin'";
    let count: i64 = connect(&options.databases[0].url).await.query_one(count, &[]).await.unwrap().get(0);
    assert!((1..=2).contains(&count), "{count}");
}

#[tokio::test]
async fn a_call_that_is_given_up_leaves_nothing_behind_and_others_wait_no_longer_than_they_may() {
    let options =
        Options { connections_max: 1, wait_max: Duration::from_millis(100), call_timeout: Duration::from_millis(400), ..applied().await };
    let directory = open(&options).await;
    let id = ids::user();
    directory.upsert_user(&id, UserChange::default(), Millis(1)).await.unwrap();

    let mut other = connect(&options.databases[0].url).await;
    let lock = other.transaction().await.unwrap();
    let table = format!("dunlin_shard_{:02}.users", Shard::of(id.as_str()).number());
    lock.batch_execute(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await.unwrap();
    let stuck = directory.user(&id);
    let waiting = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let began = Instant::now();
        let refused = directory.user(&id).await;
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        refused
    };
    let (stuck, refused) = tokio::join!(stuck, waiting);
    assert!(matches!(stuck, Err(StoreError::Unavailable(_))), "{stuck:?}");
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    let given_up = timeout(Duration::from_millis(50), directory.upsert_user(&id, UserChange::default(), Millis(2))).await;
    assert!(given_up.is_err());
    lock.commit().await.unwrap();

    directory.upsert_user(&id, UserChange::default(), Millis(3)).await.unwrap();
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    let idle: i64 = other.query_one(idle, &[]).await.unwrap().get(0);
    assert_eq!(idle, 0);
}

#[tokio::test]
async fn a_value_that_can_not_be_is_corrupt() {
    let options = applied().await;
    let directory = open(&options).await;
    let id = ids::user();
    let table = format!("dunlin_shard_{:02}.users", Shard::of(id.as_str()).number());
    let insert = format!("INSERT INTO {table} (id, created_at, updated_at) VALUES ($1, -1, 0)");
    connect(&options.databases[0].url).await.execute(&insert, &[&id.as_str()]).await.unwrap();
    assert!(matches!(directory.user(&id).await, Err(StoreError::Corrupt(_))));
    assert!(matches!(directory.upsert_user(&id, UserChange::default(), Millis(1)).await, Err(StoreError::Corrupt(_))));
}

#[tokio::test]
async fn numbers_that_many_want_and_give_up_midway_are_never_lost_nor_two_users() {
    const USERS: usize = 6;
    const STEP_MS: u64 = PHONE_CLAIM_MS_MAX / 10;
    let options = applied().await;
    let directory = Arc::new(open(&options).await);
    let users: Vec<UserId> = (0..USERS).map(|_| ids::user()).collect();
    let phones: Vec<PhoneNumber> = (0..3).map(|_| ids::phone()).collect();
    for id in &users {
        directory.upsert_user(id, UserChange::default(), Millis(1)).await.unwrap();
    }
    let mut callers = Vec::new();
    for id in users.clone() {
        let (directory, phones) = (Arc::clone(&directory), phones.clone());
        callers.push(tokio::spawn(async move {
            for round in 0..60 {
                let at = Millis(1 + round * STEP_MS);
                let phone = phones.get(ids::number() as usize % (phones.len() + 1));
                let patience = Duration::from_micros(ids::number() % 12_000);
                // Given up in the middle, or refused, or done.
                let _ = timeout(patience, directory.set_phone(&id, phone, at)).await;
            }
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    // What was given up may still be under way at the server.
    tokio::time::sleep(options.statement_timeout).await;
    let mut rows = Vec::new();
    for id in &users {
        rows.push(directory.user(id).await.unwrap().unwrap());
    }
    for phone in &phones {
        let having: Vec<&UserId> = rows.iter().filter(|user| user.phone.as_ref() == Some(phone)).map(|user| &user.id).collect();
        assert!(having.len() <= 1, "{having:?}");
        assert_eq!(directory.user_with_phone(phone).await.unwrap().as_ref(), having.first().copied());
        let heir = ids::user();
        directory.upsert_user(&heir, UserChange::default(), Millis(1)).await.unwrap();
        let claimed = directory.set_phone(&heir, Some(phone), Millis(1000 * PHONE_CLAIM_MS_MAX)).await;
        assert_eq!(claimed.is_ok(), having.is_empty(), "a number that nobody has can be had: {claimed:?}");
    }
}
