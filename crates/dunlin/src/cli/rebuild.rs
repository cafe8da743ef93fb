//! `dunlin rebuild`

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use dunlin::engine::Engine;
use dunlin_embedded::Folder;

use super::{Configured, caught_up, runtime};

#[derive(Args)]
pub struct Rebuild {
    #[command(flatten)]
    configured: Configured,
}

impl Rebuild {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (data, options) = self.configured.existing()?;
        Folder::set_state_aside(&data, &options.folder).context("the state was left as it is")?;
        runtime()?.block_on(async {
            let engine = Engine::open(&data, options)?;
            caught_up(&engine).await?;
            let events = engine.progress().next.0;
            tokio::task::spawn_blocking(move || {
                engine.folder.flush().context("failed to flush the new state")?;
                engine.folder.drop_state_aside().context("failed to remove the old state")?;
                engine.close().context("failed to close")
            })
            .await??;
            println!("made the state of {} anew from {events} events", data.display());
            Ok(ExitCode::SUCCESS)
        })
    }
}
