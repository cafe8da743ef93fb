//! A cluster as the adapters know it: where it is, what its keys begin with, and the connection that they share.

use std::{sync::Arc, time::Duration};

use dunlin_ports::StoreError;
use redis::{
    Client, ConnectionInfo, RedisResult,
    cluster::{ClusterClient, ClusterClientBuilder},
    cluster_async::ClusterConnection,
};
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
    trusted: Option<Vec<u8>>,
    prefix: String,
    call_timeout: Duration,
}

impl Cluster {
    /// Connects in the background: this fails for what is written wrongly, never because Redis is away. Needs a Tokio runtime.
    pub fn open(options: &Options) -> Result<Cluster, InvalidOptions> {
        let nodes = options.connections()?;
        let client = trusting(ClusterClient::builder(nodes.clone()), options.trusted.as_deref())
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
        let Options { trusted, prefix, call_timeout, .. } = options.clone();
        let settings = Settings { nodes, trusted, prefix, call_timeout };
        Ok(Cluster { connection, settings: Arc::new(settings), _keeper: Arc::new(keeper) })
    }

    /// Why nothing works at present, if so: Redis is away, is no cluster, or does not know the password. For people; never holds a secret.
    pub fn trouble(&self) -> Option<String> {
        self.connection.trouble()
    }

    pub(crate) fn nodes(&self) -> &[ConnectionInfo] {
        &self.settings.nodes
    }

    pub(crate) fn client(&self, node: ConnectionInfo) -> RedisResult<Client> {
        client(node, self.settings.trusted.as_deref())
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

/// A client of one node.
pub(crate) fn client(node: ConnectionInfo, trusted: Option<&[u8]>) -> RedisResult<Client> {
    match trusted {
        #[cfg(feature = "tls")]
        Some(trusted) => Client::build_with_tls(node, certificates(trusted)),
        _ => Client::open(node),
    }
}

fn trusting(builder: ClusterClientBuilder, trusted: Option<&[u8]>) -> ClusterClientBuilder {
    match trusted {
        #[cfg(feature = "tls")]
        Some(trusted) => builder.certs(certificates(trusted)),
        _ => builder,
    }
}

#[cfg(feature = "tls")]
fn certificates(trusted: &[u8]) -> redis::TlsCertificates {
    redis::TlsCertificates { client_tls: None, root_cert: Some(trusted.to_vec()) }
}
