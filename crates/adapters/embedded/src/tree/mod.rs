//! The state: ordered keys and values in an LSM tree whose write-ahead log is someone else's.
//!
//! The engine is the crate `lsm-tree`. It has memtables, tables, compaction and sequence numbers, but no batches, no journal and no threads;
//! those are decided here. What is not here: what the keys and values mean, the log, and the lock on the data folder that keeps a second
//! process out.
//!
//! - **Visible at once.** A batch is written under one sequence number, and readers read at a position that is published after its
//!   last row. The engine's own visible number is never used: a flush raises it in the middle of a batch.
//! - **Durable at once.** A memtable is sealed between batches only, by the one who applies them, and becomes part of the tree on disk in
//!   one step, never before an older one. Every batch writes the log's position under a reserved key. So after a crash the tree stands at the
//!   end of some batch and says which; the log is replayed from there.
//! - **Bounded.** `sealed_max + 1` memtables, the block cache, open files. If flushing or compaction cannot keep up, `apply` waits,
//!   then refuses.

mod error;
mod filter;
mod manifest;
mod options;
mod orphans;
mod snapshot;
mod stats;
#[cfg(test)]
mod tests;
mod work;
mod workers;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

use lsm_tree::{AbstractTree, AnyTree, Memtable, SeqNo, SequenceNumberCounter, ValueType};

pub use error::TreeError;
use error::guarded;
pub use filter::Expiry;
pub use lsm_tree::Slice;
pub use options::Options;
use orphans::Orphans;
use snapshot::Tracker;
pub use snapshot::{Rows, Snapshot};
pub use stats::Stats;
use work::{Sealed, Work};

/// Where the log's position is kept, as 8 bytes, big-endian. Keys that begin with a zero byte are reserved.
const APPLIED_KEY: &[u8] = b"\0applied";
const FIRST_FREE_KEY: &[u8] = &[1];

pub struct Tree {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Applier {
    /// The engine's active memtable: only sealing replaces it, and only the applier seals. Writing to it directly takes none of the
    /// engine's locks, which are held for the length of several syncs whenever tables are registered.
    memtable: Arc<Memtable>,
}

struct Shared {
    dir: PathBuf,
    options: Options,
    tree: lsm_tree::Tree,
    seqno: SequenceNumberCounter,
    /// Held for the length of a batch. Who holds it knows that none is half written.
    applier: Mutex<Applier>,
    tracker: Tracker,
    work: Mutex<Work>,
    changed: Condvar,
    stop: Arc<AtomicBool>,
    orphans: Orphans,
}

impl Tree {
    /// Opens the tree of a folder, or makes a new one. The folder belongs to one process, which the caller has to make sure of.
    pub fn open(dir: &Path, options: Options) -> Result<Self, TreeError> {
        manifest::check(dir)?;
        manifest::remove_temporary_files(dir).map_err(|error| TreeError::from_io(&error, dir))?;
        let stop = Arc::new(AtomicBool::new(false));
        let seqno = SequenceNumberCounter::new(1);
        let config = options.config(dir, &seqno, &stop);
        let (tree, applied) = guarded(dir, || {
            let AnyTree::Standard(tree) = config.open()? else { unreachable!("without key-value separation the tree is a standard one") };
            let applied = tree.get(APPLIED_KEY, SeqNo::MAX)?;
            Ok((tree, applied))
        })
        // Nothing is shared yet, so a panic means nothing worse than that a file is not as expected.
        .map_err(|error| match error {
            TreeError::Broken(what) => TreeError::corrupt(dir, what),
            other => other,
        })?;
        let applied = match applied.as_deref().map(<[u8; 8]>::try_from) {
            Some(Ok(bytes)) => Some(u64::from_be_bytes(bytes)),
            Some(Err(_)) => return Err(TreeError::corrupt(dir, "the applied position is not 8 bytes")),
            None if tree.table_count() > 0 => return Err(TreeError::corrupt(dir, "tables without an applied position")),
            None => None,
        };
        seqno.fetch_max(tree.get_highest_seqno().map_or(1, |highest| highest + 1));

        let applier = Mutex::new(Applier { memtable: tree.active_memtable() });
        let shared = Arc::new(Shared {
            dir: dir.to_path_buf(),
            applier,
            tracker: Tracker::new(seqno.get(), applied),
            work: Mutex::new(Work::new(applied, tree.l0_run_count())),
            changed: Condvar::new(),
            orphans: Orphans::new(&tree),
            options,
            tree,
            seqno,
            stop,
        });
        let threads = workers::start(&shared).map_err(|error| TreeError::from_io(&error, dir))?;
        Ok(Self { shared, threads })
    }

    /// The log's position up to which the tree has everything, in memory or in tables; `None` for a new tree.
    pub fn applied(&self) -> Option<u64> {
        self.shared.tracker.applied()
    }

    /// The log's position up to which everything survives a loss of power.
    pub fn flushed(&self) -> Option<u64> {
        self.shared.work().flushed
    }

