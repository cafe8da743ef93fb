//! How fast it is: `cargo test --release -p dunlin-redis --features engines --test measure -- --ignored --nocapture --test-threads 1`

mod common;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use common::{cluster, key, row};
use dunlin_contract::ids;
use dunlin_model::{Outcome, Seq};
use dunlin_ports::{Ephemeral as _, Notice, SessionBus as _};
use dunlin_redis::{Ephemeral, SessionBus};
use tokio::task::JoinSet;

const MEASURED: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn sends_remembered_and_recalled() {
    for callers in [1, 16, 256] {
        let ephemeral = Arc::new(Ephemeral::new(cluster()));
        ephemeral.recall_send(&key()).await.expect("connected");
        let took = by(callers, move || {
            let ephemeral = Arc::clone(&ephemeral);
            async move {
                let key = key();
                ephemeral.remember_send(&key, row(), 60_000).await.expect("remembered");
                ephemeral.recall_send(&key).await.expect("recalled").expect("known");
            }
        })
        .await;
        println!("remember + recall, {callers:>3} callers: {}", told(took));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn frames_published_and_heard() {
    for publishers in [1, 16, 256] {
        let (bus, node) = (Arc::new(SessionBus::new(cluster(), ids::node())), ids::node());
        let mut inbound = bus.listen(node).await.expect("listening");
        let heard = tokio::spawn(async move {
            let (mut heard, mut last) = (0, 0);
            while let Ok(Some(frame)) = tokio::time::timeout(Duration::from_secs(1), inbound.next()).await {
                heard += 1;
                last = frame.number;
            }
            (heard, last)
        });
        let took = by(publishers, move || {
            let bus = Arc::clone(&bus);
            async move {
                let notice = Notice::Outcome { request: ids::request(), outcome: Outcome::Done(Seq::MAX) };
                bus.publish(node, vec![notice; 10]).await.expect("published");
            }
        })
        .await;
        println!("publish frames of 10, {publishers:>3} publishers: {}", told(took));
        println!("    (heard, last number): {:?}", heard.await.expect("it does not panic"));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn from_publish_to_next() {
    let (bus, node) = (SessionBus::new(cluster(), ids::node()), ids::node());
    let mut inbound = bus.listen(node).await.expect("listening");
    let mut took = Vec::new();
    for _ in 0..5_000 {
        let began = Instant::now();
        let (published, frame) = tokio::join!(bus.publish(node, vec![]), inbound.next());
        published.expect("published");
        frame.expect("heard");
        took.push(began.elapsed());
    }
    let whole = took.iter().sum();
    println!("publish to next, one at a time: {}", told((took, whole)));
}

/// What each repetition took, and how long it all lasted.
async fn by<F: Future<Output = ()> + Send>(callers: usize, act: impl Fn() -> F + Clone + Send + 'static) -> (Vec<Duration>, Duration) {
    let began = Instant::now();
    let mut acting = JoinSet::new();
    for _ in 0..callers {
        let act = act.clone();
        acting.spawn(async move {
            let mut took = Vec::new();
            while began.elapsed() < MEASURED {
                let asked = Instant::now();
                act().await;
                took.push(asked.elapsed());
            }
            took
        });
    }
    let took = acting.join_all().await.concat();
    (took, began.elapsed())
}

fn told((mut took, whole): (Vec<Duration>, Duration)) -> String {
    took.sort();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
    format!("{:.0}/s, p50 {:?}, p99 {:?}, longest {:?}", took.len() as f64 / whole.as_secs_f64(), at(0.5), at(0.99), at(1.0))
}
