//! Tails: complete, in order, only what is durable, across rolls and beside trims.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::*;
use super::*;

const SOME: ReadLimit = ReadLimit { records: 7, payload_bytes: 1000 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_tails_see_every_record_once_and_in_order_across_rolls_and_trims() {
    const RECORDS: u64 = 2000;
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path());
    let log = Arc::new(log);
    let read_up_to = Arc::new([const { AtomicU64::new(0) }; 3]);
    let tails: Vec<_> = (0..read_up_to.len())
        .map(|number| {
            let mut tail = log.tail(0).unwrap();
            let (log, read_up_to) = (Arc::clone(&log), Arc::clone(&read_up_to));
            tokio::spawn(async move {
                let mut next = 0;
                while next < RECORDS {
                    for record in tail.next(SOME).await.unwrap() {
                        assert_eq!((record.position, texts(&[record])), (next, vec![format!("record {next}")]));
                        next += 1;
                    }
                    read_up_to[number].store(next, Ordering::Relaxed);
                    let slowest = read_up_to.iter().map(|next| next.load(Ordering::Relaxed)).min();
                    log.trim(slowest.unwrap_or(0)).unwrap();
                }
            })
        })
        .collect();
    for n in 0..RECORDS {
        log.append(format!("record {n}")).await.unwrap();
        if n % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    for tail in tails {
        tail.await.unwrap();
    }
    assert!(log.segments().len() < 3, "trimmed behind them");
    assert_eq!(log.durable(), RECORDS);
}

#[tokio::test]
async fn a_tail_waits_at_the_end_and_wakes_for_what_comes() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path());
    let mut tail = log.tail(0).unwrap();
    assert_eq!(tail.try_next(ALL).unwrap(), []);
    let (records, _) = tokio::join!(tail.next(ALL), append(&log, ["a"]));
    assert_eq!(texts(&records.unwrap()), ["a"]);
    log.append("b").await.unwrap();
    log.close();
    assert_eq!(texts(&tail.next(ALL).await.unwrap()), ["b"], "what is there is read after closing, too");
    assert!(matches!(tail.next(ALL).await, Err(LogError::Closed)));
}

#[tokio::test]
async fn a_tail_begins_anywhere_and_takes_no_more_than_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path());
    let all: Vec<_> = (0..40).map(|n| format!("record {n:02}")).collect();
    append(&log, &all).await;
    for from in 0..=40 {
        assert_eq!(read(&log, from as u64).unwrap(), all[from..]);
    }
    let mut tail = log.tail(3).unwrap();
    let taken = |records: Vec<Record>| records.len();
    assert_eq!(taken(tail.try_next(ReadLimit { records: 20, payload_bytes: 1000 }).unwrap()), 20);
    assert_eq!(taken(tail.try_next(ReadLimit { records: 20, payload_bytes: 27 }).unwrap()), 3);
    assert_eq!(taken(tail.try_next(ReadLimit { records: 0, payload_bytes: 0 }).unwrap()), 1, "at least one");
    assert_eq!(texts(&tail.try_next(ALL).unwrap()), all[27..]);
    assert!(matches!(log.tail(41).err(), Some(LogError::Ahead { from: 41, next: 40 })));
}

#[tokio::test]
async fn records_larger_than_a_chunk_are_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(dir.path(), Options { segment_bytes: 4 * 1024 * 1024, ..Options::default() }).unwrap();
    let payloads: Vec<_> = (0..6_u8).map(|n| Bytes::from(vec![n; if n % 2 == 0 { PAYLOAD_BYTES_MAX } else { 100_000 }])).collect();
    for payload in &payloads {
        log.append(payload.clone()).await.unwrap();
    }
    let read: Vec<_> = log.tail(0).unwrap().try_next(ALL).unwrap().into_iter().map(|record| record.payload).collect();
    assert_eq!(read, payloads);
}

#[tokio::test]
async fn trimming_deletes_only_closed_segments_that_lie_wholly_below() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(dir.path(), Options { clock: Arc::new(|| 77), ..small() }).unwrap();
    append(&log, vec!["payload0"; 25]).await;
    let segments = log.segments();
    let listed: Vec<_> = segments.iter().map(|segment| (segment.base, segment.end, segment.bytes, segment.closed_ms)).collect();
    assert_eq!(listed, [(0, 11, SEGMENT, Some(77)), (11, 22, SEGMENT, Some(77)), (22, 25, SEGMENT, None)]);

    let mut slow = log.tail(0).unwrap();
    slow.try_next(SOME).unwrap();
    assert_eq!(log.trim(10).unwrap(), 0);
    assert_eq!((log.trim(21).unwrap(), log.oldest()), (1, 11));
    assert_eq!(slow.try_next(ALL).unwrap().len(), 18, "a tail inside a deleted segment reads on");
    assert_eq!((log.trim(u64::MAX).unwrap(), log.oldest()), (1, 22));
    assert!(matches!(read(&log, 21), Err(LogError::Trimmed { from: 21, oldest: 22 })));
    drop(log);
    let (log, recovered) = open(dir.path());
    assert_eq!((recovered.oldest, recovered.next_position, recovered.last_time_ms), (22, 25, 77));
    assert_eq!(read(&log, 22).unwrap().len(), 3);
    assert_eq!(segment::list(dir.path()).unwrap(), [22]);
}

#[tokio::test]
async fn a_tail_that_trims_overtook_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path());
    append(&log, vec!["payload0"; 40]).await;
    let mut tail = log.tail(0).unwrap();
    log.trim(33).unwrap();
    assert!(matches!(tail.try_next(ALL), Err(LogError::Trimmed { from: 0, oldest: 33 })));
}

#[tokio::test]
async fn a_tail_that_read_everything_goes_on_although_what_it_read_was_trimmed() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path());
    let mut tail = log.tail(0).unwrap();
    append(&log, vec!["payload0"; 11]).await;
    assert_eq!(tail.try_next(ALL).unwrap().len(), 11);
    append(&log, ["in the next segment"]).await;
    assert_eq!(log.trim(11).unwrap(), 1);
    assert_eq!(texts(&tail.try_next(ALL).unwrap()), ["in the next segment"]);
}
