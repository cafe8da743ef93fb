//! Order, durability, groups, time, closing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use super::super::*;
use super::*;

#[tokio::test]
async fn positions_count_from_zero_and_go_on_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3_u64 {
        let (log, recovered) = open(dir.path());
        assert_eq!((recovered.next_position, recovered.torn), (round * 30, None));
        for n in 0..30 {
            let appended = log.append(format!("{round}/{n}")).await.unwrap();
            assert_eq!(appended.position, round * 30 + n);
            assert!(log.durable() > appended.position, "durable when acknowledged");
        }
    }
    let (log, _) = open(dir.path());
    let expected: Vec<_> = (0..90).map(|n| format!("{}/{}", n / 30, n % 30)).collect();
    assert_eq!(read(&log, 0).unwrap(), expected);
    assert!(log.segments().len() > 5, "over many segments");
}

#[tokio::test]
async fn what_queues_during_a_sync_becomes_one_group() {
    let dir = tempfile::tempdir().unwrap();
    let (syncing, has_begun) = mpsc::channel();
    let (let_go, may_go) = mpsc::channel();
    let gate = Mutex::new((syncing, may_go));
    let options = with_disk(move |op, path| {
        if op == Op::Sync && path.extension().is_some_and(|extension| extension == "log") {
            let gate = gate.lock().unwrap();
            gate.0.send(()).unwrap();
            gate.1.recv().unwrap();
        }
        Fate::Pass
    });
    let (log, _) = Log::open(dir.path(), options).unwrap();
    let log = Arc::new(log);
    let send = |text: &'static str| {
        let log = Arc::clone(&log);
        tokio::spawn(async move { log.append(text).await })
    };
    let first = send("first");
    tokio::task::yield_now().await;
    has_begun.recv().unwrap();
    let others = ["second", "third", "fourth"].map(send);
    tokio::task::yield_now().await;
    assert_eq!(log.durable(), 0, "nothing is durable before its sync");
    let_go.send(()).unwrap();
    has_begun.recv().unwrap();
    let_go.send(()).unwrap();
    assert_eq!(first.await.unwrap().unwrap().position, 0);
    for other in others {
        other.await.unwrap().unwrap();
    }
    let bytes = fs::read(segment::path_of(dir.path(), 0)).unwrap();
    let (mut offset, mut groups) = (SEGMENT_HEADER_BYTES, Vec::new());
    while let Some(found) = record::decode(&bytes[offset..], log.salt) {
        groups.push(found.head.group);
        offset += found.bytes;
    }
    assert_eq!(groups, [0, 1, 1, 1]);
}

#[tokio::test]
async fn a_sender_who_is_alone_writes_in_its_own_thread_if_the_disk_is_quick() {
    for (sync, expected) in [(Duration::ZERO, true), (Duration::from_millis(2), false)] {
        let dir = tempfile::tempdir().unwrap();
        let own = std::thread::current().id();
        let own_syncs = Arc::new(AtomicU64::new(0));
        let options = with_disk({
            let own_syncs = Arc::clone(&own_syncs);
            move |op, path| {
                if op == Op::Sync && path.extension().is_some_and(|extension| extension == "log") {
                    std::thread::sleep(sync);
                    own_syncs.fetch_add(u64::from(std::thread::current().id() == own), Ordering::Relaxed);
                }
                Fate::Pass
            }
        });
        let (log, _) = Log::open(dir.path(), options).unwrap();
        let texts: Vec<_> = (0..60).map(|n| format!("{n}")).collect();
        for text in &texts {
            log.append(text.clone()).await.unwrap();
            std::thread::sleep(Duration::from_millis(1)); // The writer goes back to waiting.
        }
        assert_eq!(own_syncs.load(Ordering::Relaxed) > 0, expected, "syncs take {sync:?}");
        assert_eq!(read(&log, 0).unwrap(), texts);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_senders_get_positions_of_their_own_over_many_rolls() {
    const SENDERS: usize = 32;
    const EACH: usize = 50;
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path());
    let log = Arc::new(log);
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let mut positions = Vec::new();
                for n in 0..EACH {
                    positions.push(log.append(format!("{sender}/{n}")).await.unwrap().position);
                }
                positions
            })
        })
        .collect();
    let mut expected = vec![String::new(); SENDERS * EACH];
    for (sender, task) in senders.into_iter().enumerate() {
        let positions = task.await.unwrap();
        assert!(positions.is_sorted(), "in the order of its sends");
        for (n, position) in positions.into_iter().enumerate() {
            expected[usize::try_from(position).unwrap()] = format!("{sender}/{n}");
        }
    }
    log.close();
    let (log, recovered) = Log::open(dir.path(), Options { verify: Verify::All, ..small() }).unwrap();
    assert_eq!(recovered.torn, None);
    assert_eq!(read(&log, 0).unwrap(), expected);
}

