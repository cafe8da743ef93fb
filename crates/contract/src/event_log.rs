//! What every event log promises.

use std::time::Duration;

use dunlin_model::{
    Body, ClientId, Content, ConversationId, Event, LogKey, Message, MessageType, Offset, Opening, Pair, Partition, RULES, Seq,
};
use dunlin_ports::{EventLog, Record, Share};

use crate::ids;

/// A guard against hanging, nothing more.
const PATIENCE: Duration = Duration::from_secs(60);

fn event(pair: &Pair, text: &str) -> Event {
    let body = Body::Message(Message {
        conversation: ConversationId::direct(pair),
        opening: Some(Opening::Direct(pair.clone())),
        client_id: ClientId::parse(text).unwrap(),
        message_type: MessageType::text(),
        content: Content::text(text).unwrap(),
        reply_to: None,
        metadata: None,
    });
    Event { id: ids::event_id(), key: pair.log_key(), rules: RULES, origin: None, actor: pair.users().next().cloned(), body }
}

/// Reads the partition of a key until `count` events of that key have come.
async fn read(log: &dyn EventLog, key: &LogKey, from: Offset, count: usize) -> Vec<(Record, Event)> {
    let mut tail = log.tail(key.partition(log.partitions()), from).await.expect("tail");
    let mut found = Vec::new();
    while found.len() < count {
        let records = tokio::time::timeout(PATIENCE, tail.next(100)).await.expect("the log has more").expect("next");
        assert!(!records.is_empty() && records.len() <= 100, "at least one, at most what was asked for");
        let decoded = records.into_iter().map(|record| (record.clone(), Event::decode(&record.bytes).expect("only events are in the log")));
        found.extend(decoded.filter(|(_, event)| event.key == *key));
    }
    found
}

pub async fn what_was_appended_is_read_in_order(log: &dyn EventLog) {
    let pair = ids::pair();
    let mut seqs = Vec::new();
    for number in 0..20 {
        seqs.push(log.append(&pair.log_key(), &event(&pair, &format!("m{number}"))).await.unwrap().seq);
    }
    assert!(seqs.is_sorted_by(|one, other| one < other));
    let read = read(log, &pair.log_key(), Offset(0), 20).await;
    assert_eq!(read.iter().map(|(record, _)| record.position.seq).collect::<Vec<_>>(), seqs);
    assert!(read.iter().map(|(record, _)| record.position.time).is_sorted(), "time never goes backwards");
    assert!(seqs[0] >= Seq::from_u64(2 << 40).unwrap(), "live epochs start at 2");
}

pub async fn what_is_appended_belongs_to_the_present_life(log: &dyn EventLog) {
    let pair = ids::pair();
    let begins = log.begins(pair.log_key().partition(log.partitions()));
    let seq = log.append(&pair.log_key(), &event(&pair, "hello")).await.unwrap().seq;
    assert!(seq >= begins && seq.epoch() == begins.epoch(), "{seq} {begins}");
}

pub async fn an_event_comes_back_as_it_was(log: &dyn EventLog) {
    let pair = ids::pair();
    let sent = event(&pair, "hello");
    let seq = log.append(&pair.log_key(), &sent).await.unwrap().seq;
    let read = read(log, &pair.log_key(), Offset(0), 1).await;
    assert_eq!((read[0].0.position.seq, &read[0].1), (seq, &sent));
    assert_eq!(read[0].0.position.partition, pair.log_key().partition(log.partitions()));
}

pub async fn appends_called_in_order_are_read_in_order(log: &dyn EventLog) {
    let pair = ids::pair();
    let key = pair.log_key();
    let events: Vec<_> = (0..50).map(|number| event(&pair, &format!("m{number}"))).collect();
    let appends = events.iter().map(|event| log.append(&key, event));
    // Polled in this order, and none awaited before the next is called.
    let seqs: Vec<_> = futures::future::join_all(appends).await.into_iter().map(|appended| appended.unwrap().seq).collect();
    assert!(seqs.is_sorted_by(|one, other| one < other));
    let ids: Vec<_> = read(log, &key, Offset(0), 50).await.into_iter().map(|(_, event)| event.id).collect();
    assert_eq!(ids, events.iter().map(|event| event.id).collect::<Vec<_>>());
}

pub async fn a_tail_begins_where_it_was_told(log: &dyn EventLog) {
    let pair = ids::pair();
    for number in 0..10 {
        log.append(&pair.log_key(), &event(&pair, &format!("m{number}"))).await.unwrap();
    }
    let all = read(log, &pair.log_key(), Offset(0), 10).await;
    let from = all[6].0.position.offset;
    let rest = read(log, &pair.log_key(), from, 4).await;
    assert_eq!(
        rest.iter().map(|(record, _)| record.position).collect::<Vec<_>>(),
        all[6..].iter().map(|(record, _)| record.position).collect::<Vec<_>>()
    );
}

pub async fn a_tail_waits_for_what_comes_next(log: &dyn EventLog) {
    let pair = ids::pair();
    log.append(&pair.log_key(), &event(&pair, "first")).await.unwrap();
    let from = read(log, &pair.log_key(), Offset(0), 1).await[0].0.position.offset.next();
    let key = pair.log_key();
    let waiting = read(log, &key, from, 1);
    let appending = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        log.append(&pair.log_key(), &event(&pair, "second")).await.unwrap().seq
    };
    let (read, seq) = futures::future::join(waiting, appending).await;
    assert_eq!(read[0].0.position.seq, seq);
}

/// A future that is dropped while it waits takes no record with it.
pub async fn a_tail_that_was_let_go_loses_nothing(log: &dyn EventLog) {
    let pair = ids::pair();
    let first = log.append(&pair.log_key(), &event(&pair, "first")).await.unwrap().seq.offset();
    let mut tail = log.tail(pair.log_key().partition(log.partitions()), first).await.expect("tail");
    let mut offsets = Vec::new();
    let appending = async {
        let mut last = first;
        for number in 0..20 {
            last = log.append(&pair.log_key(), &event(&pair, &format!("m{number}"))).await.unwrap().seq.offset();
        }
        last
    };
    let reading = async {
        for _ in 0..200 {
            if let Ok(records) = tokio::time::timeout(Duration::from_micros(300), tail.next(3)).await {
                offsets.extend(records.expect("next").iter().map(|record| record.position.offset));
            }
        }
    };
    let (last, ()) = futures::future::join(appending, reading).await;
    while offsets.last().is_none_or(|offset| *offset < last) {
        let records = tokio::time::timeout(PATIENCE, tail.next(100)).await.expect("the log has more").expect("next");
        offsets.extend(records.iter().map(|record| record.position.offset));
    }
    assert_eq!(offsets, (first.0..first.0 + offsets.len() as u64).map(Offset).collect::<Vec<_>>());
}

/// Who takes part alone has all of them, after a while.
pub async fn every_partition_is_shared_out(log: &dyn EventLog) {
    await_all(log, &mut *log.join().await.expect("join")).await;
}

pub async fn who_leaves_gives_back(log: &dyn EventLog) {
    let mut share = log.join().await.expect("join");
    await_all(log, &mut *share).await;
    drop(share);
    await_all(log, &mut *log.join().await.expect("join again")).await;
}

async fn await_all(log: &dyn EventLog, share: &mut dyn Share) {
    let all: Vec<_> = (0..log.partitions()).map(Partition).collect();
    while tokio::time::timeout(PATIENCE, share.next()).await.expect("a share in time").expect("next") != all {}
}
