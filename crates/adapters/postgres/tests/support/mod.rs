//! Databases of a test's own, in the PostgreSQL that the environment names.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dunlin_postgres::{Database, Directory, Options, ShardSet, schema};
use tokio_postgres::{Client, NoTls};

pub mod proxy;

/// Longer than in production: tests share the machine with compilers.
const WAIT_MAX: Duration = Duration::from_secs(4);

pub fn server() -> String {
    std::env::var("DUNLIN_TEST_POSTGRES").expect(
        "start engines with `cargo xtask engines up`, or name a PostgreSQL in DUNLIN_TEST_POSTGRES as postgres://user@host:port/database",
    )
}

/// An empty database: its URL. It stays until its server goes.
pub async fn database() -> String {
    let url = server();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    let name = format!("dunlin_test_{}_{}", std::process::id(), since.as_nanos());
    connect(&url).await.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.expect("may make databases");
    let (server, _) = url.rsplit_once('/').expect("a URL names a database");
    format!("{server}/{name}")
}

/// Empty databases, with names and shards as given.
pub async fn options(databases: &[(&str, &str)]) -> Options {
    let mut made = Vec::new();
    for (name, shards) in databases {
        let shards = ShardSet::parse(shards).expect("a set of shards");
        made.push(Database { name: (*name).to_owned(), url: database().await, shards });
    }
    Options { require_synchronous: false, wait_max: WAIT_MAX, ..Options::new(made, database().await) }
}

/// All shards in one database, with tables.
pub async fn applied() -> Options {
    let options = options(&[("a", "0-63")]).await;
    schema::apply(&options).await.expect("apply the schema");
    options
}

pub async fn open(options: &Options) -> Directory {
    Directory::open(options).await.expect("open the directory")
}

pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("PostgreSQL is up");
    tokio::spawn(connection);
    client
}
