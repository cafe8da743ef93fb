//! The one connection that all calls share, and when not to use it.
//!
//! The driver follows redirects and reconnects to single nodes. What it lacks is here, and the keeper's work:
//! - a start without Redis, and a bound on every call;
//! - an end to trying: after [`FAILURES_MAX`] failures in a row the connection is thrown away, and calls fail at once until there is a
//!   new one. Making that is the one call that tries whether Redis is back;
//! - a look around when a node hangs: the driver waits for it for ever, even after the cluster has given its slots to another. So a
//!   connection on which calls take too long is replaced by a new one, which learns the slots anew.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use dunlin_ports::StoreError;
use redis::{RedisResult, cluster::ClusterClient, cluster_async::ClusterConnection};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::{info, warn};

use crate::error;

/// So many failures in a row are no accident.
const FAILURES_MAX: u32 = 5;

/// How long calls fail at once before a connection is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// How long connecting to all nodes may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the keeper looks at the connection.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// So many calls that took too long, between two looks of the keeper, mean that a node hangs.
const TIMEOUTS_MAX: u32 = 3;

pub struct Connection {
    client: ClusterClient,
    call_timeout: Duration,
    /// What the keeper asks for, to hear an answer.
    check_key: String,
    state: watch::Sender<State>,
}

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
    /// Since the keeper last looked.
    timeouts: AtomicU32,
}

impl Connection {
    pub fn new(client: ClusterClient, call_timeout: Duration, check_key: String) -> Connection {
        Connection { client, call_timeout, check_key, state: watch::Sender::new(State::Connecting) }
    }

    pub fn trouble(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Connecting => Some("Redis: not connected yet".to_owned()),
            State::Up(_) => None,
            State::Down(why) => Some(why.clone()),
        }
    }

    /// Whatever happens, it ends in time.
    pub async fn call<T, F>(&self, ask: impl FnOnce(ClusterConnection) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let deadline = Instant::now() + self.call_timeout;
        let link = self.link(deadline).await?;
        let why = match timeout_at(deadline, ask(link.connection.clone())).await {
            Ok(Ok(answer)) => {
                link.failures.store(0, Ordering::Relaxed);
                return Ok(answer);
            }
            Ok(Err(error)) if error::was_answered(&error) => return Err(error::unavailable(&error)),
            Ok(Err(error)) if !error.is_timeout() => error::reason(&error),
            _ => {
                link.timeouts.fetch_add(1, Ordering::Relaxed);
                error::TIMED_OUT.to_owned()
            }
        };
        self.failed(&link, &why);
        Err(StoreError::Unavailable(why))
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
    fn failed(&self, link: &Arc<Link>, why: &str) {
        if link.failures.fetch_add(1, Ordering::Relaxed) + 1 < FAILURES_MAX {
            return;
        }
        self.state.send_if_modified(|state| {
            let is_this = matches!(state, State::Up(up) if Arc::ptr_eq(up, link));
            if is_this {
                warn!(why, "calls to Redis failed again and again; doing without it until a new connection stands");
                *state = State::Down(why.to_owned());
            }
            is_this
        });
    }

    async fn connect(&self) -> Result<Link, String> {
        match timeout(CONNECT_TIMEOUT, self.client.get_async_connection()).await {
            Ok(Ok(connection)) => Ok(Link { connection, failures: AtomicU32::new(0), timeouts: AtomicU32::new(0) }),
            Ok(Err(error)) => Err(error::reason(&error)),
            Err(_) => Err("Redis: connecting took too long".to_owned()),
        }
    }

    /// A connection that half works is better than none.
    fn not_connected(&self, why: String) {
        self.state.send_if_modified(|state| {
            let is_news = match state {
                State::Up(_) => false,
                State::Connecting => true,
                State::Down(known) => *known != why,
            };
            if is_news {
                warn!(why, "no connection to Redis; doing without it");
                *state = State::Down(why);
            }
            is_news
        });
    }

    /// Tries the connection now and then: while nobody calls, nobody would notice. What comes of it is counted as for any call.
    async fn check(&self) {
        let command = redis::cmd("EXISTS").arg(&self.check_key).take();
        let asked = self.call(|mut connection| async move { command.exec_async(&mut connection).await });
        let _ = asked.await;
    }
}

/// Makes a connection whenever there is none, or a new one when a node hangs.
pub async fn keep(connection: Arc<Connection>) {
    loop {
        match connection.connect().await {
            Ok(link) => {
                info!("connected to Redis");
                connection.state.send_replace(State::Up(Arc::new(link)));
            }
            Err(why) => connection.not_connected(why),
        }
        until_needed(&connection).await;
    }
}

async fn until_needed(connection: &Connection) {
    let mut states = connection.state.subscribe();
    loop {
        if timeout(CHECK_EVERY, states.wait_for(|state| matches!(state, State::Down(_)))).await.is_ok() {
            return sleep(PAUSE).await;
        }
        connection.check().await;
        let hangs = matches!(&*connection.state.borrow(), State::Up(link) if link.timeouts.swap(0, Ordering::Relaxed) >= TIMEOUTS_MAX);
        if hangs {
            return warn!("some calls to Redis take too long; connecting anew");
        }
    }
}
