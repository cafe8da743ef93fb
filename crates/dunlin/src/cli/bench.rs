//! `dunlin bench`

use std::process::ExitCode;

use clap::Subcommand;

#[derive(Subcommand)]
pub enum Bench {
    /// The disk, the log, and log + projector: throughput, latencies, memory, replay and reads
    Engine(dunlin::bench::EngineBench),
}

impl Bench {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Bench::Engine(engine) => dunlin::bench::engine(engine),
        }
    }
}
