//! How fast appends are, beside a bare producer of the same client in the same run. Prints; asserts nothing.
//!
//! `DUNLIN_TEST_KAFKA=… cargo test --release -p dunlin-kafka --features engines --test measure -- --ignored --nocapture`
//!
//! DUNLIN_KAFKA_PROPERTIES adds properties to both, such as `linger.ms=5,compression.type=none`; DUNLIN_KAFKA_PARTITIONS is 3 unless set.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that can't go on has failed; this one has something to tell")]

mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use dunlin_kafka::{EventLog, create_topic};
use dunlin_model::{Event, Offset, Partition};
use dunlin_ports::EventLog as _;
use futures::future::join_all;
use hdrhistogram::Histogram;
use rdkafka::{
    ClientConfig,
    producer::{FutureProducer, FutureRecord},
};
use support::{Cluster, event};

const LASTING: Duration = Duration::from_secs(4);
const WARMING_ROUNDS: usize = 40;
const TEXT: &str = "The quick brown fox jumps over the lazy dog, and then it does so once more, for good measure.";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures"]
async fn appends_beside_a_bare_producer() {
    let mut options = Cluster::given().options();
    for property in std::env::var("DUNLIN_KAFKA_PROPERTIES").iter().flat_map(|all| all.split(',')) {
        let (name, value) = property.split_once('=').expect("name=value");
        options.properties.insert(name.to_owned(), value.to_owned());
    }
    options.partitions = std::env::var("DUNLIN_KAFKA_PARTITIONS").map_or(3, |count| count.parse().expect("a number"));
    let partitions = options.partitions;
    create_topic(&options).await.unwrap();
    let log = Arc::new(EventLog::open(options.clone()).await.unwrap());
    let bare = bare_producer(&options);
    println!("{partitions} partitions, {:?}, an event of {} bytes", options.properties, event(TEXT).encode().len());
    for appenders in [1, 16, 256, 1_024] {
        let appended_to = Arc::clone(&log);
        let appending = move |event: Event| {
            let log = Arc::clone(&appended_to);
            async move { log.append(&event.key, &event).await.map(|_| ()).unwrap() }
        };
        report("adapter", appenders, measure(appenders, appending).await);
        let (sent_by, sent_to) = (bare.clone(), options.topic.clone());
        let sending = move |event: Event| {
            let (bare, topic, bytes) = (sent_by.clone(), sent_to.clone(), event.encode());
            async move {
                let partition = i32::try_from(event.key.partition(partitions).0).unwrap();
                let record = FutureRecord::to(&topic).partition(partition).key(event.key.hash()).payload(&bytes);
                bare.send(record, Duration::ZERO).await.unwrap();
            }
        };
        report("bare", appenders, measure(appenders, sending).await);
    }
    read_all(&log).await;
}

/// What the adapter sets, and nothing of the adapter.
fn bare_producer(options: &dunlin_kafka::Options) -> FutureProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &options.brokers).set("enable.idempotence", "true").set("acks", "all");
    config.set("linger.ms", "0").set("compression.type", "lz4").set("socket.nagle.disable", "true");
    options.properties.iter().fold(&mut config, |config, (name, value)| config.set(name, value)).create().unwrap()
}

async fn measure<F: Future<Output = ()> + Send + 'static>(
    appenders: usize,
    append: impl Fn(Event) -> F + Clone + Send + Sync + 'static,
) -> Histogram<u64> {
    // The first append of a client is slow, and so is the first one to a partition.
    for _ in 0..WARMING_ROUNDS {
        join_all((0..100).map(|_| append(event(TEXT)))).await;
    }
    let until = Instant::now() + LASTING;
    let tasks = (0..appenders).map(|_| {
        let append = append.clone();
        tokio::spawn(async move {
            let (event, mut micros) = (event(TEXT), Histogram::<u64>::new(3).unwrap());
            while Instant::now() < until {
                let start = Instant::now();
                append(event.clone()).await;
                micros.record(u64::try_from(start.elapsed().as_micros()).unwrap()).unwrap();
            }
            micros
        })
    });
    let mut all = Histogram::new(3).unwrap();
    join_all(tasks.collect::<Vec<_>>()).await.into_iter().for_each(|micros| all.add(micros.unwrap()).unwrap());
    all
}

fn report(what: &str, appenders: usize, micros: Histogram<u64>) {
    let (rate, ms) = (micros.len() as f64 / LASTING.as_secs_f64(), |quantile| micros.value_at_quantile(quantile) as f64 / 1_000.0);
    println!("{what:>8} {appenders:>5} at a time: {rate:>8.0}/s, p50 {:>7.2} ms, p99 {:>7.2} ms", ms(0.5), ms(0.99));
}

async fn read_all(log: &EventLog) {
    let start = Instant::now();
    let mut tails = join_all((0..log.partitions()).map(|partition| log.tail(Partition(partition), Offset(0)))).await;
    let reading = tails.iter_mut().map(|tail| async move {
        let (mut count, mut last) = (0, Instant::now());
        while let Ok(records) = tokio::time::timeout(Duration::from_secs(2), tail.as_mut().unwrap().next(4_096)).await {
            count += records.unwrap().len();
            last = Instant::now();
        }
        (count, last)
    });
    let read = join_all(reading).await;
    let (count, last) = (read.iter().map(|(count, _)| count).sum::<usize>(), read.iter().map(|(_, last)| *last).max().unwrap());
    println!("{count} records read in {:?}: {:.0}/s", last - start, count as f64 / (last - start).as_secs_f64());
}
