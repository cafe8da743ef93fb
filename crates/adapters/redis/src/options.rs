//! Where the cluster is and how to enter it.

use std::{fmt, time::Duration};

use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

/// Redis answers in far less. A call that takes this long is given up: doing without costs no more.
pub const CALL_TIMEOUT: Duration = Duration::from_millis(200);

pub const PREFIX: &str = "dunlin:";

#[derive(Clone)]
pub struct Options {
    /// Some of the cluster's nodes, as `host:port` or `redis://user:password@host:port` (`rediss://…` with the feature `tls`); the others
    /// are found through them. Name several: whoever starts, or lost its connection, needs one of them.
    pub nodes: Vec<String>,
    /// Stands before what an address says.
    pub username: Option<String>,
    /// Stands before what an address says.
    pub password: Option<String>,
    /// Whether addresses that don't say it themselves mean TLS.
    pub tls: bool,
    /// The certificates that are trusted over TLS, in PEM; none: those of the operating system.
    pub trusted: Option<Vec<u8>>,
    /// Begins every key and channel, so that deployments can share a cluster.
    pub prefix: String,
    /// How long any call may take.
    pub call_timeout: Duration,
}

/// Never tells an address: that may hold a password.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidOptions {
    #[error("no Redis node is named")]
    NoNodes,
    #[error("the address of Redis node {number} is neither host:port nor a redis:// URL that this build understands")]
    Node { number: usize },
    #[error("the prefix of Redis keys must not contain braces: they choose the slot")]
    Prefix,
    #[error("the addresses of Redis nodes do not fit together: {0}")]
    Nodes(String),
}

impl Options {
    pub fn new(nodes: impl IntoIterator<Item = impl Into<String>>) -> Options {
        let nodes = nodes.into_iter().map(Into::into).collect();
        let (username, password, tls, trusted) = (None, None, false, None);
        Options { nodes, username, password, tls, trusted, prefix: PREFIX.to_owned(), call_timeout: CALL_TIMEOUT }
    }

    /// The nodes, with one name and password for all. Sharded channels came with Redis 7, so RESP3 is always there.
    pub(crate) fn connections(&self) -> Result<Vec<ConnectionInfo>, InvalidOptions> {
        if self.prefix.contains(['{', '}']) {
            return Err(InvalidOptions::Prefix);
        }
        let scheme = if self.tls { "rediss" } else { "redis" };
        let mut nodes = Vec::new();
        for (number, node) in (1..).zip(&self.nodes) {
            let url = if node.contains("://") { node.clone() } else { format!("{scheme}://{node}") };
            let node = url.into_connection_info().ok().filter(|node| node.addr().is_supported());
            nodes.push(node.ok_or(InvalidOptions::Node { number })?);
        }
        let first = nodes.first().ok_or(InvalidOptions::NoNodes)?.redis_settings();
        let mut settings = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        if let Some(username) = self.username.as_deref().or(first.username()) {
            settings = settings.set_username(username);
        }
        if let Some(password) = self.password.as_deref().or(first.password()) {
            settings = settings.set_password(password);
        }
        Ok(nodes.into_iter().map(|node| node.set_redis_settings(settings.clone())).collect())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("nodes", &self.nodes.len()).field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_short_or_a_url() {
        let nodes = Options::new(["127.0.0.1:7001", "redis://10.0.0.2:7002", "[::1]:7003"]).connections().unwrap();
        let addresses: Vec<String> = nodes.iter().map(|node| node.addr().to_string()).collect();
        assert_eq!(addresses, ["127.0.0.1:7001", "10.0.0.2:7002", "::1:7003"]);
    }

    #[test]
    fn one_password_serves_all_nodes() {
        let mut options = Options::new(["redis://ann:first@127.0.0.1:7001", "127.0.0.1:7002"]);
        let second = options.connections().unwrap().remove(1);
        assert_eq!((second.redis_settings().username(), second.redis_settings().password()), (Some("ann"), Some("first")));
        options.password = Some("second".to_owned());
        assert_eq!(options.connections().unwrap()[0].redis_settings().password(), Some("second"));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_address() {
        let options = Options::new(["127.0.0.1:7001", "redis://:secret@"]);
        let error = options.connections().unwrap_err();
        assert_eq!(error, InvalidOptions::Node { number: 2 });
        assert!(!format!("{error} {options:?}").contains("secret"));
        assert_eq!(Options::new([""; 0]).connections().unwrap_err(), InvalidOptions::NoNodes);
        let tls = Options::new(["rediss://127.0.0.1:7001"]).connections();
        assert_eq!(tls.is_ok(), cfg!(feature = "tls"), "what this build can't do is told at once");
        let tls = Options { tls: true, ..Options::new(["127.0.0.1:7001"]) }.connections();
        assert_eq!(tls.is_ok(), cfg!(feature = "tls"));
        let braces = Options { prefix: "a{b}:".to_owned(), ..Options::new(["127.0.0.1:7001"]) };
        assert_eq!(braces.connections().unwrap_err(), InvalidOptions::Prefix);
    }
}
