//! The log and the message store of a data folder keep every promise of their ports.

use std::{ops::Deref, sync::Arc};

use dunlin_embedded::{EventLog, Folder, Messages, Options};
use tempfile::TempDir;

dunlin_contract::event_log!(open(|folder| Arc::clone(&folder.log)));
dunlin_contract::message_store!(open(|folder| Arc::clone(&folder.store)));

/// One part of a fresh folder, with all of the folder behind it.
struct Part<T> {
    part: Arc<T>,
    _folder: Folder,
    _dir: TempDir,
}

fn open<T>(part: impl FnOnce(&Folder) -> Arc<T>) -> Part<T> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let options = Options { segment_bytes: 2 * 1024 * 1024, ..Options::default() };
    let folder = Folder::open(dir.path(), &options).expect("a new folder opens");
    Part { part: part(&folder), _folder: folder, _dir: dir }
}

impl Deref for Part<EventLog> {
    type Target = EventLog;
    fn deref(&self) -> &EventLog {
        &self.part
    }
}

impl Deref for Part<Messages> {
    type Target = Messages;
    fn deref(&self) -> &Messages {
        &self.part
    }
}
