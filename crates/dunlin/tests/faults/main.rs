//! Failures for real, under load: something is killed, stopped or away for a while, then healed. Afterwards everything that was acknowledged
//! is there once, in order, and counted right.
//!
//! `cargo xtask faults` starts engines of which one can be lost and runs all rows; three of them are part of `cargo xtask test`. One row at a
//! time: they share the engines, and each hurts them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that can't go on has failed; these have something to tell")]

mod cassandra;
mod engines;
mod kafka;
mod ledger;
mod load;
#[path = "../support/node.rs"]
mod node;
mod nodes;
mod postgres;
#[path = "../wire/profile.rs"]
mod profile;
mod redis;
mod report;
mod row;
mod site;
mod verify;
