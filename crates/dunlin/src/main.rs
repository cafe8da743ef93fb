//! `dunlin`: the command line.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks to its user")]

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("DUNLIN_LOG")
                .unwrap_or_else(|_| "info,lsm_tree=warn,scylla=error,librdkafka=warn".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    match cli.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("dunlin: {error:#}");
            ExitCode::from(2)
        }
    }
}
