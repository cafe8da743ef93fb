//! `dunlin serve`

use std::{
    io::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use clap::Args;
use dunlin::{config::Config, dev, node::Node, secrets};
use dunlin_api::{
    Condition, Connections, Gauge, RateLimits,
    auth::{Jwks, JwksSource, Verifier},
};
use dunlin_app::App;
use dunlin_model::{Lease, Millis, Name, Scope, TaskName};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket};
use tracing::{info, warn};

use super::{Configured, caught_up, runtime};

/// A node that dies before it has made the first key is waited for so long.
const FIRST_KEY_LEASE_MS: u64 = 30_000;

#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    configured: Configured,
    /// Where to listen [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// For developers: demo users who have been talking, and tokens without a login at POST /dev/token. Loopback only
    #[arg(long)]
    dev: bool,
}

impl Serve {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let flags = self.listen.map(|listen| ("server.listen", listen.to_string())).into_iter().collect();
        let (config, _) = self.configured.load(flags)?;
        let listen = config.server.listen;
        ensure!(
            !self.dev || listen.ip().is_loopback(),
            "--dev gives tokens to whoever asks, so it listens on loopback only, not on {listen}"
        );
        ensure!(!self.dev || config.auth.hs256, "--dev signs tokens with the shared secret: set auth.hs256");
        let file = self.configured.config.filter(|_| !config.auth.secret_file.as_os_str().is_empty());
        runtime()?.block_on(serve(config, file, self.dev))
    }
}

/// `file` is the configuration file that names the shared secret, if one does.
async fn serve(config: Config, file: Option<PathBuf>, is_dev: bool) -> anyhow::Result<ExitCode> {
    let connections = Connections { max: connections_max(config.server.connections_max), ..Connections::default() };
    let listen = config.server.listen;
    let listener = bind(listen).with_context(|| format!("failed to listen on {listen}"))?;
    let node = Arc::new(Node::open(&config).await?);
    if let Node::Embedded(engine) = &*node {
        caught_up(engine).await?;
    }
    let verifier = verifier(&config, node.app()).await?;
    // After everything that may end the start: the key is shown only once.
    let welcome = Welcome { first_key: first_key(node.app()).await?, is_dev, has_secret: config.auth.hs256, file };
    if is_dev {
        warn!("developers' mode: whoever reaches this server gets a token for any user");
        let sent = dev::seed(node.app()).await.context("failed to make the demo's conversations")?;
        info!(sent, "the demo's conversations are there");
    }
    let service = service(&config, &node, verifier, is_dev);
    // Before anyone is told that it serves: whoever is may tell it to stop.
    let hearing = tokio::spawn({
        let app = node.app().clone();
        async move { app.hear_announcements().await }
    });
    let stopped = stopped().context("failed to listen for signals")?;
    welcome.say(&config.server.data, listener.local_addr()?);
    let mut is_outlived = false;
    let ended = async {
        tokio::select! {
            () = stopped => {}
            () = node.outlived() => is_outlived = true,
        }
    };
    dunlin_api::serve(listener, service, connections, ended).await;
    info!("stopping");
    hearing.abort();
    node.stop().await.context("failed to stop in good order")?;
    ensure!(!is_outlived, "the log was reopened while this node ran, so it has ended: start it again");
    Ok(ExitCode::SUCCESS)
}

/// As many connections as the system lets this process have beside its files. It has fewer files open than it may, unless told otherwise.
fn connections_max(wanted: usize) -> usize {
    /// For the log, the state and engines.
    const OTHERS: u64 = 768;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let allowed = setrlimit(Resource::Nofile, raised).map_or(limit.current, |()| raised.current).unwrap_or(u64::MAX);
    let room = usize::try_from(allowed.saturating_sub(OTHERS).max(allowed / 4)).unwrap_or(usize::MAX);
    if room < wanted {
        warn!(connections_max = wanted, allowed, room, "the system allows too few open files (ulimit -n): fewer connections are taken");
    }
    wanted.min(room)
}

/// With a queue in which a crowd that comes at once finds room: whoever does not tries again after a second.
fn bind(listen: SocketAddr) -> std::io::Result<TcpListener> {
    const QUEUE: u32 = 4_096;
    let socket = if listen.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(QUEUE)
}

