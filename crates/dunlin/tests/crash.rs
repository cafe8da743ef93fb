//! A process that is killed under load loses nothing that it acknowledged and doubles nothing that was retried.
//!
//! `cargo xtask crash --rounds 500` does more rounds.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]
#![allow(clippy::print_stdout, reason = "each round tells what it did")]

mod support;

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Write as _},
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use dunlin_app::{AppError, Destination};
use dunlin_model::{Outcome, UserId, VisibilityChange};
use support::{add_users, assert_right, digest_of_replay, direct, everything, open, send, text_to, user};

const SENDERS: usize = 24;
const ROUNDS: u64 = 30;
/// After so many rounds in a folder its state is compared with one made from the log alone, and the next round begins in a new one: everything
/// is read back after each round, so a folder that only grew would take most of the time.
const ROUNDS_IN_FOLDER: u64 = 10;

const CHILD_DIR: &str = "DUNLIN_CRASH_DIR";
const CHILD_NEXT: &str = "DUNLIN_CRASH_NEXT";
const CHILD_LOAD: &str = "DUNLIN_CRASH_LOAD";

/// What the killed process was doing, in turns: everyone waits for each outcome and does this and that; nobody waits, so that the projector
/// falls behind and judges ahead; one sender is alone, and writes the log by itself.
const LOADS: [&str; 3] = ["talk", "flood", "alone"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_under_load_loses_and_doubles_nothing() {
    if std::env::var_os(CHILD_DIR).is_some() {
        return;
    }
    let rounds = std::env::var("DUNLIN_CRASH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let mut acked_in_all = 0;
    for first in (0..rounds).step_by(ROUNDS_IN_FOLDER as usize) {
        acked_in_all += kill_again_and_again(first..rounds.min(first + ROUNDS_IN_FOLDER)).await;
    }
    assert!(acked_in_all > rounds, "the load was no load");
}

/// In one folder. Gives how many messages were acknowledged.
async fn kill_again_and_again(rounds: Range<u64>) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    add_users(&open(dir.path()).await, &senders()).await;
    let mut acked = vec![0; SENDERS]; // How many messages of each sender were acknowledged.
    for round in rounds {
        let load = LOADS[usize::try_from(round).unwrap() % LOADS.len()];
        let told = run_and_kill(dir.path(), &acked, load, random(400));
        for (sender, number) in told {
            acked[sender] = acked[sender].max(number + 1);
        }
        let engine = open(dir.path()).await;
        let landed = verify(&engine, &acked).await;
        assert_right(&engine).await;
        println!("round {round}, {load}: {landed} messages");
    }
    let state = open(dir.path()).await.folder.store.digest().unwrap();
    assert_eq!(state, digest_of_replay(dir.path()).await, "the state is what the log says");
    acked.iter().sum()
}

/// Every sender's messages are 0, 1, 2 … in this order, each once, at least up to the last acknowledged one.
async fn verify(engine: &dunlin::engine::Engine, acked: &[u64]) -> usize {
    let senders = senders();
    let mut by_sender: HashMap<UserId, Vec<String>> = HashMap::new();
    let mut landed = 0;
    for number in 0..SENDERS {
        let conversation = direct(&senders[number], &partner(&senders, number));
        for (_, sender, client_id) in everything(&*engine.app.store, conversation).await {
            landed += 1;
            by_sender.entry(sender.unwrap()).or_default().push(client_id.as_str().to_owned());
        }
    }
    for (number, sender) in senders.iter().enumerate() {
        let found = by_sender.remove(sender).unwrap_or_default();
        let expected: Vec<String> = (0..found.len()).map(|number| number.to_string()).collect();
        assert_eq!(found, expected, "messages of {sender}");
        assert!(found.len() as u64 >= acked[number], "{sender} was told of {}, {} are there", acked[number], found.len());
    }
    landed
}

/// Starts the load in a process of its own and kills it after a while; gives what it had acknowledged by then.
fn run_and_kill(dir: &Path, next: &[u64], load: &str, after_ms: u64) -> Vec<(usize, u64)> {
    let next: Vec<String> = next.iter().map(u64::to_string).collect();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["load", "--exact", "--nocapture"])
        .env(CHILD_DIR, dir)
        .env(CHILD_NEXT, next.join(","))
        .env(CHILD_LOAD, load)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut told = Vec::new();
    let parse = |line: &str| {
        let (sender, number) = line.strip_prefix("acked ")?.split_once(' ')?;
        Some((sender.parse().ok()?, number.parse().ok()?))
    };
    // The clock starts with the first acknowledgement: starting up is not what is tested.
    for line in lines.by_ref() {
        if let Some(first) = parse(&line.unwrap()) {
            told.push(first);
            break;
        }
    }
    assert!(!told.is_empty(), "the load did not start");
    let id = child.id();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(after_ms));
        child.kill().expect("the load runs until it is killed");
        child.wait().expect("a killed process ends")
    });
    told.extend(lines.map_while(Result::ok).filter_map(|line| parse(&line)));
    assert!(!killer.join().unwrap().success(), "process {id} was killed, it did not end by itself");
    told
}

