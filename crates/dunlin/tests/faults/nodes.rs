//! A node of Dunlin itself.

use std::time::Duration;

use crate::row::{Meanwhile, Row};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "cargo xtask faults"]
async fn a_killed_node_loses_nothing() {
    let row =
        Row { name: "node-killed", what: "kill -9 of a dunlin node", lasting: Duration::from_secs(15), meanwhile: Meanwhile::Everything };
    row.run(async |site, _| site.nodes[1].signal("-KILL"), async |site, _| site.start_again(1)).await;
}

/// A zombie: it stops in the middle of things, others take over, it goes on with what it has in its hands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "cargo xtask faults"]
async fn a_stopped_node_that_goes_on_loses_nothing() {
    let longer_than_a_session = Duration::from_secs(15);
    let row = Row {
        name: "node-stopped",
        what: "a dunlin node that stands still past its group session, and goes on",
        lasting: longer_than_a_session,
        meanwhile: Meanwhile::Everything,
    };
    row.run(async |site, _| site.nodes[1].signal("-STOP"), async |site, _| site.nodes[1].signal("-CONT")).await;
}
