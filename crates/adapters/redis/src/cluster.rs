//! The one connection to the cluster that all calls share, and when not to use it.
//!
//! The driver follows redirects and reconnects to single nodes. What it lacks is here: a start without Redis, a bound on every call, and
//! an end to trying. After [`FAILURES_MAX`] failures in a row the connection is thrown away, and calls fail at once until the keeper has
//! made a new one: that attempt is the one call that tries whether Redis is back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use dunlin_ports::StoreError;
use redis::{ConnectionInfo, RedisResult, cluster::ClusterClient, cluster_async::ClusterConnection};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::{info, warn};

use crate::{InvalidOptions, Options, error};

/// So many failures in a row are no accident.
const FAILURES_MAX: u32 = 5;

/// How long calls fail at once before a connection is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// How long connecting to all nodes may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long connecting to one node may take. The driver asks nobody else meanwhile.
pub const NODE_CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// How often a connection that nobody uses is tried.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Within the driver, for redirects and dropped connections; the call's time bounds them all.
const RETRIES_MAX: u32 = 3;
const RETRY_WAIT_MS: u64 = 20;

/// A Redis Cluster, or the hope of one. Clones share everything; the last one to go closes the connection.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    _keeper: Arc<JoinSet<()>>,
}

struct Shared {
    client: ClusterClient,
    nodes: Vec<ConnectionInfo>,
    prefix: String,
    call_timeout: Duration,
    state: watch::Sender<State>,
}

#[derive(Clone)]
enum State {
    /// The first attempt is not over: calls wait for it as long as they may.
    Connecting,
    Up(Arc<Link>),
    Down(String),
}

struct Link {
    connection: ClusterConnection,
    /// In a row.
    failures: AtomicU32,
}

impl Cluster {
    /// Connects in the background: this fails for what is written wrongly, never because Redis is away. Needs a Tokio runtime.
    pub fn open(options: &Options) -> Result<Cluster, InvalidOptions> {
        let nodes = options.connections()?;
        let client = ClusterClient::builder(nodes.clone())
            .connection_timeout(NODE_CONNECT_TIMEOUT)
            .response_timeout(options.call_timeout)
            .retries(RETRIES_MAX)
            .min_retry_wait(1)
            .max_retry_wait(RETRY_WAIT_MS)
            .build()
            .map_err(|error| InvalidOptions::Nodes(error.to_string()))?;
        let state = watch::Sender::new(State::Connecting);
        let shared = Arc::new(Shared { client, nodes, prefix: options.prefix.clone(), call_timeout: options.call_timeout, state });
        let mut keeper = JoinSet::new();
        keeper.spawn(keep(Arc::clone(&shared)));
        Ok(Cluster { shared, _keeper: Arc::new(keeper) })
    }

    /// Why nothing works at present, if so: Redis is away, is no cluster, or does not know the password.
    pub fn trouble(&self) -> Option<String> {
        match &*self.shared.state.borrow() {
            State::Connecting => Some("Redis: not connected yet".to_owned()),
            State::Up(_) => None,
            State::Down(why) => Some(why.clone()),
        }
    }

    pub(crate) fn nodes(&self) -> &[ConnectionInfo] {
        &self.shared.nodes
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.shared.prefix
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.shared.call_timeout
    }

    /// Asks on the shared connection. Whatever happens, it ends in time.
    pub(crate) async fn call<T, F>(&self, ask: impl FnOnce(ClusterConnection) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = RedisResult<T>>,
    {
        self.shared.call(ask).await
    }
}

impl Shared {
    async fn call<T, F>(&self, ask: impl FnOnce(ClusterConnection) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let deadline = Instant::now() + self.call_timeout;
        let link = self.link(deadline).await?;
        let failure = match timeout_at(deadline, ask(link.connection.clone())).await {
            Ok(Ok(answer)) => {
                link.failures.store(0, Ordering::Relaxed);
                return Ok(answer);
            }
            Ok(Err(error)) if error::was_answered(&error) => return Err(error::unavailable(&error)),
            Ok(Err(error)) => error::unavailable(&error),
            Err(_) => error::timed_out(),
        };
        self.failed(&link, &failure);
        Err(failure)
    }

    /// The connection, if there is one.
    async fn link(&self, deadline: Instant) -> Result<Arc<Link>, StoreError> {
        let is_connecting = matches!(*self.state.borrow(), State::Connecting);
        if is_connecting {
            // Too late is told below.
            let _ = timeout_at(deadline, self.state.subscribe().wait_for(|state| !matches!(state, State::Connecting))).await;
        }
        match &*self.state.borrow() {
            State::Up(link) => Ok(Arc::clone(link)),
            State::Down(why) => Err(StoreError::Unavailable(why.clone())),
            State::Connecting => Err(error::timed_out()),
        }
    }

    /// Calls that were under way on an older connection say nothing about this one.
    fn failed(&self, link: &Arc<Link>, failure: &StoreError) {
        if link.failures.fetch_add(1, Ordering::Relaxed) + 1 < FAILURES_MAX {
            return;
        }
        self.state.send_if_modified(|state| {
            let is_this = matches!(state, State::Up(up) if Arc::ptr_eq(up, link));
            if is_this {
                warn!(%failure, "Redis fails again and again; doing without it until a connection stands");
                *state = State::Down(format!("calls failed again and again, at last: {failure}"));
            }
            is_this
        });
    }

    fn down(&self, why: String) {
        let before = self.state.send_replace(State::Down(why.clone()));
        if !matches!(before, State::Down(known) if known == why) {
            warn!(why, "no connection to Redis; doing without it");
        }
    }
}

/// Makes a connection whenever there is none.
async fn keep(shared: Arc<Shared>) {
    loop {
        match timeout(CONNECT_TIMEOUT, shared.client.get_async_connection()).await {
            Ok(Ok(connection)) => {
                info!("connected to Redis");
                shared.state.send_replace(State::Up(Arc::new(Link { connection, failures: AtomicU32::new(0) })));
                watch(&shared).await;
            }
            Ok(Err(error)) => shared.down(error::reason(&error)),
            Err(_) => shared.down("Redis: connecting took too long".to_owned()),
        }
        sleep(PAUSE).await;
    }
}

/// Ends when calls have failed too often. Tries the connection now and then: while nobody calls, nobody would notice.
async fn watch(shared: &Shared) {
    let key = format!("{}check", shared.prefix);
    let mut states = shared.state.subscribe();
    while timeout(CHECK_EVERY, states.wait_for(|state| matches!(state, State::Down(_)))).await.is_err() {
        // What comes of it is counted where it is asked.
        let _ = shared.call(|connection| check(connection, &key)).await;
    }
}

async fn check(mut connection: ClusterConnection, key: &str) -> RedisResult<()> {
    redis::cmd("EXISTS").arg(key).exec_async(&mut connection).await
}
