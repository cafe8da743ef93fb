//! Nodes on the engines of a cluster, whose addresses the environment has (`cargo xtask engines up` starts some). Each test has a keyspace, a
//! topic and a database of its own, and mostly waits: they run side by side.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::process::Command;

mod copies;
mod misconfigured;
#[path = "../support/node.rs"]
mod node;
#[path = "../wire/profile.rs"]
mod profile;
mod reopened;
mod secured;
mod several_nodes;
mod shards;
mod unparked;

/// For a call that comes to an end: a start that is not refused goes on for ever.
fn dunlin() -> Command {
    let mut command = Command::new("timeout");
    command.args(["120", env!("CARGO_BIN_EXE_dunlin")]);
    command
}