#[tokio::test]
async fn time_never_goes_backwards_even_if_the_clock_does() {
    let dir = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicU64::new(0));
    let options = || {
        let now = Arc::clone(&now);
        Options { clock: Arc::new(move || now.load(Ordering::Relaxed)), ..small() }
    };
    let mut times = Vec::new();
    for clock_ms in [1000, 900, 1100, 50, 0] {
        let (log, recovered) = Log::open(dir.path(), options()).unwrap();
        assert_eq!(recovered.last_time_ms, times.last().copied().unwrap_or(0));
        now.store(clock_ms, Ordering::Relaxed);
        for _ in 0..9 {
            times.push(log.append(&b"tick"[..]).await.unwrap().time_ms);
        }
    }
    assert!(times.is_sorted());
    assert_eq!(times.last(), Some(&1100));
}

#[tokio::test]
async fn time_is_kept_even_if_the_last_segment_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path(), &[&[&["a", "b", "c"]], &[]]);
    let (_, recovered) = open(dir.path());
    assert_eq!((recovered.next_position, recovered.last_time_ms), (3, 3));
}

#[tokio::test]
async fn a_payload_above_the_limit_is_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path());
    assert_eq!(log.append(vec![1; 129]).await, Err(AppendError::TooLarge));
    assert_eq!(log.append(vec![1; 128]).await.map(|appended| appended.position), Ok(0));
    assert_eq!(log.append(Bytes::new()).await.map(|appended| appended.position), Ok(1), "an empty one is a record, too");
    assert_eq!(log.tail(1).unwrap().try_next(ALL).unwrap()[0].payload, Bytes::new());
}

#[test]
fn options_that_do_not_fit_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let too_small = Options { segment_bytes: 100, ..small() };
    assert!(matches!(refusal(dir.path(), too_small), LogError::Options(_)));
    let too_large = Options { segment_bytes: u32::MAX, ..small() };
    assert!(matches!(refusal(dir.path(), too_large), LogError::Options(_)));
}

#[tokio::test]
async fn the_epoch_is_given_to_a_new_log_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(dir.path(), Options { epoch: 7, ..small() }).unwrap();
    append(&log, vec!["x"; 30]).await;
    drop(log);
    let (log, recovered) = Log::open(dir.path(), Options { epoch: 9, ..small() }).unwrap();
    assert_eq!((recovered.epoch, log.epoch()), (7, 7));
}

#[tokio::test]
async fn an_empty_segment_that_is_too_small_for_new_options_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path(), &[&[&["a", "b"]], &[]]);
    let larger = || Options { segment_bytes: 4096, payload_bytes_max: 1024, ..small() };
    let (log, _) = Log::open(dir.path(), larger()).unwrap();
    let payload = "x".repeat(1024);
    append(&log, vec![&payload; 10]).await;
    let segments = log.segments();
    drop(log);
    let (log, _) = Log::open(dir.path(), Options { verify: Verify::All, ..larger() }).unwrap();
    assert_eq!(read(&log, 0).unwrap().len(), 12);
    assert_eq!(log.segments(), segments);
    let bounds: Vec<_> = log.segments().iter().map(|segment| (segment.base, segment.end, segment.bytes)).collect();
    assert_eq!(bounds, [(0, 2, SEGMENT), (2, 5, 4096), (5, 8, 4096), (8, 11, 4096), (11, 12, 4096)]);
}

#[tokio::test]
async fn closing_answers_what_is_queued_and_refuses_what_comes_later() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path());
    let log = Arc::new(log);
    let queued: Vec<_> = (0..100)
        .map(|n| {
            let log = Arc::clone(&log);
            tokio::spawn(async move { log.append(format!("{n}")).await })
        })
        .collect();
    tokio::task::yield_now().await;
    log.close();
    log.close();
    let mut appended = 0;
    for append in queued {
        match append.await.unwrap() {
            Ok(_) => appended += 1,
            Err(refusal) => assert_eq!(refusal, AppendError::Closed, "it came too late"),
        }
    }
    assert!(appended > 0);
    assert_eq!(log.queue.room_bytes(), QUEUE_BYTES_MAX, "all room was given back");
    assert_eq!(log.append("late").await, Err(AppendError::Closed));
    assert_eq!(open(dir.path()).1.next_position, appended);
}
