//! Kafka: one broker, the one that is the controller, and all of it.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    engines,
    row::{Meanwhile, Notes, Row},
    site::Site,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "wants engines of which one can be lost: cargo xtask faults"]
async fn a_killed_broker_loses_nothing() {
    let row = Row {
        name: "kafka-broker-killed",
        what: "kill -9 of one of three Kafka brokers",
        lasting: Duration::from_secs(25),
        meanwhile: Meanwhile::Everything,
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
        meanwhile: Meanwhile::Everything,
    };
    let fail = async |_: &mut _, notes: &mut Notes| notes.0.extend(engines::kill(&["kafka-controller"]).await);
    row.run(fail, async |_, _| engines::start(&["kafka"]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "cargo xtask faults"]
async fn kafka_gone_for_a_while_refuses_and_loses_nothing() {
    let row =
        Row { name: "kafka-gone", what: "all of Kafka killed, and back", lasting: Duration::from_secs(30), meanwhile: Meanwhile::Nothing };
    let fail = async |site: &mut Site, _: &mut Notes| {
        engines::kill(&["kafka"]).await;
        let answer = send_by_hand(site).await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.to_lowercase().contains("\nretry-after: "), "{answer}");
    };
    row.run(fail, async |_, _| engines::start(&["kafka"]).await).await;
}

/// The whole answer, with its head, which the client does not show. To oneself: nobody else counts it.
async fn send_by_hand(site: &Site) -> String {
    let (person, node) = (&site.outsider, site.nodes[0].url.trim_start_matches("http://").to_owned());
    let body = format!(r#"{{"to": "{}", "client_id": "1", "text": "hello"}}"#, person.name);
    let head = format!("POST /v1/messages HTTP/1.1\r\nHost: {node}\r\nConnection: close\r\nContent-Type: application/json\r\n");
    let request = format!("{head}Authorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}", person.token, body.len());
    let mut stream = TcpStream::connect(node).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_string(&mut answer)).await;
    read.expect("there is an answer").unwrap();
    answer
}
