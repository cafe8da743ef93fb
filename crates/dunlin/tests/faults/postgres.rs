//! PostgreSQL: the primary whose standby takes over, and all of it.

use std::time::Duration;

use dunlin_app::IDENTITY_TTL_MS;
use dunlin_client::{
    Client,
    protocol::{Code, TokenBody},
};

use crate::{
    engines,
    node::Node,
    profile::Place,
    row::{Meanwhile, Notes, Row},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "wants engines of which one can be lost: cargo xtask faults"]
async fn a_killed_primary_whose_standby_takes_over_loses_nothing() {
    let row = Row {
        name: "postgres-primary-killed",
        what: "kill -9 of the PostgreSQL primary; its standby is promoted 10 s later",
        lasting: Duration::from_secs(25),
        meanwhile: Meanwhile::Everything,
    };
    let fail = async |_: &mut _, notes: &mut Notes| {
        notes.0.extend(engines::kill(&["postgres-primary"]).await);
        tokio::time::sleep(Duration::from_secs(10)).await;
        engines::promote().await;
    };
    row.run(fail, async |_, _| engines::start(&["postgres"]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "cargo xtask faults"]
async fn postgres_gone_for_a_while_stops_no_message() {
    let row = Row {
        name: "postgres-gone",
        what: "all of PostgreSQL killed, and back",
        lasting: Duration::from_secs(30),
        meanwhile: Meanwhile::Everything,
    };
    row.run(async |_, _| drop(engines::kill(&["postgres"]).await), async |_, _| engines::start(&["postgres"]).await).await;
}

/// The same in small: a database that lets nobody in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_away_stops_nobody_who_is_known() {
    let place = Place::of_cluster();
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(&place, dir.path());
    let host = Client::new(node.url.parse().unwrap(), node.key.as_ref().unwrap());
    let token = async |user: &str| host.mint_token(user, &TokenBody::default()).await.unwrap().token;
    let (ann, eve) = (token("ann").await, token("eve").await);
    let (ann, eve) = (host.with_credentials(&ann), host.with_credentials(&eve));
    host.put_user("bea", &Default::default()).await.unwrap();
    ann.send("bea", "1", "1").await.unwrap();

    place.say_to_postgres(&format!("ALTER DATABASE {} ALLOW_CONNECTIONS false", place.keyspace));
    place.say_to_postgres(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'", place.keyspace));
    tokio::time::sleep(Duration::from_millis(IDENTITY_TTL_MS + 1_000)).await;
    for number in 2..5 {
        ann.send("bea", &number.to_string(), "on").await.unwrap();
    }
    host.acting_for("ann").unread().await.expect("a key that is known goes on too");
    let stranger = eve.unread().await.unwrap_err();
    assert_eq!(stranger.code(), Some(Code::Unavailable), "whether her token was revoked is not known: {stranger}");

    place.say_to_postgres(&format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", place.keyspace));
    tokio::time::timeout(Duration::from_secs(60), async {
        while eve.unread().await.is_err() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
    .await
    .expect("the directory is used again");
    host.put_user("cem", &Default::default()).await.unwrap();
}
