//! A cluster as the adapters know it: where it is, what its keys begin with, and the connection that they share.

use std::{sync::Arc, time::Duration};

use dunlin_ports::StoreError;
use redis::{ConnectionInfo, RedisResult, cluster::ClusterClient, cluster_async::ClusterConnection};
use tokio::task::JoinSet;

use crate::{
    InvalidOptions, Options,
    connection::{Connection, keep},
};

/// How long connecting to one node may take. The driver asks nobody else meanwhile.
pub const NODE_CONNECT_TIMEOUT: Duration = Duration::from_millis(250);

/// Within the driver, for redirects and dropped connections; the call's time bounds them all.
const RETRIES_MAX: u32 = 3;
const RETRY_WAIT_MS: u64 = 20;

/// A Redis Cluster, or the hope of one. Clones share everything; the last one to go closes the connection.
#[derive(Clone)]
pub struct Cluster {
    connection: Arc<Connection>,
    settings: Arc<Settings>,
    _keeper: Arc<JoinSet<()>>,
}

struct Settings {
    nodes: Vec<ConnectionInfo>,
    prefix: String,
    call_timeout: Duration,
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
        let connection = Arc::new(Connection::new(client, options.call_timeout, format!("{}check", options.prefix)));
        let mut keeper = JoinSet::new();
        keeper.spawn(keep(Arc::clone(&connection)));
        let settings = Settings { nodes, prefix: options.prefix.clone(), call_timeout: options.call_timeout };
        Ok(Cluster { connection, settings: Arc::new(settings), _keeper: Arc::new(keeper) })
    }

    /// Why nothing works at present, if so: Redis is away, is no cluster, or does not know the password. For people; never holds a secret.
    pub fn trouble(&self) -> Option<String> {
        self.connection.trouble()
    }

    pub(crate) fn nodes(&self) -> &[ConnectionInfo] {
        &self.settings.nodes
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.settings.prefix
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.settings.call_timeout
    }

    /// Asks on the shared connection. Whatever happens, it ends in time.
    pub(crate) async fn call<T, F>(&self, ask: impl FnOnce(ClusterConnection) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = RedisResult<T>>,
    {
        self.connection.call(ask).await
    }
}
