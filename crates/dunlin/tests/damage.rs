//! A data folder that was damaged is refused with a sentence that says where, or reads exactly right. Never a panic, never wrong data.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use dunlin::engine::Engine;
use dunlin_embedded::{Folder, OpenError};
use support::{add_users, assert_right, copy_folder, open, options, send, user};

/// A folder with some hundred messages, closed in good order, and its digest.
async fn sample(dir: &Path) -> (u64, u32) {
    let engine = open(dir).await;
    let users: Vec<_> = (0..6).map(|number| user(&format!("user-{number}"))).collect();
    add_users(&engine, &users).await;
    for number in 0..600 {
        let (from, to) = (&users[number % 6], &users[(number * 7 + 1) % 6]);
        send(&engine.app, from, to, &number.to_string(), &format!("message {number} {}", "text ".repeat(number % 60))).await;
    }
    let digest = engine.folder.store.digest().unwrap();
    engine.close().unwrap();
    digest
}

/// What the folder is like after some damage: refused, or right, or not.
enum Found {
    Refused(String),
    Digest((u64, u32)),
}

async fn look(dir: &Path) -> Found {
    let mut options = options();
    options.folder.verify_log = true;
    let engine = match Engine::open(dir, options) {
        Ok(engine) => engine,
        Err(error) => return Found::Refused(error.to_string()),
    };
    if let Err(trouble) = engine.caught_up(|_, _| {}).await {
        return Found::Refused(trouble);
    }
    if let Err(error) = engine.folder.verify_state() {
        return Found::Refused(error.to_string());
    }
    match engine.folder.store.digest() {
        Ok(digest) => Found::Digest(digest),
        Err(error) => Found::Refused(error.to_string()),
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

type Harm = (&'static str, fn(&Path));

const HARMS: [Harm; 6] = [
    ("a flipped bit near the beginning", |file| change(file, |bytes| flip(bytes, 1, 20))),
    ("a flipped bit in the middle", |file| change(file, |bytes| flip(bytes, 1, 2))),
    ("zeros in the middle", |file| {
        change(file, |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle..].iter_mut().take(64).for_each(|byte| *byte = 0);
        })
    }),
    ("half of it cut off", |file| change(file, |bytes| bytes.truncate(bytes.len() / 2))),
    ("all of it cut off", |file| change(file, Vec::clear)),
    ("the file gone", |file| fs::remove_file(file).unwrap()),
];

fn change(file: &Path, harm: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).unwrap();
    harm(&mut bytes);
    fs::write(file, bytes).unwrap();
}

fn flip(bytes: &mut [u8], numerator: usize, denominator: usize) {
    let at = bytes.len() * numerator / denominator;
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 0x10;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_files_are_refused_or_read_right() {
    let whole = tempfile::tempdir().unwrap();
    let right = sample(whole.path()).await;
    let mut refused = 0;
    for file in files(whole.path()) {
        let name = file.strip_prefix(whole.path()).unwrap().to_owned();
        if name == Path::new("LOCK") || name.starts_with("directory.sqlite") || name.starts_with("blobs") {
            continue; // Nothing is in LOCK; the directory has its own tests and is not part of the state.
        }
        for (harm_name, harm) in HARMS {
            let dir = tempfile::tempdir().unwrap();
            copy_folder(whole.path(), dir.path());
            harm(&dir.path().join(&name));
            match look(dir.path()).await {
                Found::Refused(why) => {
                    refused += 1;
                    assert!(why.contains(&*dir.path().to_string_lossy()) || why.contains("log"), "{}: {harm_name}: {why}", name.display());
                }
                Found::Digest(digest) => assert_eq!(digest, right, "{}: {harm_name}", name.display()),
            }
        }
    }
    assert!(refused > 10, "only {refused} damages were noticed");
}

#[tokio::test]
async fn a_second_process_is_kept_out() {
    let dir = tempfile::tempdir().unwrap();
    let _engine = open(dir.path()).await;
    assert!(matches!(Engine::open(dir.path(), options()), Err(OpenError::InUse(_))));
}

#[tokio::test]
async fn an_unknown_format_is_refused_and_named() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await);
    fs::write(dir.path().join("FORMAT"), "dunlin 99\n").unwrap();
    let Err(error) = Engine::open(dir.path(), options()) else { panic!("opened") };
    assert!(error.to_string().contains("FORMAT") && error.to_string().contains("99"), "{error}");
}

