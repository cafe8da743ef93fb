//! What may be forgotten, on Redis Cluster: short-lived facts and the bus between nodes. What is not here: anything that must last.
//!
//! Redis that is away, slow or empty costs time and nothing else: it never fails a start, a call ends within a bound, and after some
//! failures calls end at once until a connection stands again.

mod cluster;
mod connection;
mod ephemeral;
mod error;
mod hearing;
mod listener;
mod options;
mod session_bus;
mod speech;
mod visit;
mod wire;

pub use cluster::Cluster;
pub use ephemeral::Ephemeral;
pub use options::{InvalidOptions, Options};
pub use session_bus::SessionBus;
pub use visit::{Visit, VisitError};