/// The load: not a test of its own, but what the test above runs in a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let next: Vec<u64> = std::env::var(CHILD_NEXT).unwrap().split(',').map(|number| number.parse().unwrap()).collect();
    let load = std::env::var(CHILD_LOAD).unwrap();
    let (flood, count) = (load == "flood", if load == "alone" { 1 } else { SENDERS });
    let engine = open(&PathBuf::from(dir)).await;
    let senders = senders();
    let mut tasks = Vec::new();
    for (number, next) in next.into_iter().enumerate().take(count) {
        let (app, sender, to) = (engine.app.clone(), senders[number].clone(), partner(&senders, number));
        tasks.push(tokio::spawn(async move {
            // The first may be in the log already, from before the kill: then this is a retry.
            for message in next.. {
                let text = "x".repeat(usize::try_from(message * 37 % 700).unwrap() + 1);
                if flood {
                    send_soon(&app, &sender, &to, &message.to_string(), &text).await;
                    acked(number, message);
                    continue;
                }
                let outcome = send(&app, &sender, &to, &message.to_string(), &text).await;
                let (Outcome::Accepted(accepted) | Outcome::Duplicate(accepted)) = outcome else { panic!("{outcome:?}") };
                acked(number, message);
                bustle(&app, &sender, &to, message, accepted.seq).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

fn acked(sender: usize, message: u64) {
    std::io::stdout().lock().write_all(format!("acked {sender} {message}\n").as_bytes()).unwrap();
}

/// Until it is in the log.
async fn send_soon(app: &dunlin_app::App, sender: &UserId, to: &UserId, client_id: &str, text: &str) {
    while let Err(error) = app.send_soon(text_to(Destination::User(to.clone()), sender, client_id, text)).await {
        assert!(matches!(error, AppError::Busy), "send failed: {error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What people do besides sending.
async fn bustle(app: &dunlin_app::App, sender: &UserId, to: &UserId, message: u64, seq: dunlin_model::Seq) {
    let conversation = direct(sender, to);
    let text = |text| dunlin_model::Content::text(text).unwrap();
    let done = match message % 8 {
        1 => app.edit(sender, conversation, seq, text("edited")).await,
        2 => app.delete_for_everyone(sender, conversation, seq).await,
        3 => app.react(to, conversation, seq, dunlin_model::Emoji::parse("👍").unwrap(), true).await,
        4 => app.mark_read(to, conversation, seq).await,
        5 => app.delete_for_me(to, conversation, seq).await,
        6 => app.set_visibility(to, conversation, VisibilityChange::Archive).await,
        7 => app.set_visibility(sender, conversation, VisibilityChange::Delete).await,
        _ => return,
    };
    done.expect("a change of what is there");
}

fn senders() -> Vec<UserId> {
    (0..SENDERS).map(|number| user(&format!("user-{number}"))).collect()
}

/// Everyone writes to the next one, so every user has two conversations and every conversation one sender.
fn partner(senders: &[UserId], number: usize) -> UserId {
    senders[(number + 1) % SENDERS].clone()
}

fn random(below: u64) -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    u64::from_le_bytes(bytes) % below
}