#[tokio::test]
async fn a_folder_of_someone_else_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.txt"), "mine").unwrap();
    assert!(matches!(Engine::open(dir.path(), options()), Err(OpenError::NotOurs(_))));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the file and our lock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_state_is_made_again_and_a_lost_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let right = sample(dir.path()).await;
    fs::remove_dir_all(dir.path().join("state")).unwrap();
    let engine = open(dir.path()).await;
    assert_eq!(engine.folder.store.digest().unwrap(), right);
    assert_right(&engine).await;
    engine.close().unwrap();
    fs::remove_dir_all(dir.path().join("log")).unwrap();
    assert!(matches!(Engine::open(dir.path(), options()), Err(OpenError::NoLog(_))));
    fs::create_dir(dir.path().join("log")).unwrap();
    assert!(matches!(Engine::open(dir.path(), options()), Err(OpenError::StateAhead { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_nowhere_else_is_not_made_anew_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    let path = |name| dir.path().join(name);
    fs::rename(path("directory.sqlite"), path("kept")).unwrap();
    assert!(matches!(Engine::open(dir.path(), options()), Err(OpenError::NoDirectory(_))));
    fs::write(path("directory.sqlite"), b"").unwrap();
    assert!(matches!(Engine::open(dir.path(), options()), Err(OpenError::NoDirectory(_))));
    fs::rename(path("kept"), path("directory.sqlite")).unwrap();
    open(dir.path()).await.close().unwrap();
    fs::remove_dir_all(path("log")).unwrap();
    fs::rename(path("state"), path("state.old")).unwrap();
    assert!(matches!(Engine::open(dir.path(), options()), Err(OpenError::NoLog(_))), "a rebuild was cut off, and the log is lost");
    fs::remove_dir_all(path("state.old")).unwrap();
    assert!(matches!(Engine::open(dir.path(), options()), Err(OpenError::NoLog(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_is_set_aside_only_for_a_log_that_can_be_replayed_and_is_kept_until_then() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let (ann, bea) = (user("ann"), user("bea"));
    add_users(&engine, &[ann.clone(), bea.clone()]).await;
    for number in 0..80 {
        send(&engine.app, &ann, &bea, &number.to_string(), &"x".repeat(40_000)).await;
    }
    let right = engine.folder.store.digest().unwrap();
    engine.close().unwrap();
    let mut segments = files(&dir.path().join("log"));
    segments.sort();
    assert!(segments.len() > 1, "the first is closed");
    let first = segments.swap_remove(0);
    let set_aside = || Folder::set_state_aside(dir.path(), &options().folder);
    let bytes = fs::read(&first).unwrap();
    change(&first, |bytes| flip(bytes, 1, 3));
    assert!(matches!(set_aside(), Err(OpenError::Log(_))));
    assert!(dir.path().join("state").exists() && !dir.path().join("state.old").exists(), "it is left as it is");
    fs::write(&first, bytes).unwrap();
    set_aside().unwrap();
    fs::create_dir(dir.path().join("state")).unwrap(); // What a rebuild made that was cut off.
    set_aside().unwrap();
    fs::rename(dir.path().join("state.old"), dir.path().join("state")).unwrap();
    assert_eq!(open(dir.path()).await.folder.store.digest().unwrap(), right, "the whole one was kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_of_another_folder_is_noticed() {
    let (mine, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    sample(mine.path()).await;
    sample(other.path()).await;
    fs::remove_dir_all(mine.path().join("log")).unwrap();
    copy_folder(&other.path().join("log"), &mine.path().join("log"));
    let engine = Engine::open(mine.path(), options()).unwrap();
    let trouble = engine.caught_up(|_, _| {}).await.unwrap_err();
    assert!(trouble.contains("not the one"), "{trouble}");
    drop(engine);
    let check = Command::new(env!("CARGO_BIN_EXE_dunlin")).args(["check", "--data"]).arg(mine.path()).output().unwrap();
    assert_eq!(check.status.code(), Some(1), "it is wrong, not unknown: {}", String::from_utf8_lossy(&check.stderr));
}
