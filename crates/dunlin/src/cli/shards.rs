//! `dunlin shards`

use std::{process::ExitCode, time::Instant};

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use dunlin::{cluster, config::DirectoryEngine};
use dunlin_postgres::{MoveError, Shard, Step};

use super::{Configured, runtime};

#[derive(Subcommand)]
pub enum Shards {
    /// Which database holds which shards
    List(List),
    /// Move a shard to another database; repeatable, and so goes on where it was interrupted
    ///
    /// Nodes go on meanwhile. Reads are served throughout, writes to this shard wait while the last changes are copied. All nodes must have the
    /// other database in their configuration. To where it comes from, a shard that is on its way is taken back.
    Move(Move),
}

#[derive(Args)]
pub struct List {
    #[command(flatten)]
    configured: Configured,
}

#[derive(Args)]
pub struct Move {
    #[command(flatten)]
    configured: Configured,
    /// Its number, 0 to 63
    #[arg(value_name = "SHARD", value_parser = shard)]
    shard: Shard,
    /// The database, by its name in the configuration
    #[arg(long, value_name = "NAME")]
    to: String,
}

fn shard(text: &str) -> Result<Shard, String> {
    text.parse().ok().and_then(Shard::numbered).ok_or_else(|| "must be 0 to 63".to_owned())
}

impl Shards {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        runtime()?.block_on(async {
            match self {
                Shards::List(list) => list.run().await,
                Shards::Move(to) => to.run().await,
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn open(configured: &Configured) -> anyhow::Result<dunlin_postgres::Shards> {
    let (config, _) = configured.load(Vec::new())?;
    ensure!(config.engines.directory == DirectoryEngine::Postgres, "engines.directory is sqlite, which has no shards");
    Ok(dunlin_postgres::Shards::open(&cluster::postgres(&config)?).await?)
}

impl List {
    async fn run(self) -> anyhow::Result<()> {
        let (resting, others) = open(&self.configured).await?.list().await?;
        println!("{:<32} shards", "database");
        for (database, shards) in resting {
            println!("{database:<32} {shards}");
        }
        for placed in others {
            let (shard, database, peer) = (placed.shard, placed.database, placed.peer.unwrap_or_default());
            match placed.phase {
                "active" => println!("shard {shard} is in {database} and is being copied to {peer}"),
                "frozen" => println!(
                    "shard {shard} moves from {database} to {peer} and can only be read: if nobody moves it, `dunlin shards move {shard} --to {peer}`"
                ),
                "behind" => println!("shard {shard} has a copy in {database}, which was made from {peer} for a move"),
                "ready" => println!(
                    "shard {shard} arrives in {database} and can only be read: if nobody moves it, `dunlin shards move {shard} --to {database}`"
                ),
                _ => println!("shard {shard} was in {database} before it moved to {peer}"),
            }
        }
        Ok(())
    }
}

impl Move {
    async fn run(self) -> anyhow::Result<()> {
        let shards = open(&self.configured).await?;
        let (mut frozen_at, mut arrived_at) = (None, None);
        let tell = |step| {
            match step {
                Step::Freeze => frozen_at = Some(Instant::now()),
                Step::Arrive => arrived_at = Some(Instant::now()),
                _ => {}
            }
            let what = match step {
                Step::Follow => "changes are noted; copying",
                Step::Copy => "copied, and counts and checksums agree",
                Step::Freeze => "writes wait",
                Step::Finish => "what has changed meanwhile is copied, and agrees",
                Step::Leave => "reads go to the copy",
                Step::Arrive => "writes go on",
                Step::Clear => "the old tables are gone",
                Step::Done => return,
            };
            eprintln!("{what}");
        };
        match shards.move_to(self.shard, &self.to, tell).await {
            Err(error @ MoveError::NoDatabase(_)) => return Err(error.into()),
            moved => moved.context("the move is not complete; the same command goes on with it")?,
        }
        // None of a move that another process had begun.
        let waited = frozen_at.zip(arrived_at).map(|(from, to)| (to - from).as_millis());
        let waited = waited.map(|ms| format!("; writes to it waited for {ms} ms")).unwrap_or_default();
        println!("shard {} is in {}{waited}", self.shard, self.to);
        Ok(())
    }
}
