//! The directory on PostgreSQL: 64 shards over any number of databases. What is not here: any rule about users or keys.
//!
//! - `shard` says which shard something belongs to, `places` which database has it; `router` brings calls there and tries again what
//!   failed for the moment, within a bound.
//! - `moving` brings a shard to another database while all goes on.
//! - `schema` makes tables, only forward; `server` says which servers are good enough.
//! - `users`, `server_keys`, `tokens`, `tasks`, `blocks`, `outbox` map the port to statements, `phones` what is unique over all shards; `directory`
//!   puts them together.

pub mod bare;
mod blocks;
mod columns;
mod directory;
mod error;
mod lookup;
mod moving;
mod options;
mod outbox;
mod phones;
mod places;
mod pool;
mod router;
pub mod schema;
mod server;
mod server_keys;
mod shard;
mod tasks;
mod tls;
mod tokens;
mod users;

// The tests of steps that nobody outside can take; they share their databases with the other tests.
#[cfg(all(test, feature = "engines"))]
extern crate self as dunlin_postgres;
#[cfg(all(test, feature = "engines"))]
#[path = "../tests/support/mod.rs"]
mod support;

pub use directory::Directory;
pub use error::StartError;
pub use moving::{MoveError, Placed, Shards, Step};
pub use options::{Database, InvalidOptions, Options};
pub use schema::SchemaError;
pub use shard::{SHARDS, Shard, ShardSet};
