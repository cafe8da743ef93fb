//! What happens when flushing is slow or fails.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::*;

const STALL: Duration = Duration::from_millis(300);

/// Takes the tables' folder away, so that every flush fails.
fn with_broken_disk<T>(dir: &Path, during: impl FnOnce() -> T) -> T {
    fs::rename(dir.join("tables"), dir.join("away")).unwrap();
    let result = during();
    fs::rename(dir.join("away"), dir.join("tables")).unwrap();
    result
}

/// Applies until it is refused; the last number that was applied.
fn apply_until_refused(tree: &Tree, from: u64) -> (u64, TreeError) {
    for number in from.. {
        if let Err(error) = tree.apply(batch(number), number) {
            return (number - 1, error);
        }
    }
    unreachable!("without flushes the memtables are full at some time")
}

#[test]
fn apply_refuses_while_nothing_can_be_flushed_and_goes_on_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { stall_max: STALL, sealed_max: 2, ..small() };
    let tree = Tree::open(dir.path(), options.clone()).unwrap();
    (1..=50).for_each(|number| apply(&tree, number));
    let last = with_broken_disk(dir.path(), || {
        let (last, error) = apply_until_refused(&tree, 51);
        assert!(matches!(error, TreeError::Unavailable(_)), "{error:?}");
        let before = Instant::now();
        assert!(tree.apply(batch(last + 1), last + 1).is_err());
        assert!(before.elapsed() >= STALL, "refused without waiting");
        assert!(matches!(tree.flush(), Err(TreeError::Unavailable(_))));

        // Nothing of the refused batch is there, all before it is, and the memory is bounded.
        assert_eq!(tree.applied(), Some(last));
        let stats = tree.stats();
        assert!(stats.sealed <= 2 && stats.memtable_bytes < 2 * options.memtable_bytes as u64 + 100_000, "{stats:?}");
        assert!(stats.failure.is_some());
        last
    });
    // A retry of the flusher comes within its back-off.
    let mut number = last + 1;
    while number < last + 300 {
        if tree.apply(batch(number), number).is_ok() {
            number += 1;
        }
    }
    tree.flush().unwrap();
    assert!(tree.stats().failure.is_none());
    assert_content(&tree.snapshot(), &model(number - 1));
    drop(tree);
    let tree = Tree::open(dir.path(), options).unwrap();
    assert_eq!(tree.applied(), Some(number - 1));
    assert_content(&tree.snapshot(), &model(number - 1));
}

#[test]
fn apply_waits_for_a_flush_that_comes_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(dir.path(), small()).unwrap();
    apply(&tree, 1);
    tree.flush().unwrap();
    thread::scope(|scope| {
        let applier = scope.spawn(|| (2..=400).for_each(|number| apply(&tree, number)));
        with_broken_disk(dir.path(), || thread::sleep(Duration::from_millis(300)));
        applier.join().unwrap();
    });
    assert_content(&tree.snapshot(), &model(400));
}

#[test]
fn a_crash_while_nothing_can_be_flushed_loses_no_flushed_batch() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(dir.path(), Options { stall_max: STALL, ..small() }).unwrap();
    (1..=50).for_each(|number| apply(&tree, number));
    tree.flush().unwrap();
    with_broken_disk(dir.path(), || {
        apply_until_refused(&tree, 51);
        drop(tree);
    });
    let tree = Tree::open(dir.path(), small()).unwrap();
    assert_eq!(tree.applied(), Some(50));
    assert_content(&tree.snapshot(), &model(50));
}

