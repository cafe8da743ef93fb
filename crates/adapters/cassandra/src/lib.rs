//! The message store on Apache Cassandra: a mapping of the projector's writes to statements, and of reads to queries.
//!
//! - Every write names its time: the seq of its event, or the log's time in tables that only grow. So a write that is made again, or by a
//!   projector that should have stopped, changes nothing, whatever order writes arrive in. No statement reads before it writes, there is no
//!   lightweight transaction, no counter and no batch over partitions.
//! - A cell's seq is its write time: it is read back by `writetime`, and takes no column.
//! - Nothing is bound as null, which would be a tombstone: what a write does not say stays unset.
//!
//! `schema` says what the tables are, `statements` what is said to them; `write` and `read` map the port.

mod bare;
mod buckets;
mod error;
mod feed_months;
mod flights;
mod life;
mod options;
mod read;
mod row;
pub mod schema;
mod server;
mod statements;
mod store;
mod tls;
mod write;

pub use error::ConnectError;
pub use options::Options;
pub use schema::SchemaError;
pub use store::{Messages, Requests};
