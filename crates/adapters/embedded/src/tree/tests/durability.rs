//! What is left after a crash.

use std::process::Command;
use std::time::Duration;

use super::*;

#[test]
fn a_new_tree_has_no_position() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(&dir.path().join("state"), small()).unwrap();
    assert_eq!((tree.applied(), tree.flushed(), tree.snapshot().applied()), (None, None, None));
    assert_content(&tree.snapshot(), &Model::new());
    tree.close().unwrap();
    let tree = Tree::open(&dir.path().join("state"), small()).unwrap();
    assert_eq!(tree.applied(), None);
}

#[test]
fn what_was_flushed_is_there_again_and_the_position_says_so() {
    let dir = tempfile::tempdir().unwrap();
    for number in 1..=30 {
        let tree = Tree::open(dir.path(), small()).unwrap();
        assert_eq!(tree.applied().unwrap_or(0), number - 1);
        assert_eq!(tree.flushed(), tree.applied());
        apply(&tree, number);
        assert_eq!(tree.applied(), Some(number));
        assert_eq!(tree.snapshot().applied(), Some(number));
        tree.flush().unwrap();
        assert_eq!(tree.flushed(), Some(number));
        assert_content(&tree.snapshot(), &model(number));
        if number % 2 == 0 { tree.close().unwrap() } else { drop(tree) }
    }
}

#[test]
fn a_batch_without_rows_moves_the_position() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(dir.path(), small()).unwrap();
    tree.apply(Batch::new(), 7).unwrap();
    tree.close().unwrap();
    assert_eq!(Tree::open(dir.path(), small()).unwrap().applied(), Some(7));
}

#[test]
fn dropped_without_a_flush_the_tree_stands_at_the_end_of_a_batch() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 1..=8 {
        let tree = Tree::open(dir.path(), small()).unwrap();
        for number in last + 1..last + 30 * round {
            apply(&tree, number);
        }
        let flushed = tree.flushed().unwrap_or(0);
        drop(tree);
        last = check(dir.path());
        assert!(last >= flushed, "{flushed} was called durable, {last} is there");
    }
    assert!(last > 0);
}

#[test]
fn a_killed_process_leaves_the_tree_at_the_end_of_a_batch() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..8 {
        let name = module_path!().split_once("::").expect("a module of a crate").1;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([&format!("{name}::apply_until_killed"), "--exact"])
            .env("TREE_TO_KILL", dir.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(100 + 37 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = check(dir.path());
        assert!(now >= last);
        last = now;
    }
    assert!(last > 100, "the child did not get far: {last}");
}

/// Not a test of its own: what the one above runs in a process of its own.
#[test]
fn apply_until_killed() {
    let Some(dir) = std::env::var_os("TREE_TO_KILL") else { return };
    let tree = Tree::open(dir.as_ref(), small()).unwrap();
    for number in tree.applied().unwrap_or(0) + 1.. {
        apply(&tree, number);
    }
}

/// Opens the tree and compares everything in it with the model of its position, which it returns.
fn check(dir: &std::path::Path) -> u64 {
    let tree = Tree::open(dir, small()).unwrap();
    let applied = tree.applied().unwrap_or(0);
    assert_eq!(tree.flushed().unwrap_or(0), applied);
    assert_content(&tree.snapshot(), &model(applied));
    tree.verify().unwrap();
    applied
}

#[test]
fn leftovers_of_a_crash_are_removed_on_opening() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(dir.path(), small()).unwrap();
    apply(&tree, 1);
    tree.close().unwrap();
    let leftovers = [dir.path().join("tables/999"), dir.path().join("v99"), dir.path().join(".tmpAbCdEf")];
    leftovers.iter().for_each(|path| std::fs::write(path, b"half a file").unwrap());
    assert_eq!(check(dir.path()), 1);
    assert!(leftovers.iter().all(|path| !path.exists()));
}
