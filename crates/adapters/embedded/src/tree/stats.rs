//! Numbers for people and dashboards.

use lsm_tree::AbstractTree;

use super::Tree;
use super::error::{TreeError, guarded};

#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub memtable_bytes: u64,
    pub sealed: usize,
    pub sealed_bytes: u64,
    /// Data blocks of all tables; indexes and filters add a few per cent.
    pub disk_bytes: u64,
    pub tables: usize,
    /// Tables of each level.
    pub levels: Vec<usize>,
    pub l0_runs: usize,
    /// Compaction has, or may have, something to do.
    pub is_compacting: bool,
    pub snapshots: usize,
    /// Older moments that are kept, each with its memtables and tables, because a snapshot may read them.
    pub versions_kept: usize,
    /// Why flushing or compaction fails at the moment.
    pub failure: Option<TreeError>,
}

impl Tree {
    pub fn stats(&self) -> Stats {
        let tree = &self.shared.tree;
        let snapshots = self.shared.tracker.open_count();
        // A broken engine has no numbers, but the reason is worth showing.
        let stats = guarded(&self.shared.dir, || {
            let version = tree.current_version();
            Ok(Stats {
                memtable_bytes: tree.active_memtable().size(),
                disk_bytes: tree.disk_space(),
                tables: version.table_count(),
                levels: version.iter_levels().map(|level| level.table_count()).collect(),
                versions_kept: tree.version_free_list_len(),
                ..Stats::default()
            })
        });
        let work = self.shared.work();
        let sealed_bytes = work.sealed.iter().map(|sealed| sealed.memtable.size()).sum();
        let common = stats.unwrap_or_default();
        Stats {
            sealed: work.sealed.len(),
            sealed_bytes,
            l0_runs: work.l0_runs,
            is_compacting: work.compaction_due || work.is_compacting,
            snapshots,
            failure: work.failure(),
            ..common
        }
    }
}
