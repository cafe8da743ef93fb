//! PostgreSQL: the primary whose standby takes over, and all of it.

use std::time::Duration;

use crate::{
    engines,
    row::{Notes, Recovers, Row},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "wants engines of which one can be lost: cargo xtask faults"]
async fn a_killed_primary_whose_standby_takes_over_loses_nothing() {
    let row = Row {
        name: "postgres-primary-killed",
        what: "kill -9 of the PostgreSQL primary; its standby is promoted 10 s later",
        lasting: Duration::from_secs(25),
        recovers: Recovers::FromTheFailure,
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
        recovers: Recovers::FromTheFailure,
    };
    row.run(async |_, _| drop(engines::kill(&["postgres"]).await), async |_, _| engines::start(&["postgres"]).await).await;
}
