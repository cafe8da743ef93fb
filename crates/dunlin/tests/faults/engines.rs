//! Hurts and heals the engines that `cargo xtask engines up` has started.

use std::{env, process::Command};

/// Without a warning. Gives the names of what was killed: whoever names a role does not know them.
pub async fn kill(names: &[&str]) -> Vec<String> {
    run(&[&["kill"], names].concat()).await
}

/// Returns when they answer again.
pub async fn start(names: &[&str]) {
    run(&[&["start"], names].concat()).await;
}

/// The standby of PostgreSQL takes over.
pub async fn promote() {
    run(&["promote"]).await;
}

/// Whether there is more than one of each.
pub fn are_several() -> bool {
    env::var("DUNLIN_TEST_CASSANDRA").is_ok_and(|nodes| nodes.contains(','))
}

async fn run(arguments: &[&str]) -> Vec<String> {
    let xtask = env::var_os("DUNLIN_XTASK").expect("DUNLIN_XTASK is the program of `cargo xtask`, which sets it");
    let line = arguments.join(" ");
    let mut command = Command::new(xtask);
    command.arg("engines").args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().expect("xtask can be started");
    assert!(output.status.success(), "engines {line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}
