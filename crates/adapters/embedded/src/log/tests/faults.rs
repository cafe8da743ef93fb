//! Failing writes and syncs, and full disks: what is acknowledged is there, what is refused is not, and the log goes on where it can.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::super::*;
use super::*;

const FULL: io::ErrorKind = io::ErrorKind::StorageFull;

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

/// Appends until one is refused: the payloads that were acknowledged, and the refusal.
async fn append_until_refused(log: &Log, kept: &mut Vec<String>) -> AppendError {
    loop {
        let text = format!("record {}", kept.len());
        match log.append(text.clone()).await {
            Ok(_) => kept.push(text),
            Err(refusal) => return refusal,
        }
    }
}

async fn append_once_it_goes_on(log: &Log, kept: &mut Vec<String>) {
    let text = format!("record {}", kept.len());
    while log.append(text.clone()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    kept.push(text);
}

#[tokio::test]
async fn a_full_disk_refuses_appends_and_the_log_goes_on_once_there_is_room() {
    for halfway in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let full = Arc::new(AtomicBool::new(false));
        let options = with_disk({
            let full = Arc::clone(&full);
            move |op, path| match op {
                Op::Write if full.load(Ordering::Relaxed) && !is_segment(path) && halfway => Fate::FailHalfway(FULL),
                Op::Write if full.load(Ordering::Relaxed) && !is_segment(path) => Fate::Fail(FULL),
                _ => Fate::Pass,
            }
        });
        let (log, _) = Log::open(dir.path(), options).unwrap();
        let mut kept = Vec::new();
        for _ in 0..3 {
            full.store(true, Ordering::Relaxed);
            assert_eq!(append_until_refused(&log, &mut kept).await, AppendError::Full);
            assert_eq!(log.append("refused").await, Err(AppendError::Full));
            assert_eq!(read(&log, 0).unwrap(), kept, "what is there can be read");
            full.store(false, Ordering::Relaxed);
            append_once_it_goes_on(&log, &mut kept).await;
        }
        drop(log);
        let (log, recovered) = open(dir.path());
        assert_eq!((read(&log, 0).unwrap(), recovered.torn), (kept, None));
    }
}

#[tokio::test]
async fn a_next_segment_that_fails_otherwise_makes_the_log_unavailable_for_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let failing = Arc::new(AtomicBool::new(false));
    let options = with_disk({
        let failing = Arc::clone(&failing);
        move |op, path| match op {
            Op::Sync if failing.load(Ordering::Relaxed) && !is_segment(path) => Fate::Fail(io::ErrorKind::Other),
            _ => Fate::Pass,
        }
    });
    let (log, _) = Log::open(dir.path(), options).unwrap();
    failing.store(true, Ordering::Relaxed);
    let mut kept = Vec::new();
    assert_eq!(append_until_refused(&log, &mut kept).await, AppendError::Unavailable);
    failing.store(false, Ordering::Relaxed);
    append_once_it_goes_on(&log, &mut kept).await;
    assert_eq!(read(&log, 0).unwrap(), kept);
}

#[tokio::test]
async fn a_write_that_finds_no_room_is_cut_back_and_its_positions_are_given_anew() {
    let dir = tempfile::tempdir().unwrap();
    let fail_next = Arc::new(AtomicBool::new(false));
    let options = with_disk({
        let fail_next = Arc::clone(&fail_next);
        move |op, path| match op {
            Op::Write if is_segment(path) && fail_next.swap(false, Ordering::Relaxed) => Fate::FailHalfway(FULL),
            _ => Fate::Pass,
        }
    });
    let (log, _) = Log::open(dir.path(), options).unwrap();
    append(&log, ["first"]).await;
    fail_next.store(true, Ordering::Relaxed);
    assert_eq!(log.append("refused, and longer than the others").await, Err(AppendError::Full));
    assert_eq!(log.durable(), 1);
    let bytes = fs::read(segment::path_of(dir.path(), 0)).unwrap();
    assert!(bytes[offset_of(1, "first")..].iter().all(|&byte| byte == 0), "nothing is left of it");
    assert_eq!(log.append("second").await.unwrap().position, 1);
    drop(log);
    let (log, recovered) = open(dir.path());
    assert_eq!((read(&log, 0).unwrap(), recovered.torn), (vec!["first".into(), "second".into()], None));
}

#[tokio::test]
async fn a_write_that_cannot_even_be_cut_back_has_an_unknown_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let full = Arc::new(AtomicBool::new(false));
    let options = with_disk({
        let full = Arc::clone(&full);
        move |op, path| match op {
            Op::Write if is_segment(path) && full.load(Ordering::Relaxed) => Fate::FailHalfway(FULL),
            _ => Fate::Pass,
        }
    });
    let (log, _) = Log::open(dir.path(), options).unwrap();
    append(&log, ["first"]).await;
    full.store(true, Ordering::Relaxed);
    assert_eq!(log.append("unknown").await, Err(AppendError::Unknown));
    assert_eq!(log.append("refused").await, Err(AppendError::Full), "nothing of this one was written");
    full.store(false, Ordering::Relaxed);
    assert_eq!(log.append("second").await.unwrap().position, 1);
    drop(log);
    let (log, recovered) = open(dir.path());
    assert_eq!((read(&log, 0).unwrap(), recovered.torn), (vec!["first".into(), "second".into()], None));
}

