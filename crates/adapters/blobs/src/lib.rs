//! Bytes that are too large for a message, in an object store that speaks S3. What is not here: their names, types and who may read
//! them; and the folder that does the same on one machine, which is the embedded adapter's.
//!
//! That a key has one content is the server's doing, not ours: every write says `If-None-Match: *`. A start makes sure that it is heeded.

mod blobs;
mod error;
mod http;
mod options;
mod probe;
mod reader;
mod upload;

pub use blobs::Blobs;
pub use options::{InvalidOptions, Options};
pub use probe::StartError;