/// The first start makes a key, so that someone can begin.
async fn first_key(app: &App) -> anyhow::Result<Option<String>> {
    let has_keys = async || Ok::<_, anyhow::Error>(!app.directory.server_keys(None, 1).await?.is_empty());
    if has_keys().await? {
        return Ok(None);
    }
    // Of nodes that start together one makes it.
    let (task, now) = (TaskName::parse("first-key")?, app.clock.now());
    let lease = Lease { holder: app.node, until: Millis(now.0 + FIRST_KEY_LEASE_MS) };
    if app.directory.take_task(&task, lease, now).await?.holder != app.node || has_keys().await? {
        return Ok(None);
    }
    let name = Name::parse("made at the first start")?;
    let (_, shown) = secrets::make_key(&*app.directory, &*app.ids, name, Scope::ALL, app.clock.now()).await?;
    Ok(Some(shown))
}

async fn verifier(config: &Config, app: &App) -> anyhow::Result<Verifier> {
    let secret = match config.auth.hs256 {
        false => None,
        true => {
            let path = secrets::secret_path(&config.auth.secret_file, &config.server.data);
            if config.auth.secret_file.as_os_str().is_empty() && !path.exists() {
                secrets::make_secret(&path, &*app.ids).context("failed to make the shared secret")?;
            }
            Some(secrets::read_secret(&path)?)
        }
    };
    let source = match config.auth.jwks.as_str() {
        "" => None,
        url if url.starts_with("http://") || url.starts_with("https://") => {
            Some(JwksSource::Url(url.parse().with_context(|| format!("auth.jwks: {url} is no URL"))?))
        }
        path => Some(JwksSource::File(path.into())),
    };
    let jwks = match source {
        None => None,
        Some(source) => Some(Jwks::start(source, Duration::from_secs(config.auth.jwks_refresh_s)).await.context("auth.jwks")?),
    };
    Ok(Verifier::new(secret.as_deref(), jwks, config.auth.audience.clone()))
}

fn service(config: &Config, node: &Arc<Node>, verifier: Verifier, is_dev: bool) -> dunlin_api::Service {
    let limits = &config.limits;
    let options = dunlin_api::Options {
        body_bytes_max: config.server.body_bytes_max,
        rate_limits: RateLimits {
            user_per_s: limits.user_per_s,
            user_burst: limits.user_burst,
            key_per_s: limits.key_per_s,
            key_burst: limits.key_burst,
        },
        cors_origins: config.server.cors_origins.clone(),
        metrics_are_open: config.server.metrics_open || is_dev,
        dev: is_dev,
    };
    let (health, gauges) = (Arc::clone(node), Arc::clone(node));
    let health = move || Condition { is_serving: health.is_serving(), troubles: health.troubles() };
    let gauges = move || {
        let memory = ("resident_memory_bytes", "Memory of this process", resident_bytes());
        gauges.gauges().into_iter().chain([memory]).map(|(name, help, value)| Gauge { name, help, value }).collect()
    };
    dunlin_api::Service::new(node.app().clone(), verifier, Arc::new(health), Arc::new(gauges), options)
}

fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kib.unwrap_or_default() * 1024.0
}

/// What a server says when it is ready.
struct Welcome {
    first_key: Option<String>,
    is_dev: bool,
    has_secret: bool,
    /// The configuration file that names the shared secret; none where the folder has it.
    file: Option<PathBuf>,
}

impl Welcome {
    /// Nobody may be listening, and that is no reason to stop.
    fn say(&self, data: &Path, at: SocketAddr) {
        let _ = std::io::stdout().write_all(self.text(data, at).as_bytes());
    }

    fn text(&self, data: &Path, at: SocketAddr) -> String {
        let data = data.display();
        let mut text = format!("dunlin {} serves {data} on http://{at}\n  what it can do: http://{at}/docs\n\n", env!("CARGO_PKG_VERSION"));
        if let Some(key) = &self.first_key {
            text += "A server key was made for your back end. It is shown only now; `dunlin key` makes others:\n";
            text += &format!("  {key}\n\n");
        }
        if self.is_dev {
            text += &format!("Developers' mode: tokens for anyone. The demo has {}.\n", dev::names().join(", "));
            text += &format!(
                "  TOKEN=$(curl -s http://{at}/dev/token -H 'Content-Type: application/json' -d '{{\"user\": \"alice\"}}' | cut -d '\"' -f 4)\n"
            );
        } else if !self.has_secret {
            text += "Users come with tokens that your keys (auth.jwks) have signed.\n";
        } else {
            let place = self.file.as_ref().map_or_else(|| format!("--data {data}"), |file| format!("--config {}", file.display()));
            text += "A token for a user, signed with the shared secret (`--ttl` says for how long):\n";
            text += &format!("  TOKEN=$(dunlin token alice {place})\n");
        }
        text + &format!("  curl -s http://{at}/v1/conversations -H \"Authorization: Bearer $TOKEN\"\n\n")
    }
}

/// Ctrl-C or SIGTERM.
fn stopped() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminated, mut interrupted) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}
