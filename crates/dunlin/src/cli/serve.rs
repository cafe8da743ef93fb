//! `dunlin serve`

use std::{net::SocketAddr, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use clap::Args;
use dunlin::engine::EngineOptions;
use tokio::net::TcpListener;
use tracing::info;

use super::{Data, caught_up, runtime};

#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    data: Data,
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7400")]
    listen: SocketAddr,
}

impl Serve {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        runtime()?.block_on(async {
            let listener = TcpListener::bind(self.listen).await.with_context(|| format!("failed to listen on {}", self.listen))?;
            let engine = Arc::new(self.data.open(EngineOptions::default())?);
            caught_up(&engine).await?;
            let (outcomes, store) = (Arc::clone(&engine.app.outcomes), Arc::clone(&engine.app.store));
            let sweeping = tokio::spawn(async move { outcomes.sweep(&*store).await });
            println!("dunlin serves {} on http://{}/healthz", self.data.data.display(), listener.local_addr()?);
            let troubles = Arc::clone(&engine);
            let router = dunlin_api::router(Arc::new(move || troubles.troubles()));
            axum::serve(listener, router).with_graceful_shutdown(stopped()).await.context("failed to serve")?;
            info!("stopping");
            sweeping.abort();
            let engine = Arc::into_inner(engine).context("a request still holds the engine")?;
            tokio::task::spawn_blocking(move || engine.close()).await?.context("failed to flush")?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Ctrl-C or SIGTERM.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminated) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}
