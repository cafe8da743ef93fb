//! What the contract can't ask of every log: topics that are wrong, brokers that are away, nodes that come and go.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod support;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use dunlin_contract::ids;
use dunlin_kafka::{EventLog, OpenError, Options, create_topic, delete_topic, has_topic, nodes};
use dunlin_model::{Epoch, Event, EventId, LogKey, Millis, Offset, Partition, Seq};
use dunlin_ports::{EventLog as _, Life, Share, StoreError};
use futures::future::join_all;
use support::{Cluster, PATIENCE, delete_before, event, event_of_bytes, put};
use tokio::time::timeout;

/// Opening says what is wrong within ten seconds, and a little for a slow machine.
const OPEN_PATIENCE: Duration = Duration::from_secs(13);

async fn refusal(options: Options) -> String {
    EventLog::open(options).await.err().expect("it does not open").to_string()
}

#[tokio::test]
async fn a_topic_that_is_not_there_is_refused() {
    let options = Cluster::given().options();
    assert_eq!(EventLog::open(options.clone()).await.err(), Some(OpenError::NoTopic(options.topic)));
}

#[tokio::test]
async fn another_number_of_partitions_is_refused() {
    let options = Cluster::given().options();
    create_topic(&options).await.unwrap();
    let refusal = refusal(Options { partitions: 4, ..options }).await;
    assert!(refusal.ends_with("can't be the log: it has 3 partitions, it must have exactly 4"), "{refusal}");
}

#[tokio::test]
async fn a_topic_with_the_senders_time_and_another_retention_is_refused() {
    let cluster = Cluster::given();
    let options = cluster.options();
    cluster.create_plain_topic(&options.topic, 3).await;
    let refusal = refusal(options).await;
    let expected = "can't be the log: its message.timestamp.type is CreateTime, it must be LogAppendTime; \
                    its retention.ms is 604800000, it must be 1209600000";
    assert!(refusal.ends_with(expected), "{refusal}");
}

