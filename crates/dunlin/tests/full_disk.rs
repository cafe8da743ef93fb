//! A full disk: sends are refused, nothing acknowledged is lost, and it goes on by itself once there is room again.
//!
//! Needs a file system of its own with a limit: a tmpfs that root may mount. Elsewhere the log's and the tree's own tests stand in, which
//! inject the failure below their files.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod support;

use std::{fs, path::Path, process::Command, time::Duration};

use dunlin_app::{App, Destination};
use dunlin_model::{Outcome, UserId};
use dunlin_ports::StoreError;
use support::{add_users, assert_right, digest_of_replay, direct, everything, open, text_to, user};

/// A small file system that goes when this does.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(megabytes: u32) -> Option<SmallDisk> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the last file may just be closing.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_sends_and_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mount(48) else {
        println!("no file system may be mounted here: not run");
        return;
    };
    let folder = disk.path().join("data");
    let engine = open(&folder).await;
    let (ann, bea) = (user("ann"), user("bea"));
    add_users(&engine, &[ann.clone(), bea.clone()]).await;
    let mut sent = 0;
    assert!(send_some(&engine.app, &ann, &bea, &mut sent, 50).await, "there is room at first");

    // Someone else takes what is left.
    let filler = disk.path().join("filler");
    let chunk = vec![1; 64 << 10];
    let mut file = fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut file, &chunk).is_ok() {}
    let mut refused = false;
    for _ in 0..400 {
        refused = !send_some(&engine.app, &ann, &bea, &mut sent, 20).await;
        if refused {
            break;
        }
    }
    assert!(refused, "a full disk is noticed, after {sent} messages");
    let conversation = direct(&ann, &bea);
    let there = everything(&*engine.app.store, conversation).await.len();
    assert!(there >= sent, "{sent} were acknowledged, {there} are there");

    drop(file);
    fs::remove_file(&filler).unwrap();
    let mut goes_on = false;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        goes_on = send_some(&engine.app, &ann, &bea, &mut sent, 20).await;
        if goes_on {
            break;
        }
    }
    assert!(goes_on, "with room again it goes on without a restart");
    assert_right(&engine).await;
    let state = engine.folder.store.digest().unwrap();
    drop(engine);
    assert_eq!(state, digest_of_replay(&folder).await, "the state is what the log says");
    let engine = open(&folder).await;
    let ids: Vec<String> =
        everything(&*engine.app.store, conversation).await.into_iter().map(|(_, _, id)| id.as_str().to_owned()).collect();
    let expected: Vec<String> = (0..ids.len()).map(|number| number.to_string()).collect();
    assert_eq!(ids, expected, "each once, in order");
    assert!(ids.len() >= sent);
}

/// Sends with retries under the same client id; false as soon as the disk refuses.
async fn send_some(app: &App, from: &UserId, to: &UserId, sent: &mut usize, count: usize) -> bool {
    for _ in 0..count {
        let request = text_to(Destination::User(to.clone()), from, &sent.to_string(), &"x".repeat(8_000));
        match app.send(request).await {
            Ok(answer) => match answer.outcome {
                Some(Outcome::Accepted(_) | Outcome::Duplicate(_)) => *sent += 1,
                // Durable in the log, but the state waits for room: not lost, and not visible yet.
                None => return false,
                Some(other) => panic!("{other:?}"),
            },
            Err(dunlin_app::AppError::Store(StoreError::Unavailable(_)) | dunlin_app::AppError::Busy) => return false,
            Err(error) => panic!("{error}"),
        }
    }
    true
}
