//! Every promise of every port, kept by the embedded adapters.

use std::{ops::Deref, path::Path, sync::Arc};

use dunlin_embedded::{Blobs, Directory, Ephemeral, SessionBus, SystemClock};
use dunlin_model::NodeId;
use dunlin_ports::StoreError;
use tempfile::TempDir;

dunlin_contract::directory!(InFolder::open(|folder| Directory::open(&folder.join("directory.sqlite"))));
dunlin_contract::ephemeral!(Box::new(Ephemeral::new(Arc::new(SystemClock))));
dunlin_contract::session_bus!(Box::new(SessionBus::new(NodeId(7))));
dunlin_contract::blob_store!(InFolder::open(|folder| Blobs::open(&folder.join("blobs"))));

/// A store in a folder that goes when the store does.
struct InFolder<T> {
    store: T,
    _folder: TempDir,
}

impl<T> InFolder<T> {
    fn open(open: impl FnOnce(&Path) -> Result<T, StoreError>) -> InFolder<T> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        InFolder { store: open(folder.path()).expect("the store opens"), _folder: folder }
    }
}

impl<T> Deref for InFolder<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.store
    }
}
