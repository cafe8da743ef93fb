//! What readers see.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::*;

#[test]
fn a_reader_never_sees_half_a_batch() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Arc::new(Tree::open(dir.path(), small()).unwrap());
    let done = Arc::new(AtomicBool::new(false));
    let key = |row: u64| format!("row/{row:02}").into_bytes();
    let readers: Vec<_> = (0..3)
        .map(|reader| {
            let (tree, done) = (Arc::clone(&tree), Arc::clone(&done));
            thread::spawn(move || {
                let (mut reads, mut last) = (0u64, None);
                while !done.load(Ordering::Relaxed) {
                    let snapshot = tree.snapshot();
                    let expected = snapshot.applied();
                    assert!(expected >= last, "a later snapshot is older");
                    last = expected;
                    let Some(number) = expected else { continue };
                    let right = |value: &[u8]| value.starts_with(&number.to_be_bytes());
                    if reader == 0 {
                        (0..40).for_each(|row| assert!(right(&snapshot.get(&key(row)).unwrap().unwrap())));
                    } else {
                        let rows: Vec<_> = if reader == 1 {
                            snapshot.prefix(b"row/").unwrap().collect()
                        } else {
                            snapshot.prefix(b"row/").unwrap().rev().collect()
                        };
                        assert_eq!(rows.len(), 40);
                        assert!(rows.iter().all(|row| right(&row.as_ref().unwrap().1)));
                    }
                    reads += 1;
                }
                reads
            })
        })
        .collect();
    for number in 1..=1_500u64 {
        let value = [&number.to_be_bytes()[..], &[7; 60]].concat();
        tree.apply((0..40).map(|row| (key(row), Some(value.clone()))), number).unwrap();
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
    assert!(tree.flushed().is_some(), "nothing was flushed meanwhile");
}

#[test]
fn a_snapshot_keeps_its_version_through_flushes_and_compactions() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(dir.path(), small()).unwrap();
    let mut current = Model::new();
    let mut kept = vec![(tree.snapshot(), current.clone())];
    for number in 1..=600 {
        apply(&tree, number);
        apply_to(&mut current, number);
        if number % 67 == 0 {
            kept.push((tree.snapshot(), current.clone()));
        }
        if number % 150 == 0 {
            tree.flush().unwrap();
            kept.iter().for_each(|(snapshot, expected)| assert_content(snapshot, expected));
            kept.remove(1);
        }
    }
    assert!(tree.stats().levels[1..].iter().any(|&tables| tables > 0), "nothing was compacted meanwhile");
    assert_content(&tree.snapshot(), &current);
    drop(tree);
    kept.iter().for_each(|(snapshot, expected)| assert_content(snapshot, expected));
}

#[test]
fn versions_are_given_up_once_no_snapshot_needs_them() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(dir.path(), small()).unwrap();
    let snapshot = tree.snapshot();
    (1..=600).for_each(|number| apply(&tree, number));
    tree.flush().unwrap();
    assert!(tree.stats().versions_kept > 5, "an open snapshot keeps later versions");
    drop(snapshot);
    apply(&tree, 601);
    tree.flush().unwrap();
    // Without another batch: the compactor lets go of them when there is nothing left to do.
    settle(&tree);
    assert_eq!(tree.stats().versions_kept, 0);
    assert_content(&tree.snapshot(), &model(601));
    assert_eq!(tree.stats().snapshots, 0);
}

#[test]
fn an_old_snapshot_expires_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(dir.path(), Options { snapshot_max: Duration::from_millis(50), ..small() }).unwrap();
    apply(&tree, 1);
    let old = tree.snapshot();
    let mut rows = old.range(..).unwrap();
    thread::sleep(Duration::from_millis(60));
    assert_content(&old, &model(1)); // nobody needed the room yet
    for number in 2..=4 {
        apply(&tree, number);
        tree.flush().unwrap();
    }
    assert!(matches!(old.get(b"hot/001"), Err(TreeError::SnapshotExpired)));
    assert!(matches!(old.range(..).err(), Some(TreeError::SnapshotExpired)));
    assert_eq!(rows.by_ref().map(|row| row.unwrap().0.to_vec()).collect::<Vec<_>>(), model(1).into_keys().collect::<Vec<_>>());
    assert_content(&tree.snapshot(), &model(4));
    assert_eq!(tree.stats().snapshots, 0);
}

