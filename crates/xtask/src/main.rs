//! The project's own commands, run as `cargo xtask <command>`.
//!
//! This file only dispatches; `args` says what can be asked for, and each command has its own module.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool reports on its own streams")]

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

mod args;
mod engines;
mod faults;
mod needs;
mod schemathesis;
mod test;
mod tidy;
mod workspace;

use args::Command;

fn main() -> ExitCode {
    let command = match args::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(message) => {
            eprintln!("xtask: {message}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    let outcome = match command {
        Command::Help => {
            println!("{}", args::HELP);
            Ok(())
        }
        Command::Test(request) => test::run(&root(), &request),
        Command::Crash { rounds } => test::crash(&root(), rounds),
        Command::Schemathesis { examples } => schemathesis::run(&root(), examples),
        Command::Faults(request) => faults::run(&root(), &request),
        Command::Engines(request) => engines::run(&root(), request),
        Command::Tidy => tidy::run(&root()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace's Cargo.toml, wherever the command was called from.
fn root() -> PathBuf {
    let own_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    own_folder.ancestors().nth(2).expect("this crate lies at crates/xtask").to_path_buf()
}
