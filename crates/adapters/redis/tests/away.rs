//! Redis that is not there, does not answer, or is not what was asked for: a start succeeds, calls end in time, and the reason is told.

mod common;

use std::time::{Duration, Instant};

use common::{key, row};
use dunlin_contract::ids;
use dunlin_ports::{AnswerKey, Ephemeral as _, SessionBus as _, StoreError};
use dunlin_redis::{Cluster, Ephemeral, Options, SessionBus};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const PASSWORD: &str = "s3cret-w0rd";
const CALL_TIMEOUT: Duration = Duration::from_millis(200);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_millis(300);

fn open(address: impl ToString) -> Cluster {
    let url = format!("redis://ann:{PASSWORD}@{}", address.to_string());
    Cluster::open(&Options { call_timeout: CALL_TIMEOUT, ..Options::new([url]) }).expect("the address is right")
}

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener has one").to_string();
    (listener, address)
}

/// Waits for the reason why nothing works.
async fn trouble(cluster: &Cluster) -> String {
    for _ in 0..100 {
        match cluster.trouble() {
            Some(trouble) if !trouble.contains("not connected yet") => return trouble,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    panic!("no trouble was told: {:?}", cluster.trouble());
}

async fn every_call_fails_within(cluster: &Cluster, bound: Duration) {
    let (ephemeral, bus) = (Ephemeral::new(cluster.clone()), SessionBus::new(cluster.clone(), ids::node()));
    let (key, answer) = (key(), AnswerKey(ids::bits128()));
    let began = Instant::now();
    let results = tokio::join!(
        ephemeral.remember_send(&key, row(), 1_000),
        async { ephemeral.recall_send(&key).await.map(drop) },
        ephemeral.remember_answer(answer, "answer".into(), 1_000),
        async { ephemeral.recall_answer(answer).await.map(drop) },
        bus.publish(ids::node(), vec![]),
    );
    assert!(began.elapsed() < bound + SLACK, "{:?}", began.elapsed());
    for result in [results.0, results.1, results.2, results.3, results.4] {
        let Err(StoreError::Unavailable(why)) = result else { panic!("{result:?}") };
        assert!(!why.contains(PASSWORD), "{why}");
    }
}

#[tokio::test]
async fn a_start_without_redis_succeeds_and_calls_fail_at_once() {
    let (listener, address) = listener().await;
    drop(listener);
    let cluster = open(&address);
    every_call_fails_within(&cluster, CALL_TIMEOUT).await;
    let trouble = trouble(&cluster).await;
    assert!(trouble.contains("refused") && !trouble.contains(PASSWORD), "{trouble}");
    every_call_fails_within(&cluster, Duration::ZERO).await;
    let bus = SessionBus::new(cluster, ids::node());
    assert!(matches!(bus.listen(ids::node()).await, Err(StoreError::Unavailable(_))));
}

#[tokio::test]
async fn redis_that_never_answers_costs_no_more_than_the_bound() {
    let (listener, address) = listener().await;
    let _silent = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let cluster = open(&address);
    every_call_fails_within(&cluster, CALL_TIMEOUT).await;
    trouble(&cluster).await;
    every_call_fails_within(&cluster, Duration::ZERO).await;
    let (began, bus) = (Instant::now(), SessionBus::new(cluster, ids::node()));
    assert!(matches!(bus.listen(ids::node()).await, Err(StoreError::Unavailable(_))));
    assert!(began.elapsed() < Duration::from_secs(2) + SLACK);
}

#[tokio::test]
async fn a_wrong_password_is_told_without_it() {
    let address = serve("-WRONGPASS invalid username-password pair or user is disabled.\r\n", "").await;
    let cluster = open(address);
    let trouble = trouble(&cluster).await;
    assert!(trouble.contains("WRONGPASS") && !trouble.contains(PASSWORD), "{trouble}");
}

#[tokio::test]
async fn redis_that_is_no_cluster_is_told() {
    let address = serve("%1\r\n+proto\r\n:3\r\n", "-ERR This instance has cluster support disabled\r\n").await;
    let cluster = open(address);
    let trouble = trouble(&cluster).await;
    assert!(trouble.contains("cluster support disabled"), "{trouble}");
}

/// Answers `HELLO` and `CLUSTER` as told, and all else with OK.
async fn serve(hello: &'static str, cluster: &'static str) -> String {
    let (listener, address) = listener().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, hello, cluster));
        }
    });
    address
}

async fn answer(mut stream: TcpStream, hello: &str, cluster: &str) {
    let mut bytes = vec![0; 4096];
    while let Ok(1..) = stream.read(&mut bytes).await.map(|len| bytes.truncate(len)).map(|()| bytes.len()) {
        let text = String::from_utf8_lossy(&bytes).to_string();
        // Each command is `*<number of words>`, then each word with its length before it.
        for command in text.split('*').skip(1) {
            let reply = match command.split("\r\n").nth(2) {
                Some("HELLO") => hello,
                Some("CLUSTER") => cluster,
                _ => "+OK\r\n",
            };
            let _ = stream.write_all(reply.as_bytes()).await;
        }
        bytes.resize(4096, 0);
    }
}
