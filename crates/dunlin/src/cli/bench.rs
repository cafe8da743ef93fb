//! `dunlin bench`

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};

/// Measures the server over HTTP, with the engine alone beside it; `bench engine` measures the engine in every way.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    http: dunlin::bench::HttpBench,
}

#[derive(Subcommand)]
enum What {
    /// The disk, the log, and log + projector: throughput, latencies, memory, replay and reads
    Engine(dunlin::bench::EngineBench),
    /// A node on Kafka, Cassandra and Redis, with the drivers alone beside it: rates, latencies, CPU by process, cost of long and of many conversations
    Cluster(dunlin::bench::ClusterBench),
    /// The server that does nothing but sync, for comparison; started by `bench`
    #[command(hide = true)]
    Bare {
        #[arg(long)]
        dir: PathBuf,
    },
}

impl Bench {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            None => dunlin::bench::http(self.http),
            Some(What::Engine(engine)) => dunlin::bench::engine(engine),
            Some(What::Cluster(cluster)) => dunlin::bench::cluster(cluster),
            Some(What::Bare { dir }) => {
                dunlin_bench::http::serve_bare(&dir, |address| println!("http://{address}"))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
