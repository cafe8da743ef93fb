//! What Dunlin needs from the outside, one trait a file. Each trait's doc comment is its contract; the cases of `dunlin-contract` hold
//! every adapter to it.
//!
//! Traits are shaped for the weakest backend: no transaction across partitions, repeatable writes, bounded pages.

mod blob_store;
mod breaker;
mod clock;
mod directory;
mod ephemeral;
mod error;
mod event_log;
mod ids;
mod message_store;
mod session_bus;

pub use blob_store::{BLOB_CHUNK_BYTES_MAX, Blob, BlobStore, ByteRange, Chunks, Put};
pub use breaker::Breaker;
pub use clock::Clock;
pub use directory::{ANNOUNCED_LATE_MS, Directory, Heard, PHONE_CLAIM_MS_MAX};
pub use ephemeral::{AnswerKey, Ephemeral};
pub use error::StoreError;
pub use event_log::{Appended, EventLog, Life, Record, Share, Tail};
pub use ids::IdGen;
pub use message_store::{Batch, Checkpoint, Known, MessageStore, Order, Parked, ParkedRow, Replay, SeqRange, Wanted, Write};
pub use session_bus::{Frame, Inbound, Notice, SessionBus};
