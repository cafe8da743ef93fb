//! Appends go on for a while, and someone stops, kills and starts the broker meanwhile. Whatever was acknowledged must be in the log, once, in
//! order, where it was said to be; a tail that was open all the time must have seen all of it.
//!
//! `DUNLIN_TEST_KAFKA=… cargo test -p dunlin-kafka --features engines --test hurt -- --ignored --nocapture`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that can't go on has failed; this one has something to tell")]

mod support;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use dunlin_contract::ids;
use dunlin_kafka::EventLog;
use dunlin_model::{Event, EventId, Offset, Partition};
use dunlin_ports::{EventLog as _, StoreError};
use futures::future::join_all;
use support::{Cluster, event};
use tokio::time::timeout;

const LASTING: Duration = Duration::from_secs(60);
const APPENDERS: usize = 32;
/// The log is read to its end when nothing has come for this long.
const QUIET: Duration = Duration::from_secs(15);

#[derive(Default)]
struct Told {
    acknowledged: Vec<(Partition, Offset, EventId)>,
    unknown: usize,
    unavailable: usize,
    slowest: Duration,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "someone has to hurt the broker meanwhile"]
async fn what_was_acknowledged_is_in_the_log_whatever_happens_to_the_broker() {
    let log = Arc::new(Cluster::given().new_log().await);
    let live = join_all((0..3).map(|partition| read(&log, Partition(partition), LASTING)));
    let (told, live) = futures::join!(join_all((0..APPENDERS).map(|_| append(&log))), live);
    let read: Vec<_> = join_all((0..3).map(|partition| read(&log, Partition(partition), Duration::ZERO))).await;
    assert_eq!(read, live, "the tails that were open have seen what there is");

    let read: BTreeMap<_, _> = read.into_iter().enumerate().flat_map(|(partition, ids)| keyed(partition, ids)).collect();
    let mut places = HashMap::new();
    for (place, id) in &read {
        assert_eq!(places.insert(*id, *place), None, "no event is in the log twice");
    }
    for told in &told {
        assert!(told.acknowledged.is_sorted_by(|one, other| one.1 < other.1), "an appender's events keep their order");
        for (partition, offset, id) in &told.acknowledged {
            assert_eq!(read.get(&(partition.0, *offset)), Some(id), "an acknowledged event stands where it was said to stand");
        }
    }
    let sum = |count: fn(&Told) -> usize| told.iter().map(count).sum::<usize>();
    let (acknowledged, unknown, unavailable) =
        (sum(|told| told.acknowledged.len()), sum(|told| told.unknown), sum(|told| told.unavailable));
    println!("{acknowledged} acknowledged, {unknown} unknown, {unavailable} unavailable, {} in the log", read.len());
    println!("the slowest answer took {:?}", told.iter().map(|told| told.slowest).max().unwrap());
}

async fn append(log: &EventLog) -> Told {
    let (mut told, until) = (Told::default(), Instant::now() + LASTING);
    let first = event("hello");
    while Instant::now() < until {
        let (event, start) = (Event { id: ids::event_id(), ..first.clone() }, Instant::now());
        match log.append(&event.key, &event).await {
            Ok(appended) => told.acknowledged.push((event.key.partition(3), appended.seq.offset(), event.id)),
            Err(StoreError::Unknown(_)) => told.unknown += 1,
            Err(StoreError::Unavailable(_)) => told.unavailable += 1,
            Err(error) => panic!("{error}"),
        }
        told.slowest = told.slowest.max(start.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    told
}

/// Everything up to the end, which is not believed to be the end before `at_least` has passed.
async fn read(log: &EventLog, partition: Partition, at_least: Duration) -> Vec<EventId> {
    let (opened, mut ids) = (Instant::now(), Vec::new());
    let mut tail = loop {
        match log.tail(partition, Offset(0)).await {
            Err(StoreError::Unavailable(why)) => println!("partition {}: {why}", partition.0),
            tail => break tail.unwrap(),
        }
    };
    loop {
        match timeout(QUIET, tail.next(1_000)).await {
            Ok(Ok(records)) => ids.extend(records.iter().map(|record| Event::decode_key(&record.bytes).unwrap().1)),
            Ok(Err(StoreError::Unavailable(why))) => println!("partition {}: {why}", partition.0),
            Ok(Err(error)) => panic!("{error}"),
            Err(_) if opened.elapsed() > at_least => return ids,
            Err(_) => {}
        }
    }
}

fn keyed(partition: usize, ids: Vec<EventId>) -> impl Iterator<Item = ((u32, Offset), EventId)> {
    let partition = u32::try_from(partition).unwrap();
    (0..).zip(ids).map(move |(offset, id)| ((partition, Offset(offset)), id))
}
