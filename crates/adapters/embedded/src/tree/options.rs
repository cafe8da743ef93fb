//! What can be chosen about a tree, and what is fixed, with the reasons.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lsm_tree::compaction::Leveled;
use lsm_tree::config::{BlockSizePolicy, CompressionPolicy, PartitioningPolicy, PinningPolicy};
use lsm_tree::{Cache, CompressionType, Config, DescriptorTable, SequenceNumberCounter};

use super::filter::{Expiry, Filters};

/// How many runs gather in level 0 before they are merged: the more, the less often the levels below are written again.
const L0_RUNS_COMPACT: u8 = 8;

#[derive(Clone)]
pub struct Options {
    /// A memtable is sealed once it is this large (keys, values and the engine's own cost for each row).
    pub memtable_bytes: usize,
    /// How many sealed memtables may wait for the flusher, at least one.
    pub sealed_max: usize,
    /// Cache of blocks read from tables.
    pub cache_bytes: u64,
    /// Open files of tables.
    pub descriptors: usize,
    /// Size that compaction aims at for a table. The last table of a compaction is synced under the engine's lock, with all readers
    /// waiting, so larger ones mean longer stalls.
    pub table_bytes: u64,
    /// How long `apply` waits for room before it refuses.
    pub stall_max: Duration,
    /// How long a snapshot may be open.
    pub snapshot_max: Duration,
    /// Rows that compaction may drop.
    pub expiry: Option<Arc<dyn Expiry>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memtable_bytes: 16 << 20,
            sealed_max: 1,
            cache_bytes: 16 << 20,
            descriptors: 256,
            table_bytes: 16 << 20,
            stall_max: Duration::from_secs(10),
            snapshot_max: Duration::from_secs(60),
            expiry: None,
        }
    }
}

impl Options {
    /// - Blocks of 4 KiB: larger ones saved a few per cent of disk and made single reads slower.
    /// - LZ4 from level 2 on, where all but the newest few hundred MiB are: a third less disk for rows of text. Levels 0 and 1 are written again
    ///   too often for it.
    /// - Indexes and filters in partitions below level 0: a read of a cold table loads 4 KiB of them rather than hundreds, opening reads only
    ///   their top, and memory stays with the cache. Level 0 is small and in every read's way, so its are pinned.
    /// - No separation of keys and large values: values above a block are rare here, and separated ones bring a second kind of file with
    ///   garbage collection of its own.
    pub(super) fn config(&self, dir: &Path, seqno: &SequenceNumberCounter, stop: &Arc<AtomicBool>) -> Config {
        // The second counter is what the engine takes for visible; nobody reads it.
        Config::new(dir, seqno.clone(), SequenceNumberCounter::default())
            .use_cache(Arc::new(Cache::with_capacity_bytes(self.cache_bytes)))
            .use_descriptor_table(Some(Arc::new(DescriptorTable::new(self.descriptors))))
            .data_block_size_policy(BlockSizePolicy::all(4096))
            .data_block_compression_policy(CompressionPolicy::new([CompressionType::None, CompressionType::None, CompressionType::Lz4]))
            .index_block_partitioning_policy(PartitioningPolicy::new([false, true]))
            .filter_block_partitioning_policy(PartitioningPolicy::new([false, true]))
            .index_block_pinning_policy(PinningPolicy::new([true, false]))
            .filter_block_pinning_policy(PinningPolicy::new([true, false]))
            .with_compaction_filter_factory(Some(Arc::new(Filters { expiry: self.expiry.clone(), stop: Arc::clone(stop) })))
    }

    pub(super) fn strategy(&self) -> Arc<Leveled> {
        Arc::new(Leveled::default().with_table_target_size(self.table_bytes).with_l0_threshold(L0_RUNS_COMPACT))
    }
}
