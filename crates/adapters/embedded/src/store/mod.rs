//! The message store on the tree: each table of rows under a letter of its own.
//!
//! Writes that come from the log carry its position, so after a crash the log is replayed from there. Marks of delivery carry none, and those
//! since the last flush may be forgotten.

mod apply;
mod expiry;
mod keys;
mod read;
mod unseen;

use std::{
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use dunlin_model::{Epoch, decode};
use dunlin_ports::StoreError;
use minicbor::Decode;

use crate::tree::{Snapshot, Tree, TreeError};
use apply::Buffers;
pub use expiry::Lifetimes;
use unseen::{Filling, Unseen};

/// A message store in one folder. One process opens it at a time.
pub struct Messages {
    unseen: Arc<Unseen>,
    /// Ends before the tree does.
    _filling: Filling,
    tree: Arc<Tree>,
    /// Of the log that the positions are from.
    epoch: Epoch,
    /// The log's time, for rows that expire.
    now: Arc<AtomicU64>,
    /// Held while cells are compared and written.
    writer: Mutex<Buffers>,
}

impl Messages {
    pub(crate) fn new(tree: Tree, epoch: Epoch, now: Arc<AtomicU64>) -> Messages {
        let tree = Arc::new(tree);
        let (unseen, filling) = Filling::start(&tree);
        Messages { unseen, _filling: filling, tree, epoch, now, writer: Mutex::default() }
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// How many rows there are, and a checksum over all of them in order: equal states have equal digests.
    pub fn digest(&self) -> Result<(u64, u32), StoreError> {
        let (mut rows, mut sum) = (0, 0);
        for found in self.tree.snapshot().prefix(&[])? {
            let (key, value) = found?;
            sum = crc32c::crc32c_append(crc32c::crc32c_append(sum, &key), &value);
            rows += 1;
        }
        Ok((rows, sum))
    }

    fn writer(&self) -> MutexGuard<'_, Buffers> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<TreeError> for StoreError {
    fn from(error: TreeError) -> StoreError {
        let text = error.to_string();
        match error {
            TreeError::Full | TreeError::Unavailable(_) | TreeError::SnapshotExpired | TreeError::Io(_) => StoreError::Unavailable(text),
            TreeError::Corrupt { .. } | TreeError::Broken(_) | TreeError::Key(_) | TreeError::Value(_) | TreeError::Backwards { .. } => {
                StoreError::Corrupt(text)
            }
        }
    }
}

/// A stored row that can't be read can't be right.
fn row<T: for<'b> Decode<'b, ()>>(key: &[u8], bytes: &[u8]) -> Result<T, StoreError> {
    decode(bytes).map_err(|error| StoreError::Corrupt(format!("row {}: {error}", key.escape_ascii())))
}

fn get<T: for<'b> Decode<'b, ()>>(snapshot: &Snapshot, key: &[u8]) -> Result<Option<T>, StoreError> {
    match snapshot.get(key)? {
        None => Ok(None),
        Some(bytes) => row(key, &bytes).map(Some),
    }
}

/// Rows strictly after one key and before another, ascending.
fn between<T: for<'b> Decode<'b, ()>>(snapshot: &Snapshot, after: &[u8], before: Bound<&[u8]>, limit: usize) -> Result<Vec<T>, StoreError> {
    let rows = snapshot.range((Bound::Excluded(after), before))?;
    let decoded = rows.take(limit).map(|found| {
        let (key, value) = found?;
        row(&key, &value)
    });
    decoded.collect()
}
