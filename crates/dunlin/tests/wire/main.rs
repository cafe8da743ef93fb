//! The server as a process, called over the wire. What is tested here holds on any profile: a send that is not settled yet (202) is waited for by its token.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod bad_input;
mod command_line;
mod documents;
mod matrix;
mod messaging;
mod people;
mod profile;
mod reading;
mod repeating;
mod server;
mod tokens;
