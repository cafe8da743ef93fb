//! Table files that a failed flush or compaction leaves behind.
//!
//! The engine deletes them only when it opens the folder. On a full disk each attempt would take the last free bytes and keep them, from
//! the log too, so they go as soon as nobody is writing tables.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use lsm_tree::{AbstractTree, TableId};
use tracing::{info, warn};

use super::error::TreeError;
use super::manifest::{self, TABLES};

pub(super) struct Orphans {
    /// Held for reading by whoever writes tables.
    writing: RwLock<()>,
    /// Every table that was ever part of the tree since it was opened: those that are no longer may still be read by a snapshot.
    known: Mutex<HashSet<TableId>>,
    suspected: AtomicBool,
}

impl Orphans {
    pub(super) fn new(tree: &lsm_tree::Tree) -> Self {
        let orphans = Self { writing: RwLock::default(), known: Mutex::default(), suspected: AtomicBool::new(false) };
        orphans.learn(tree);
        orphans
    }

    /// Runs a flush or a compaction. What it made part of the tree is known before anyone may sweep.
    pub(super) fn watch<T>(&self, tree: &lsm_tree::Tree, write: impl FnOnce() -> lsm_tree::Result<T>) -> lsm_tree::Result<T> {
        let _writing = self.writing.read().unwrap_or_else(PoisonError::into_inner);
        let result = write();
        if result.is_err() {
            self.suspected.store(true, Ordering::Release);
        }
        self.learn(tree);
        result
    }

    /// Removes orphans after a failure, unless tables are being written: then the next call does it.
    pub(super) fn sweep(&self, dir: &Path) {
        if !self.suspected.load(Ordering::Acquire) {
            return;
        }
        let Ok(_alone) = self.writing.try_write() else { return };
        match self.remove(dir) {
            Ok(count) => {
                self.suspected.store(false, Ordering::Release);
                info!(count, "removed tables of failed flushes or compactions");
            }
            Err(error) => warn!(%error, "failed to remove tables of failed flushes or compactions"),
        }
    }

    fn remove(&self, dir: &Path) -> Result<usize, TreeError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // If the last step of a registration fails (the sync of the folder), the manifest on disk may be ahead of the one in memory.
        let on_disk: HashSet<TableId> = manifest::referenced_tables(dir)?.into_iter().collect();
        let folder = dir.join(TABLES);
        let present = table_files(&folder).map_err(|error| TreeError::from_io(&error, &folder))?;
        known.retain(|id| present.contains(id));
        let mut count = 0;
        for id in present.into_iter().filter(|id| !known.contains(id) && !on_disk.contains(id)) {
            let path = folder.join(id.to_string());
            fs::remove_file(&path).map_err(|error| TreeError::from_io(&error, &path))?;
            count += 1;
        }
        Ok(count)
    }

    fn learn(&self, tree: &lsm_tree::Tree) {
        let version = tree.current_version();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).extend(version.iter_tables().map(lsm_tree::Table::id));
    }
}

fn table_files(folder: &Path) -> io::Result<HashSet<TableId>> {
    let mut ids = HashSet::new();
    for entry in fs::read_dir(folder)? {
        ids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<TableId>().ok()));
    }
    Ok(ids)
}
