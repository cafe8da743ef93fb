//! `dunlin log`

use std::process::ExitCode;

use anyhow::ensure;
use clap::{Args, Subcommand};
use dunlin::life::Reopening;

use super::{Configured, runtime};

#[derive(Subcommand)]
pub enum Log {
    /// Go on with another log after the old one was lost or replaced; says what it will do, and asks first
    ///
    /// Refused while nodes run, and while the log is still the one that the state was made from.
    Reopen(Reopen),
}

#[derive(Args)]
pub struct Reopen {
    #[command(flatten)]
    configured: Configured,
    /// Do it without asking
    #[arg(long)]
    yes: bool,
}

impl Log {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Log::Reopen(Reopen { configured, yes }) = self;
        let (config, _) = configured.load(Vec::new())?;
        ensure!(!config.is_embedded(), "engines.log is embedded: what its data folder lost, `dunlin rebuild` or a backup brings back");
        runtime()?.block_on(async {
            let reopening = Reopening::plan(&config).await?;
            println!("{reopening}");
            if !yes && !is_confirmed() {
                println!("nothing was changed");
                return Ok(ExitCode::FAILURE);
            }
            let life = reopening.begin().await?;
            println!("epoch {} has begun: start the nodes", life.epoch.0);
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn is_confirmed() -> bool {
    println!("type `yes` to go on:");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).is_ok() && answer.trim() == "yes"
}