#[test]
fn tables_of_failed_flushes_are_removed_while_the_tree_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(dir.path(), Options { stall_max: STALL, ..small() }).unwrap();
    (1..=300).for_each(|number| apply(&tree, number));
    tree.flush().unwrap();
    let snapshot = tree.snapshot();
    // A file where the next tables should go makes flushes fail, and looks like what a failed one leaves.
    let next = fs::read_dir(dir.path().join("tables"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse::<u64>().unwrap())
        .max()
        .unwrap();
    let orphans: Vec<_> = (next + 1..next + 40).map(|id| dir.path().join("tables").join(id.to_string())).collect();
    orphans.iter().for_each(|path| fs::write(path, b"half a table").unwrap());
    let mut number = 301;
    while number < 900 {
        if tree.apply(batch(number), number).is_ok() {
            number += 1;
        }
    }
    // The last of them may stand in the way for longer than a flush waits.
    let until = Instant::now() + Duration::from_secs(60);
    while let Err(error) = tree.flush() {
        assert!(Instant::now() < until, "{error}");
    }
    assert!(orphans.iter().all(|path| fs::read(path).map_or(true, |bytes| bytes != b"half a table")), "orphans are left");
    assert_content(&snapshot, &model(300));
    assert_content(&tree.snapshot(), &model(number - 1));
    tree.verify().unwrap();
}

#[test]
fn dropping_a_tree_does_not_wait_for_a_long_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(dir.path(), Options { memtable_bytes: 4 << 20, table_bytes: 64 << 20, ..Options::default() }).unwrap();
    let mut number = 0;
    // Until level 0 is about to be merged.
    while tree.stats().l0_runs < 4 && number < 4_000 {
        number += 1;
        let rows: Vec<_> =
            (0..200u64).map(|row| ((row * 7_919 + number).to_be_bytes().map(|byte| byte | 1).to_vec(), Some(vec![1; 100]))).collect();
        tree.apply(rows, number).unwrap();
    }
    let before = Instant::now();
    drop(tree);
    assert!(before.elapsed() < Duration::from_secs(60), "closing hangs: {:?}", before.elapsed());
}

/// A file system of 24 MiB that goes when this does; none where mounting is not allowed.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "none"]).arg(dir.path()).status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_reported_and_left_as_soon_as_there_is_room() {
    let Some(disk) = SmallDisk::mount() else {
        println!("no file system may be mounted here: not run");
        return;
    };
    let dir = tempfile::tempdir_in(disk.0.path()).unwrap();
    let ballast = dir.path().join("ballast");
    fs::write(&ballast, vec![1; 12 << 20]).unwrap();
    let tree = Tree::open(&dir.path().join("state"), Options { memtable_bytes: 1 << 20, stall_max: STALL, ..small() }).unwrap();
    let random: Vec<u8> = (0..4_000).map(|n| (n * n % 251) as u8).collect();
    let row = |number: u64| [(format!("row/{number}").into_bytes(), Some(random.clone()))];
    let mut number = 1;
    let error = loop {
        match tree.apply(row(number), number) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, TreeError::Full), "{error:?}");
    for other in 1..number {
        assert_eq!(tree.snapshot().get(format!("row/{other}").as_bytes()).unwrap().as_deref(), Some(&random[..]));
    }
    fs::remove_file(&ballast).unwrap();
    let until = number + 200;
    while number < until {
        if tree.apply(row(number), number).is_ok() {
            number += 1;
        }
    }
    tree.flush().unwrap();
    tree.verify().unwrap();
    drop(tree);
    let tree = Tree::open(&dir.path().join("state"), small()).unwrap();
    assert_eq!(tree.applied(), Some(number - 1));
    assert_eq!(tree.snapshot().range(..).unwrap().count() as u64, number - 1);
}

#[test]
fn a_panic_in_the_background_is_an_error_for_the_applier_and_over_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let panicking = |_: &[u8], _: &[u8]| -> bool { panic!("a bug in the expiry rule") };
    let tree = Tree::open(dir.path(), Options { expiry: Some(std::sync::Arc::new(panicking)), ..small() }).unwrap();
    let (last, error) = apply_until_refused(&tree, 1);
    assert!(matches!(&error, TreeError::Broken(what) if what.contains("a bug in the expiry rule")), "{error:?}");
    assert!(matches!(tree.flush(), Err(TreeError::Broken(_))));
    assert!(matches!(tree.stats().failure, Some(TreeError::Broken(_))));
    assert_content(&tree.snapshot(), &model(last));
    drop(tree);
    let tree = Tree::open(dir.path(), small()).unwrap();
    let applied = tree.applied().unwrap();
    assert_content(&tree.snapshot(), &model(applied));
    for number in applied + 1..=last + 100 {
        apply(&tree, number);
    }
    assert_content(&tree.snapshot(), &model(last + 100));
}