    /// Applies one batch: all of it or, on an error, nothing. Snapshots taken after the return see it. `None` deletes.
    ///
    /// Keys are best sorted, which is faster; each at most once. Waits up to `stall_max` if flushing is behind.
    pub fn apply<K: Into<Slice>, V: Into<Slice>>(
        &self,
        entries: impl IntoIterator<Item = (K, Option<V>)>,
        applied: u64,
    ) -> Result<(), TreeError> {
        // All of it before the first row is written: the caller's iterator may panic, and a key may be refused.
        let batch = entries.into_iter().map(|(key, value)| checked(key.into(), value.map(Into::into))).collect::<Result<Vec<_>, _>>()?;
        let mut applier = self.applier()?;
        if let Some(before) = self.applied()
            && applied < before
        {
            return Err(TreeError::Backwards { applied: before, given: applied });
        }
        if self.is_full(&applier) {
            self.shared.wait_for_room()?;
            self.seal(&mut applier)?;
        }

        let start = Instant::now();
        let seqno = self.shared.seqno.next();
        for (key, value) in batch {
            applier.memtable.insert(entry(key, value, seqno));
        }
        applier.memtable.insert(entry(APPLIED_KEY.into(), Some(applied.to_be_bytes().into()), seqno));
        // The counter is at least one above the batch; flushes and compactions may have taken numbers since, whose versions are then readable.
        self.shared.tracker.publish(self.shared.seqno.get(), applied);

        if self.is_full(&applier) && self.shared.work().has_room(&self.shared.options) {
            // The batch is applied; if this fails, the next one finds the memtable full and reports it.
            let _ = self.seal(&mut applier);
        }
        let slowdown = {
            let mut work = self.shared.work();
            work.retired_due = !work.retired.is_empty();
            if work.retired_due {
                self.shared.changed.notify_all();
            }
            work.slowdown()
        };
        if slowdown > 0 {
            std::thread::sleep(start.elapsed() * slowdown);
        }
        Ok(())
    }

    /// The state as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::open(Arc::clone(&self.shared))
    }

    /// Puts everything that has been applied so far into tables.
    pub fn flush(&self) -> Result<(), TreeError> {
        let count = {
            let mut applier = self.applier()?;
            if !applier.memtable.is_empty() {
                self.shared.wait_for_room()?;
                self.seal(&mut applier)?;
            }
            self.shared.work().sealed_count
        };
        self.shared.wait_for_flush(count)
    }

    /// Reads every table as a whole and compares it with the checksum of when it was written. Slow; reads go on meanwhile.
    pub fn verify(&self) -> Result<(), TreeError> {
        // Holding the version keeps its files, whatever compaction does.
        let version = guarded(&self.shared.dir, || Ok(self.shared.tree.current_version()))?;
        version.iter_tables().try_for_each(|table| manifest::check_whole_table(&table.path, table.checksum().into_u128()))
    }

    /// Flushes and ends. Dropping a tree ends without flushing: the log has what is missing.
    #[cfg(test)]
    pub fn close(self) -> Result<(), TreeError> {
        self.flush()
    }

    /// Whoever panicked in the middle of a batch has left rows that the next publication would show.
    fn applier(&self) -> Result<MutexGuard<'_, Applier>, TreeError> {
        let applier = self.shared.applier.lock().map_err(|_| TreeError::Broken("a batch was left half written".to_owned()))?;
        self.shared.work().broken.clone().map_or(Ok(applier), Err)
    }

    fn is_full(&self, applier: &Applier) -> bool {
        applier.memtable.size() >= self.shared.options.memtable_bytes as u64
    }

    fn seal(&self, applier: &mut Applier) -> Result<(), TreeError> {
        let Some(applied) = self.applied() else { return Ok(()) };
        let tree = &self.shared.tree;
        let rotated = guarded(&self.shared.dir, || Ok(tree.rotate_memtable().map(|sealed| (sealed, tree.active_memtable()))));
        match rotated {
            Ok(None) => Ok(()),
            Ok(Some((memtable, active))) => {
                applier.memtable = active;
                let mut work = self.shared.work();
                work.sealed.push_back(Sealed { memtable, applied });
                work.sealed_count += 1;
                self.shared.changed.notify_all();
                Ok(())
            }
            Err(broken) => {
                self.shared.fail(broken.clone(), |work| &mut work.broken);
                Err(broken)
            }
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // The threads catch the engine's panics themselves; there is no one to tell of another.
            let _ = thread.join();
        }
    }
}

fn entry(key: Slice, value: Option<Slice>, seqno: SeqNo) -> lsm_tree::InternalValue {
    match value {
        Some(value) => lsm_tree::InternalValue::from_components(key, value, seqno, ValueType::Value),
        None => lsm_tree::InternalValue::new_tombstone(key, seqno),
    }
}

/// The engine would panic over these.
fn checked(key: Slice, value: Option<Slice>) -> Result<(Slice, Option<Slice>), TreeError> {
    if key.is_empty() || key.len() > u16::MAX.into() || is_reserved(&key) {
        return Err(TreeError::Key(key.len()));
    }
    match &value {
        Some(value) if u32::try_from(value.len()).is_err() => Err(TreeError::Value(value.len())),
        _ => Ok((key, value)),
    }
}

fn is_reserved(key: &[u8]) -> bool {
    key.first() == Some(&0)
}
