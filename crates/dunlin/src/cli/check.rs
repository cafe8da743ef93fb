//! `dunlin check`

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use dunlin::{
    cluster,
    engine::{Engine, EngineOptions},
};
use dunlin_app::check;
use dunlin_ports::MessageStore;

use super::{Configured, caught_up, progress_bar, runtime};

#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    configured: Configured,
}

impl Check {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (config, _) = self.configured.load(Vec::new())?;
        if !config.is_embedded() {
            return runtime()?.block_on(async {
                let store = dunlin_cassandra::Messages::open(cluster::cassandra(&config)?).await.context("the message store")?;
                walk(&store, EngineOptions::configured(&config)?.rules.dedup_window_ms).await
            });
        }
        let (data, mut options) = self.configured.existing()?;
        options.folder.verify_log = true;
        runtime()?.block_on(async {
            let engine = match Engine::open(&data, options) {
                Err(error) if error.is_damage() => return Ok(wrong(&error)),
                engine => engine?,
            };
            // What is out of reach for a while is waited for; what ends the replay is damage.
            if let Err(error) = caught_up(&engine).await {
                return Ok(wrong(&error));
            }
            if let Err(error) = engine.folder.verify_state() {
                return Ok(wrong(&error));
            }
            println!("read every record of the log and every file of the state: all checksums are right");
            walk(&*engine.app.store, engine.app.dedup_window_ms).await
        })
    }
}

async fn walk(store: &dyn MessageStore, dedup_window_ms: u64) -> anyhow::Result<ExitCode> {
    let bar = progress_bar(0, "checking").with_style(indicatif::ProgressStyle::default_spinner());
    let mut told = |report: &check::Report| {
        bar.set_message(format!("checked {} conversations, {} messages", report.conversations, report.messages));
        bar.tick();
    };
    let report = check::check(store, check::Options { dedup_window_ms }, &mut told).await.context("failed to read the state")?;
    bar.finish_and_clear();
    println!("{report}");
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn wrong(what: &dyn std::fmt::Display) -> ExitCode {
    println!("wrong: {what}");
    ExitCode::FAILURE
}