#[tokio::test]
async fn a_failed_sync_is_unknown_and_nothing_is_acknowledged_after_it_until_reopening() {
    failure_breaks_the_log(Op::Sync, Fate::Fail(io::ErrorKind::Other)).await;
    failure_breaks_the_log(Op::Sync, Fate::Fail(FULL)).await;
}

#[tokio::test]
async fn a_failed_write_is_unknown_and_nothing_is_acknowledged_after_it_until_reopening() {
    failure_breaks_the_log(Op::Write, Fate::Fail(io::ErrorKind::Other)).await;
    failure_breaks_the_log(Op::Write, Fate::FailHalfway(io::ErrorKind::Other)).await;
}

async fn failure_breaks_the_log(failing: Op, fate: Fate) {
    let dir = tempfile::tempdir().unwrap();
    let fail_next = Arc::new(AtomicBool::new(false));
    let options = with_disk({
        let fail_next = Arc::clone(&fail_next);
        move |op, path| {
            if op == failing && is_segment(path) && fail_next.swap(false, Ordering::Relaxed) { fate } else { Fate::Pass }
        }
    });
    let (log, _) = Log::open(dir.path(), options).unwrap();
    append(&log, ["first"]).await;
    fail_next.store(true, Ordering::Relaxed);
    assert_eq!(log.append("in doubt").await, Err(AppendError::Unknown));
    for _ in 0..3 {
        assert_eq!(log.append("refused").await, Err(AppendError::Unavailable));
    }
    assert_eq!(log.durable(), 1, "readers don't see what is in doubt");
    assert_eq!(read(&log, 0).unwrap(), ["first"]);
    drop(log);
    let (log, _) = open(dir.path());
    let texts = read(&log, 0).unwrap();
    assert!(texts == ["first"] || texts == ["first", "in doubt"], "{texts:?}");
    append(&log, ["after"]).await;
}

#[tokio::test]
async fn a_new_segment_that_cannot_be_made_durable_breaks_the_log_but_not_what_is_in_it() {
    // Of the second segment: zeros are one sync of the prepared file, its header the next; then the folder.
    for (failing, nth) in [(Op::Sync, 3), (Op::SyncDir, 1)] {
        let dir = tempfile::tempdir().unwrap();
        let syncs = AtomicU8::new(0);
        let options = with_disk(move |op, path| {
            let counts = op == failing && !is_segment(path);
            if counts && syncs.fetch_add(1, Ordering::Relaxed) == nth { Fate::Fail(io::ErrorKind::Other) } else { Fate::Pass }
        });
        let (log, _) = Log::open(dir.path(), options).unwrap();
        let mut kept = Vec::new();
        assert_eq!(append_until_refused(&log, &mut kept).await, AppendError::Unavailable);
        assert_eq!(log.append("refused").await, Err(AppendError::Unavailable));
        drop(log);
        let (log, recovered) = open(dir.path());
        assert_eq!((recovered.next_position, recovered.torn), (kept.len() as u64, None));
        append_once_it_goes_on(&log, &mut kept).await;
        assert_eq!(read(&log, 0).unwrap(), kept);
    }
}

#[tokio::test]
async fn opening_fails_if_the_end_cannot_be_settled() {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path(), &[&[&["a"]]]);
    let error = refusal(dir.path(), with_disk(|op, _| if op == Op::Sync { Fate::Fail(io::ErrorKind::Other) } else { Fate::Pass }));
    assert!(matches!(error, LogError::Io { .. }), "{error}");
}

#[tokio::test]
async fn a_trim_that_fails_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let failing = Arc::new(AtomicBool::new(false));
    let options = with_disk({
        let failing = Arc::clone(&failing);
        move |op, _| {
            if op == Op::SyncDir && failing.load(Ordering::Relaxed) { Fate::Fail(io::ErrorKind::Other) } else { Fate::Pass }
        }
    });
    let (log, _) = Log::open(dir.path(), options).unwrap();
    append(&log, vec!["payload0"; 25]).await;
    failing.store(true, Ordering::Relaxed);
    assert!(matches!(log.trim(22), Err(LogError::Io { .. })));
    assert_eq!(log.oldest(), 0);
    failing.store(false, Ordering::Relaxed);
    assert_eq!((log.trim(22).unwrap(), log.oldest()), (2, 22));
    assert_eq!(read(&log, 22).unwrap().len(), 3);
}

/// After a failed sync the kernel may take pages for clean that never reached the disk: reading them back proves nothing.
#[tokio::test]
async fn opening_writes_and_syncs_the_last_group_again() {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path(), &[&[&["a"], &["b", "c"]]]);
    let done = Arc::new(Mutex::new(Vec::new()));
    let options = with_disk({
        let done = Arc::clone(&done);
        move |op, _| {
            done.lock().unwrap().push(op);
            Fate::Pass
        }
    });
    let (_log, _) = Log::open(dir.path(), options).unwrap();
    assert_eq!(*done.lock().unwrap(), [Op::Write, Op::Sync, Op::SyncDir]);
}

#[tokio::test]
async fn nobody_waits_for_a_writer_that_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(dir.path(), Options { clock: Arc::new(|| panic!("the clock fails in this test")), ..small() }).unwrap();
    assert_eq!(log.append("x").await, Err(AppendError::Unknown));
    let later = log.append("y").await;
    assert!(matches!(later, Err(AppendError::Closed | AppendError::Unknown)), "{later:?}");
    assert!(matches!(log.tail(0).unwrap().next(ALL).await, Err(LogError::Closed)));
}
