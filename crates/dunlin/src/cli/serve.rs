//! `dunlin serve`

use std::{future::IntoFuture as _, net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Args;
use dunlin::engine::EngineOptions;
use tokio::{net::TcpListener, sync::watch};
use tracing::{info, warn};

use super::{Data, caught_up, runtime};

/// How long requests may go on after a signal to stop.
const REQUESTS_END_MAX: Duration = Duration::from_secs(5);

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
            println!("dunlin serves {} on http://{}/healthz", self.data.data.display(), listener.local_addr()?);
            let troubles = Arc::clone(&engine);
            let router = dunlin_api::router(Arc::new(move || troubles.troubles()));
            serve(listener, router).await?;
            info!("stopping");
            // Whatever request still holds the engine, everything is put into files; then the process ends.
            tokio::task::spawn_blocking(move || match Arc::try_unwrap(engine) {
                Ok(engine) => engine.close(),
                Err(engine) => engine.folder.flush(),
            })
            .await?
            .context("failed to flush")?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Until a signal; then requests have a while to end.
async fn serve(listener: TcpListener, router: axum::Router) -> anyhow::Result<()> {
    let (stop, mut stopping) = watch::channel(false);
    let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
        stopped().await;
        // Whoever waits for it may be gone already.
        let _ = stop.send(true);
    });
    let late = async {
        // An error means that serving has ended by itself.
        if stopping.wait_for(|stop| *stop).await.is_ok() {
            tokio::time::sleep(REQUESTS_END_MAX).await;
        }
    };
    tokio::select! {
        served = serving.into_future() => served.context("failed to serve"),
        () = late => {
            warn!("requests did not end in time; they are cut off");
            Ok(())
        }
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
