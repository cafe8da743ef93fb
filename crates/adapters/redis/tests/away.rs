//! Redis that is not there, does not answer, or is not what was asked for: a start succeeds, calls end in time, and the reason is told.

mod common;

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use common::{key, row};
use dunlin_contract::ids;
use dunlin_ports::{AnswerKey, Ephemeral as _, SessionBus as _, StoreError};
use dunlin_redis::{Cluster, Ephemeral, Options, SessionBus, Visit};
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
    let address = serve(|word| match word {
        "HELLO" => Some("-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
        _ => Some(OK),
    });
    let cluster = open(address.await.0);
    let trouble = trouble(&cluster).await;
    assert!(trouble.contains("WRONGPASS") && !trouble.contains(PASSWORD), "{trouble}");
}

#[tokio::test]
async fn redis_that_is_no_cluster_is_told() {
    let address = serve(|word| match word {
        "HELLO" => Some(RESP3),
        "CLUSTER" => Some("-ERR This instance has cluster support disabled\r\n"),
        _ => Some(OK),
    });
    let cluster = open(address.await.0);
    let trouble = trouble(&cluster).await;
    assert!(trouble.contains("cluster support disabled"), "{trouble}");
}

#[tokio::test]
async fn redis_that_begins_to_hang_is_left_alone_until_it_is_back() {
    static HANGS: AtomicBool = AtomicBool::new(true);
    static SLOTS: OnceLock<String> = OnceLock::new();
    let (address, port) = serve(|word| match word {
        "HELLO" => Some(RESP3),
        "CLUSTER" => SLOTS.get().map(String::as_str),
        "GET" | "EXISTS" if HANGS.load(Ordering::Relaxed) => None,
        "GET" | "EXISTS" => Some("_\r\n"),
        _ => Some(OK),
    })
    .await;
    SLOTS.get_or_init(|| format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n"));
    let cluster = open(address);
    let ephemeral = Ephemeral::new(cluster.clone());
    for _ in 0..5 {
        let began = Instant::now();
        assert!(matches!(ephemeral.recall_send(&key()).await, Err(StoreError::Unavailable(_))));
        assert!(began.elapsed() < CALL_TIMEOUT + SLACK, "{:?}", began.elapsed());
    }
    assert!(trouble(&cluster).await.contains("in time"));
    every_call_fails_within(&cluster, Duration::ZERO).await;
    HANGS.store(false, Ordering::Relaxed);
    let mut calls = 0;
    while ephemeral.recall_send(&key()).await.is_err() {
        calls += 1;
        assert!(calls < 100, "it is back, and nobody tries: {:?}", cluster.trouble());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(cluster.trouble(), None);
}

#[tokio::test]
async fn a_visit_tells_what_is_wrong_without_the_password() {
    async fn refusal(address: String) -> String {
        let url = format!("redis://ann:{PASSWORD}@{address}");
        let visited = Visit::pay(&Options { call_timeout: CALL_TIMEOUT, ..Options::new([url]) }).await;
        let told = visited.err().expect("a refusal").to_string();
        assert!(!told.contains(PASSWORD), "{told}");
        told
    }
    let (old, _) = serve(|word| if word == "HELLO" { Some("-ERR unknown command `HELLO`\r\n") } else { Some(OK) }).await;
    assert!(refusal(old).await.contains("has version 5 or less, and at least 7.0 is needed"));
    const ALONE: &str = "*4\r\n+version\r\n+7.0.15\r\n+mode\r\n+standalone\r\n";
    let (alone, _) = serve(|word| Some(if word == "HELLO" { ALONE } else { OK })).await;
    assert!(refusal(alone).await.contains("is no cluster"));
    let (closed, _) = serve(|word| Some(if word == "AUTH" { "-WRONGPASS invalid username-password pair\r\n" } else { OK })).await;
    assert!(refusal(closed).await.contains("does not let us in: user or password is wrong"));
    assert!(refusal("127.0.0.1:1".to_owned()).await.starts_with("no Redis node answers"));
}

const OK: &str = "+OK\r\n";
const RESP3: &str = "%1\r\n+proto\r\n:3\r\n";

/// Something like Redis: answers each command by its first word, or not at all. Returns its address and port.
async fn serve(reply: impl Fn(&str) -> Option<&'static str> + Copy + Send + Sync + 'static) -> (String, u16) {
    let (listener, address) = listener().await;
    let port = listener.local_addr().expect("a bound listener has one").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, reply));
        }
    });
    (address, port)
}

async fn answer(mut stream: TcpStream, reply: impl Fn(&str) -> Option<&'static str>) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut bytes).await {
        // Each command is `*<number of words>`, then each word with its length before it.
        for command in String::from_utf8_lossy(&bytes[..len]).split('*').skip(1) {
            if let Some(reply) = command.split("\r\n").nth(2).and_then(&reply) {
                let _ = stream.write_all(reply.as_bytes()).await;
            }
        }
    }
}
