//! Cassandra: one node, and all of it.

use std::time::Duration;

use crate::{
    engines,
    row::{Meanwhile, Row},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "cargo xtask faults"]
async fn cassandra_gone_for_a_while_loses_nothing() {
    let row = Row {
        name: "cassandra-gone",
        what: "all of Cassandra killed, and back",
        // Its start takes as long again.
        lasting: Duration::from_secs(if engines::are_several() { 120 } else { 15 }),
        meanwhile: Meanwhile::Sends,
    };
    row.run(async |_, _| drop(engines::kill(&["cassandra"]).await), async |_, _| engines::start(&["cassandra"]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "wants engines of which one can be lost: cargo xtask faults"]
async fn a_killed_node_loses_nothing() {
    let row = Row {
        name: "cassandra-node-killed",
        what: "kill -9 of one of three Cassandra nodes, and its return",
        lasting: Duration::from_secs(25),
        meanwhile: Meanwhile::Everything,
    };
    row.run(async |_, _| drop(engines::kill(&["cassandra-2"]).await), async |_, _| engines::start(&["cassandra"]).await).await;
}
