use std::{collections::BTreeMap, fmt, time::Duration};

/// How to reach a cluster, and how it is to be used.
#[derive(Clone)]
pub struct Options {
    /// Some of its nodes, as `host:port`.
    pub nodes: Vec<String>,
    pub keyspace: String,
    /// The data centre that reads and writes go to.
    pub datacenter: String,
    /// How many replicas each data centre has.
    pub replication: BTreeMap<String, u32>,
    pub user: String,
    /// Empty where nobody is asked for one.
    pub password: String,
    /// The certificates that are trusted, in PEM; none: without TLS.
    pub tls: Option<Vec<u8>>,
    pub connect_timeout: Duration,
    pub request_timeout: Duration,
    /// How many statements of one call are under way at once.
    pub in_flight_max: usize,
    /// How long a client id is kept. Longer than it counts by as much as the log may still hold.
    pub dedup_keep: Duration,
}

impl Default for Options {
    fn default() -> Options {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Options {
            nodes: vec!["127.0.0.1:9042".into()],
            keyspace: "dunlin".into(),
            datacenter: "dc1".into(),
            replication: BTreeMap::from([("dc1".into(), 3)]),
            user: String::new(),
            password: String::new(),
            tls: None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(5),
            in_flight_max: 256,
            dedup_keep: 15 * DAY,
        }
    }
}

/// Without the password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { nodes, keyspace, datacenter, replication, .. } = self;
        write!(f, "{keyspace} at {nodes:?} in {datacenter}, replicas {replication:?}")
    }
}
