//! What can be asked of the binary, one command a file.

mod bench;
mod check;
mod config;
mod key;
mod log;
mod rebuild;
mod schema;
mod serve;
mod shards;
mod token;
mod unpark;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use dunlin::engine::{Engine, EngineOptions};
use indicatif::{ProgressBar, ProgressStyle};

/// A messenger backend in one binary.
#[derive(Parser)]
#[command(version, propagate_version = true, after_help = "Logs go to stderr; DUNLIN_LOG=debug says more.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a data folder over HTTP; the first start makes it, and says how to call it
    Serve(serve::Serve),
    /// Sign a token for a user
    ///
    /// With the data folder's shared secret, while the server runs or not. The token goes to stdout.
    Token(token::Token),
    /// Server keys, by which back ends call: make, list, revoke
    ///
    /// On the data folder, or the databases that the configuration names, while the server runs or not. Running servers hear of it within seconds.
    #[command(subcommand)]
    Key(key::Key),
    /// The configuration: what it comes to, and whether it is right
    #[command(subcommand)]
    Config(config::Config),
    /// The tables in Cassandra and PostgreSQL and the topic in Kafka: make, check, print
    #[command(subcommand)]
    Schema(schema::Schema),
    /// The log of a cluster: go on after it was lost
    #[command(subcommand)]
    Log(log::Log),
    /// The parts that users are divided into, and the PostgreSQL databases that hold them: list, move
    #[command(subcommand)]
    Shards(shards::Shards),
    /// Verify a data folder, or what a cluster's log has become: every conversation, inbox, count and index against the messages
    ///
    /// A data folder is checked without its server, a cluster at any time. Exit code 0: all is right; 1: something is not, and it says what; 2: could not tell.
    Check(check::Check),
    /// Make the state of a data folder anew from its log
    ///
    /// Runs without the server. Refused if the log no longer holds everything (it is trimmed after a week).
    Rebuild(rebuild::Rebuild),
    /// Have events judged after all that an older version could not read, and what was set aside with them
    ///
    /// A data folder without its server, a cluster while its nodes run. Exit code 1: some of it stays parked.
    Unpark(unpark::Unpark),
    /// Measure: the server over HTTP, or the engine alone
    Bench(bench::Bench),
}

impl Cli {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Token(token) => token.run(),
            Command::Key(key) => key.run(),
            Command::Config(config) => config.run(),
            Command::Schema(schema) => schema.run(),
            Command::Log(log) => log.run(),
            Command::Shards(shards) => shards.run(),
            Command::Check(check) => check.run(),
            Command::Rebuild(rebuild) => rebuild.run(),
            Command::Unpark(unpark) => unpark.run(),
            Command::Bench(bench) => bench.run(),
        }
    }
}

/// Which configuration, and the folder in it.
#[derive(Args)]
struct Configured {
    /// A configuration file; `dunlin config print` shows every key
    #[arg(long, value_name = "FILE", env = "DUNLIN_CONFIG")]
    config: Option<PathBuf>,
    /// The data folder [default: dunlin-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Configured {
    fn load(&self, mut flags: Vec<(&'static str, String)>) -> anyhow::Result<(dunlin::config::Config, toml::Table)> {
        if let Some(data) = &self.data {
            flags.push(("server.data", data.to_str().context("the data folder's name must be UTF-8")?.to_owned()));
        }
        dunlin::config::Config::load(self.config.as_deref(), std::env::vars(), &flags)
    }

    /// For commands that work on a folder that must be there (opening would make one) and leave its log as it is.
    fn existing(&self) -> anyhow::Result<(PathBuf, EngineOptions)> {
        let (config, _) = self.load(Vec::new())?;
        anyhow::ensure!(config.is_embedded(), "this works on a data folder, and engines.log is kafka");
        let data = config.server.data.clone();
        let there = data.join("FORMAT").exists();
        anyhow::ensure!(there, "{} is not a data folder of dunlin (it has no FORMAT file); name one with --data", data.display());
        Ok((data, EngineOptions { log_retention: None, ..EngineOptions::configured(&config)? }))
    }
}

/// A bar on a terminal, nothing elsewhere.
fn progress_bar(of: u64, what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:40} {human_pos}/{human_len} {per_sec} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(of).with_style(style).with_message(what)
}

async fn caught_up(engine: &Engine) -> anyhow::Result<()> {
    let bar = progress_bar(0, "replaying the log");
    let done = engine.caught_up(|done, of| {
        bar.set_length(of);
        bar.set_position(done);
    });
    let done = done.await;
    bar.finish_and_clear();
    done.map_err(|trouble| anyhow::anyhow!("the log could not be replayed: {trouble}"))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    // A second one even on one core: while the first waits for the disk, it waits for the network.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().context("failed to start")
}

/// To stdout. Whoever reads it may stop before its end.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("failed to write to stdout"),
        _ => Ok(()),
    }
}
