//! A disk that hangs: whoever writes waits for it, and nobody else does.
//!
//! The server runs with a library before libc's that holds each sync back while a file is there.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]
#![cfg(target_os = "linux")]

#[path = "wire/profile.rs"]
mod profile;
#[allow(dead_code, reason = "shared with the wire tests")]
#[path = "wire/server.rs"]
mod server;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use dunlin_client::{
    Client,
    protocol::{Outcome, TokenBody},
};
use server::Server;

/// Says in a second file that somebody waits.
const HANGS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int fdatasync(int file) {
    const char *hold = getenv("HOLD_SYNCS");
    if (hold && access(hold, F_OK) == 0) {
        char waits[4096];
        snprintf(waits, sizeof waits, "%s.waits", hold);
        close(open(waits, O_CREAT | O_WRONLY, 0600));
        while (access(hold, F_OK) == 0) usleep(1000);
    }
    return syscall(SYS_fdatasync, file);
}
"#;

const HUNG: Duration = Duration::from_secs(60);

/// A disk that hangs while this is there.
struct Hold(PathBuf);

impl Hold {
    fn syncs(dir: &Path) -> Hold {
        fs::write(dir.join("hold"), "").unwrap();
        Hold(dir.join("hold"))
    }

    async fn somebody_waits(&self) {
        let waits = self.0.with_extension("waits");
        let seen = async {
            while !waits.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(HUNG, seen).await.expect("a send syncs");
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn library(dir: &Path) -> PathBuf {
    let (source, library) = (dir.join("hangs.c"), dir.join("hangs.so"));
    fs::write(&source, HANGS).unwrap();
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(made.expect("a C compiler is there").success());
    library
}

async fn person(server: &Server, id: &str) -> Client {
    server.client(&server.host().mint_token(id, &TokenBody::default()).await.unwrap().token)
}

/// Waits until it says so.
async fn is_ready(server: &Server, expected: u16) {
    let says = || {
        let asked = Command::new("curl").args(["-s", "-o", "/dev/null", "-w", "%{http_code}", &format!("{}/readyz", server.url)]).output();
        String::from_utf8(asked.unwrap().stdout).unwrap()
    };
    let begun = std::time::Instant::now();
    while says() != expected.to_string() {
        assert!(begun.elapsed() < HUNG, "/readyz never says {expected}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_only_reads_does_not_wait_for_a_disk_that_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let (library, hold) = (library(dir.path()), dir.path().join("hold"));
    let server = Server::with(&[], &[("LD_PRELOAD", library.to_str().unwrap()), ("HOLD_SYNCS", hold.to_str().unwrap())]);
    let (ann, bea) = (person(&server, "ann").await, person(&server, "bea").await);
    for number in 0..20 {
        // Alone each time: then it is the sender's own thread that syncs.
        ann.send("bea", &format!("before {number}"), "hello").await.unwrap();
    }

    for round in 0..3 {
        let held = Hold::syncs(dir.path());
        let (first, second) = (format!("first {round}"), format!("second {round}"));
        let (sender, beside) = (ann.clone(), ann.clone());
        let first = tokio::spawn(async move { sender.send("bea", &first, "hello").await });
        held.somebody_waits().await;
        let second = tokio::spawn(async move { beside.send("bea", &second, "hello").await });
        for number in 0..20 {
            let reading = tokio::time::timeout(HUNG, bea.unread());
            assert!(reading.await.expect("a read is answered while the disk hangs").is_ok(), "{number}");
            let own = server.client("");
            let health = tokio::time::timeout(HUNG, own.status("GET".parse().unwrap(), "/healthz", None::<&()>));
            assert_eq!(health.await.expect("a new connection is answered, too").unwrap(), 200);
        }
        if round == 0 {
            is_ready(&server, 503).await;
        }
        assert!(!first.is_finished() && !second.is_finished(), "nothing is acknowledged before the disk has it");
        let waits = held.0.with_extension("waits");
        drop(held);
        fs::remove_file(waits).unwrap();
        for sent in [first, second] {
            let sent = tokio::time::timeout(HUNG, sent).await.expect("it goes on with the disk").unwrap().unwrap();
            assert_eq!(sent.outcome, Outcome::Accepted);
        }
    }
    is_ready(&server, 200).await;
    assert_eq!(bea.unread().await.unwrap().messages, 26);
}
