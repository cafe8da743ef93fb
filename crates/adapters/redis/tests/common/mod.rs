//! The cluster that the environment names, and how to look behind the adapters.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::time::Duration;

use dunlin_contract::ids;
use dunlin_model::{ContentHash, DedupKey, DedupRow, Millis, N, NodeId};
use dunlin_redis::{Cluster, Options};
use redis::{Cmd, FromRedisValue, aio::MultiplexedConnection};

/// Longer than in production: tests share the machine with compilers.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(2);

pub fn nodes() -> Vec<String> {
    let nodes = std::env::var("DUNLIN_TEST_REDIS")
        .expect("start engines with `cargo xtask engines up`, or name a Redis Cluster in DUNLIN_TEST_REDIS as host:port,host:port");
    nodes.split(',').map(str::to_owned).collect()
}

pub fn options() -> Options {
    Options { call_timeout: CALL_TIMEOUT, ..Options::new(nodes()) }
}

pub fn cluster() -> Cluster {
    Cluster::open(&options()).expect("the address is right")
}

pub fn key() -> DedupKey {
    DedupKey { conversation: ids::conversation(), sender: Some(ids::user()), client_id: ids::client_id() }
}

pub fn row() -> DedupRow {
    DedupRow { seq: ids::seq(), n: N(7), created_at: Millis(1_700_000_000_000), hash: ContentHash::of(&ids::bits128()) }
}

pub fn channel(node: NodeId) -> String {
    format!("dunlin:node:{{{node}}}")
}

/// A master, as the cluster describes it.
pub struct Master {
    pub id: String,
    pub address: String,
    slots: Vec<(u16, u16)>,
}

impl Master {
    pub fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|&(first, last)| (first..=last).contains(&slot))
    }

    pub async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> T {
        ask(&self.address, command).await
    }
}

/// Those that are up and own slots.
pub async fn masters() -> Vec<Master> {
    let lines: String = ask(&nodes()[0], redis::cmd("CLUSTER").arg("NODES")).await;
    let mut masters = Vec::new();
    for line in lines.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let slots: Vec<(u16, u16)> = fields[8..].iter().filter_map(|range| slots(range)).collect();
        if fields[2].contains("master") && !fields[2].contains("fail") && !slots.is_empty() {
            let address = fields[1].split('@').next().expect("an address stands before the bus port");
            masters.push(Master { id: fields[0].to_owned(), address: address.to_owned(), slots });
        }
    }
    masters
}

/// `0-5460` or `7`; a slot on the move stands in brackets.
fn slots(range: &str) -> Option<(u16, u16)> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    Some((first.parse().ok()?, last.parse().ok()?))
}

pub async fn slot(key: &str) -> u16 {
    ask(&nodes()[0], redis::cmd("CLUSTER").arg("KEYSLOT").arg(key)).await
}

pub async fn ask<T: FromRedisValue>(address: &str, command: &Cmd) -> T {
    let mut connection = connect(address).await;
    command.query_async(&mut connection).await.expect("Redis does as it is told")
}

pub async fn connect(address: &str) -> MultiplexedConnection {
    let client = redis::Client::open(format!("redis://{address}")).expect("an address");
    client.get_multiplexed_async_connection().await.expect("Redis is up")
}