#[test]
fn ranges_and_prefixes_give_the_same_rows_as_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(dir.path(), small()).unwrap();
    let mut random = StdRng::seed_from_u64(5);
    let mut key = || (0..random.random_range(1..4)).map(|_| [1, 2, 128, 254, 255][random.random_range(0..5)]).collect::<Vec<u8>>();
    let mut expected = Model::new();
    for position in 0..300 {
        let (key, value) = (key(), vec![1; 500]);
        expected.insert(key.clone(), value.clone());
        tree.apply([(key, Some(value))], position).unwrap();
    }
    let snapshot = tree.snapshot();
    let keys = |rows: super::super::snapshot::Rows| rows.map(|row| row.unwrap().0.to_vec()).collect::<Vec<_>>();
    for _ in 0..300 {
        let (from, to, prefix) = (key(), key(), key());
        let expect = |inside: &dyn Fn(&[u8]) -> bool| expected.keys().filter(|key| inside(key)).cloned().collect::<Vec<_>>();
        assert_eq!(keys(snapshot.range(&from[..]..&to[..]).unwrap()), expect(&|key| key >= &from[..] && key < &to[..]));
        assert_eq!(keys(snapshot.range(&from[..]..=&to[..]).unwrap()), expect(&|key| key >= &from[..] && key <= &to[..]));
        assert_eq!(keys(snapshot.range((Bound::Excluded(&from[..]), Bound::Unbounded)).unwrap()), expect(&|key| key > &from[..]));
        assert_eq!(keys(snapshot.prefix(&prefix).unwrap()), expect(&|key| key.starts_with(&prefix)));
    }
    assert_eq!(keys(snapshot.prefix(&[255]).unwrap()), expected.keys().filter(|key| key[0] == 255).cloned().collect::<Vec<_>>());
    assert_eq!(keys(snapshot.prefix(b"").unwrap()).len(), expected.len());
    assert_eq!(keys(snapshot.range(&[0][..]..&[0, 200][..]).unwrap()).len(), 0);
}

#[test]
fn keys_that_the_engine_or_we_reserve_are_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(dir.path(), small()).unwrap();
    for wrong in [vec![], vec![0], b"\0applied".to_vec(), vec![1; 65_536]] {
        let result = tree.apply([(b"good".to_vec(), Some(b"1".to_vec())), (wrong, Some(vec![]))], 1);
        assert!(matches!(result, Err(TreeError::Key(_))), "{result:?}");
    }
    assert_eq!(tree.applied(), None);
    tree.apply([(vec![1; 65_535], Some(vec![9; 300_000]))], 1).unwrap();
    assert!(matches!(tree.apply([(b"late", Some(b"1"))], 0), Err(TreeError::Backwards { applied: 1, given: 0 })));
    tree.flush().unwrap();
    let snapshot = tree.snapshot();
    assert_eq!(snapshot.get(b"\0applied").unwrap(), None);
    assert_eq!(snapshot.get(b"good").unwrap(), None);
    assert_eq!(snapshot.get(&[1; 65_535]).unwrap().unwrap().len(), 300_000);
    assert_eq!(snapshot.range(..).unwrap().count(), 1);
}

#[test]
fn compaction_drops_expired_rows_but_not_from_open_snapshots() {
    let dir = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicBool::new(false));
    let expiry = {
        let now = Arc::clone(&now);
        move |key: &[u8], value: &[u8]| now.load(Ordering::Relaxed) && key.starts_with(b"new/") && value.len() < 100
    };
    let mut tree = Tree::open(dir.path(), Options { expiry: Some(Arc::new(expiry)), ..small() }).unwrap();
    (1..=500).for_each(|number| apply(&tree, number));
    assert_content(&tree.snapshot(), &model(500));
    let before = tree.snapshot();
    now.store(true, Ordering::Relaxed);
    (501..=1_000).for_each(|number| apply(&tree, number));
    tree.flush().unwrap();
    assert_content(&before, &model(500));
    drop(before);
    let (mut expected, found) = (model(1_000), read_all(&tree.snapshot()).unwrap());
    assert!(found.len() < expected.len(), "nothing was dropped");
    assert!(found.iter().all(|(key, value)| expected.get(key) == Some(value)), "an older row has come back");
    expected.retain(|key, value| !(key.starts_with(b"new/") && value.len() < 100));
    assert!(expected.keys().all(|key| found.contains_key(key)), "a row was dropped that had not expired");
    drop(tree);
    tree = Tree::open(dir.path(), small()).unwrap();
    assert_eq!(tree.applied(), Some(1_000));
}