#[tokio::test]
async fn creating_a_topic_again_changes_nothing_and_checks_it() {
    let options = Cluster::given().options();
    create_topic(&options).await.unwrap();
    create_topic(&options).await.unwrap();
    assert!(matches!(create_topic(&Options { partitions: 5, ..options }).await, Err(OpenError::Unfit { .. })));
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_told_in_time() {
    let start = Instant::now();
    let refusal = refusal(Options::new("127.0.0.1:1", "log")).await;
    assert!(start.elapsed() < OPEN_PATIENCE, "{:?}", start.elapsed());
    assert!(refusal.starts_with("Kafka at 127.0.0.1:1 does not answer: ") && refusal.contains("Connection refused"), "{refusal}");
}

/// The next life of a log begins behind what it holds already, and never at an earlier time than the one before ended.
#[tokio::test]
async fn a_life_begins_where_and_when_it_is_said_to() {
    let first = Options { partitions: 1, ..Cluster::given().options() };
    create_topic(&first).await.unwrap();
    let log = EventLog::open(first.clone()).await.unwrap();
    let events = [event("one"), event("two")];
    for event in &events {
        log.append(&event.key, event).await.unwrap();
    }
    let (here, later) = (Partition(0), Millis(1 << 42));
    let extent = log.extent(here, Millis::ZERO).await.unwrap();
    assert_eq!((extent.low, extent.high, extent.after), (Offset(0), Offset(2), Offset(0)));
    assert_eq!(log.extent(here, later).await.unwrap().after, Offset(2), "nothing is later");
    assert_eq!(log.event_at(here, Offset(1)).await.unwrap(), Some(events[1].id));
    assert_eq!(log.event_at(here, Offset(2)).await.unwrap(), None);

    let life = Life { epoch: Epoch(3), log: log.identity().await.unwrap(), begins: vec![Offset(1)], not_before: later };
    let log = EventLog::open(first.living(&life)).await.unwrap();
    assert_eq!(log.begins(here), Seq::new(Epoch(3), Offset(1)));
    let records = timeout(PATIENCE, log.tail(here, Offset(1)).await.unwrap().next(1)).await.unwrap().unwrap();
    assert_eq!((records[0].position.seq, records[0].position.time), (Seq::new(Epoch(3), Offset(1)), later));
}

#[tokio::test]
async fn who_takes_part_is_counted() {
    let options = Cluster::given().options();
    create_topic(&options).await.unwrap();
    let log = EventLog::open(options.clone()).await.unwrap();
    assert_eq!(nodes(&options).await.unwrap(), 0);
    let mut share = log.join().await.unwrap();
    timeout(PATIENCE, share.next()).await.unwrap().unwrap();
    assert_eq!(nodes(&options).await.unwrap(), 1);
    drop(share);
    log.close().await;
    assert_eq!(nodes(&options).await.unwrap(), 0);
}

#[tokio::test]
async fn a_topic_that_was_made_anew_takes_nothing_more() {
    let options = Cluster::given().options();
    create_topic(&options).await.unwrap();
    let log = EventLog::open(options.clone()).await.unwrap();
    let event = event("hello");
    for _ in 0..3 {
        log.append(&event.key, &event).await.unwrap();
    }
    delete_topic(&options).await.unwrap();
    let begun = Instant::now();
    // It takes Kafka a moment to forget the old one.
    while create_topic(&options).await.is_err() || !has_topic(&options).await.unwrap() {
        assert!(begun.elapsed() < PATIENCE, "the topic can't be made");
    }
    loop {
        match log.append(&event.key, &event).await {
            Ok(appended) => assert!(appended.seq.offset() >= Offset(3), "{appended:?} names an event of the old topic"),
            Err(StoreError::Unavailable(why)) if why.contains("made anew") => break,
            Err(_) => {}
        }
        assert!(begun.elapsed() < PATIENCE, "it is never noticed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(log.trouble().unwrap().contains("dunlin log reopen"), "{:?}", log.trouble());
}

#[tokio::test]
async fn what_cant_be_read_is_of_the_key_that_kafka_has_beside_it_or_of_strangers() {
    let options = Cluster::given().options();
    create_topic(&options).await.unwrap();
    let log = EventLog::open(options.clone()).await.unwrap();
    let key = event("hello").key;
    let here = key.partition(options.partitions);
    let elsewhere = std::iter::repeat_with(|| event("hello").key).find(|key| key.partition(options.partitions) != here).unwrap();
    for (text, of) in [
        (Some(key.to_string()), key),
        (None, LogKey::of_strangers(here)),
        (Some("hello".to_owned()), LogKey::of_strangers(here)),
        (Some(elsewhere.to_string()), LogKey::of_strangers(here)),
    ] {
        let offset = put(&options, here, text.as_deref(), b"no event").await;
        let records = timeout(PATIENCE, log.tail(here, offset).await.unwrap().next(1)).await.unwrap().unwrap();
        assert_eq!((records[0].key, records[0].position.offset), (of, offset), "{text:?}");
    }
    // An event of ours that a tool has put where it does not belong.
    let stray = std::iter::repeat_with(|| event("hello")).find(|event| event.key.partition(options.partitions) != here).unwrap();
    let offset = put(&options, here, Some(&stray.key.to_string()), &stray.encode()).await;
    let records = timeout(PATIENCE, log.tail(here, offset).await.unwrap().next(1)).await.unwrap().unwrap();
    assert_eq!(records[0].key, LogKey::of_strangers(here));
}

#[tokio::test]
async fn the_epoch_is_in_every_seq() {
    let options = Options { epoch: Epoch(7), ..Cluster::given().options() };
    create_topic(&options).await.unwrap();
    let log = EventLog::open(options).await.unwrap();
    let event = event("hello");
    let seq = log.append(&event.key, &event).await.unwrap().seq;
    assert_eq!((seq.get() >> 40, seq.offset()), (7, Offset(0)));
    let records = log.tail(event.key.partition(3), Offset(0)).await.unwrap().next(10).await.unwrap();
    assert_eq!(records[0].position.seq, seq);
}

#[tokio::test]
async fn an_offset_that_is_no_longer_kept_is_corrupt() {
    let cluster = Cluster::given();
    let options = cluster.options();
    create_topic(&options).await.unwrap();
    let log = EventLog::open(options.clone()).await.unwrap();
    let event = event("hello");
    let partition = event.key.partition(3);
    for _ in 0..10 {
        log.append(&event.key, &event).await.unwrap();
    }
    let mut early = log.tail(partition, Offset(0)).await.unwrap();
    assert_eq!(early.next(1).await.unwrap()[0].position.offset, Offset(0));
    delete_before(&options, partition, Offset(4)).await;

    let Err(StoreError::Corrupt(why)) = log.tail(partition, Offset(3)).await else { panic!("offset 3 is gone") };
    assert!(why.starts_with(&format!("offset 3 of partition {} is no longer kept: the log begins at 4", partition.0)), "{why}");
    assert!(why.contains("dunlin log reopen"), "{why}");
    assert_eq!(log.tail(partition, Offset(4)).await.unwrap().next(1).await.unwrap()[0].position.offset, Offset(4));
}

#[tokio::test]
async fn an_offset_beyond_the_end_is_corrupt() {
    let log = Cluster::given().new_log().await;
    let event = event("hello");
    log.append(&event.key, &event).await.unwrap();
    let mut tail = log.tail(event.key.partition(3), Offset(100)).await.unwrap();
    for _ in 0..2 {
        let next = timeout(PATIENCE, tail.next(1)).await.expect("an answer");
        assert!(matches!(&next, Err(StoreError::Corrupt(why)) if why.contains("it ends at 1")), "{next:?}");
    }
}

#[tokio::test]
async fn two_tails_of_one_partition_do_not_disturb_each_other() {
    let log = Cluster::given().new_log().await;
    let event = event("hello");
    let partition = event.key.partition(3);
    for _ in 0..50 {
        log.append(&event.key, &event).await.unwrap();
    }
    let (mut one, mut other) = (log.tail(partition, Offset(0)).await.unwrap(), log.tail(partition, Offset(20)).await.unwrap());
    for number in 0..30 {
        assert_eq!(one.next(1).await.unwrap()[0].position.offset, Offset(number));
        assert_eq!(other.next(1).await.unwrap()[0].position.offset, Offset(20 + number));
    }
}

/// Tails of one partition that come and go, each at another offset, see no record of one another.
#[tokio::test]
async fn a_tail_never_sees_what_an_earlier_one_asked_for() {
    let log = Cluster::given().new_log().await;
    let event = event("hello");
    let partition = event.key.partition(3);
    assert!(join_all((0..500).map(|_| log.append(&event.key, &event))).await.iter().all(Result::is_ok));
    for round in 0..60 {
        let from = (round * 193) % 450;
        let mut tail = log.tail(partition, Offset(from)).await.unwrap();
        let mut next = from;
        while round % 3 > 0 && next < from + 20 {
            for record in timeout(PATIENCE, tail.next(7)).await.expect("the log has more").unwrap() {
                assert_eq!(record.position.offset, Offset(next));
                next += 1;
            }
        }
    }
}

#[tokio::test]
async fn concurrent_appends_keep_the_order_of_each_key() {
    const KEYS: usize = 64;
    const EACH: usize = 50;
    let log = Cluster::given().new_log().await;
    let events: Vec<Vec<Event>> = (0..KEYS)
        .map(|_| {
            let first = event("m");
            (0..EACH).map(|_| Event { id: ids::event_id(), ..first.clone() }).collect()
        })
        .collect();
    // The appends of a key are called one after the other, and those of all keys in turn; none waits for another.
    let appends = (0..EACH).flat_map(|number| events.iter().map(move |key| &key[number])).map(|event| log.append(&event.key, event));
    for appended in join_all(appends).await {
        appended.unwrap();
    }
    let read = join_all((0..3).map(|partition| read_ids(&log, Partition(partition)))).await.concat();
    for events in &events {
        let of_key: Vec<_> = read.iter().filter(|(key, _)| *key == events[0].key).map(|(_, id)| *id).collect();
        assert_eq!(of_key, events.iter().map(|event| event.id).collect::<Vec<_>>());
    }
    assert_eq!(read.len(), KEYS * EACH);

    async fn read_ids(log: &EventLog, partition: Partition) -> Vec<(LogKey, EventId)> {
        let mut tail = log.tail(partition, Offset(0)).await.unwrap();
        let mut ids = Vec::new();
        while let Ok(records) = timeout(Duration::from_secs(2), tail.next(100)).await {
            ids.extend(records.unwrap().iter().map(|record| Event::decode_key(&record.bytes).unwrap()));
        }
        ids
    }
}

#[tokio::test]
async fn an_event_that_is_too_large_conflicts() {
    let log = Cluster::given().new_log().await;
    let (large, small) = (event_of_bytes(1_000_001), event("small"));
    let (large_outcome, small_outcome) = futures::join!(log.append(&large.key, &large), log.append(&small.key, &small));
    assert!(matches!(large_outcome, Err(StoreError::Conflict(_))), "{large_outcome:?}");
    assert!(small_outcome.is_ok());
}

#[tokio::test]
async fn nodes_share_the_partitions_and_take_over_from_who_leaves() {
    let options = Options { partitions: 12, ..Cluster::given().options() };
    create_topic(&options).await.unwrap();
    let (one, other) = (EventLog::open(options.clone()).await.unwrap(), EventLog::open(options).await.unwrap());
    let mut first = one.join().await.unwrap();
    await_share(&mut *first, 12).await;

    let mut second = other.join().await.unwrap();
    let shares = futures::join!(await_share(&mut *first, 6), await_share(&mut *second, 6));
    assert_eq!(shares.0.union(&shares.1).count(), 12, "no partition is left out");

    drop(second);
    other.close().await;
    let left = Instant::now();
    await_share(&mut *first, 12).await;
    assert!(left.elapsed() < Duration::from_secs(5), "it did not wait for a timeout: {:?}", left.elapsed());

    async fn await_share(share: &mut dyn Share, size: usize) -> BTreeSet<Partition> {
        loop {
            let held = timeout(PATIENCE, share.next()).await.expect("a share in time").unwrap();
            if held.len() == size {
                return held.into_iter().collect();
            }
        }
    }
}
