//! Kafka: one broker, the one that is the controller, and all of it.

use std::time::Duration;

use crate::{
    engines,
    row::{Notes, Recovers, Row},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "wants engines of which one can be lost: cargo xtask faults"]
async fn a_killed_broker_loses_nothing() {
    let row = Row {
        name: "kafka-broker-killed",
        what: "kill -9 of one of three Kafka brokers",
        lasting: Duration::from_secs(25),
        recovers: Recovers::FromTheFailure,
    };
    row.run(async |_, _| drop(engines::kill(&["kafka-2"]).await), async |_, _| engines::start(&["kafka"]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "wants engines of which one can be lost: cargo xtask faults"]
async fn a_killed_controller_loses_nothing() {
    let row = Row {
        name: "kafka-controller-killed",
        what: "kill -9 of the Kafka broker that is the active controller",
        lasting: Duration::from_secs(25),
        recovers: Recovers::FromTheFailure,
    };
    let fail = async |_: &mut _, notes: &mut Notes| notes.0.extend(engines::kill(&["kafka-controller"]).await);
    row.run(fail, async |_, _| engines::start(&["kafka"]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "cargo xtask faults"]
async fn kafka_gone_for_a_while_refuses_and_loses_nothing() {
    let row =
        Row { name: "kafka-gone", what: "all of Kafka killed, and back", lasting: Duration::from_secs(30), recovers: Recovers::FromItsEnd };
    row.run(async |_, _| drop(engines::kill(&["kafka"]).await), async |_, _| engines::start(&["kafka"]).await).await;
}
