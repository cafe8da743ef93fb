//! The event log on Apache Kafka: one topic, whose partitions are the log's. What is not here: any rule of messaging.
//!
//! Three kinds of clients share one configuration: a producer appends, a reader serves the tails, and a member of a group learns which
//! partitions are this node's. Offsets are never committed to Kafka: the projector's checkpoints say where to go on.

mod admin;
mod bare;
mod client;
mod error;
mod event_log;
mod options;
mod producer;
mod reader;
mod share;
mod tail;
mod topic;

pub use bare::BareProducer;
pub use error::OpenError;
pub use event_log::{EventLog, topic_of};
pub use options::Options;
pub use reader::Extent;
pub use topic::{could_create_topic, create_topic, delete_topic, has_topic, nodes};
