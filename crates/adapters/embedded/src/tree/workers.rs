//! The two threads behind a tree: one flushes sealed memtables, oldest first, and one compacts.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, SeqNo};
use tracing::{error, info, warn};

use super::Shared;
use super::error::{TreeError, guarded};
use super::work::{RETRY_CORRUPT, RETRY_FIRST, Work};

/// Both threads give way to those whom someone waits for: on a busy machine the log's writer would otherwise wait for a whole time slice of theirs.
/// Flushing less so, since appliers wait for it in turn.
const FLUSH_NICE: i32 = 5;
const COMPACT_NICE: i32 = 10;

pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let spawn = |name: &str, nice: i32, run: fn(&Shared)| {
        let shared = Arc::clone(shared);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            // On Linux this is the calling thread alone. Where it is not allowed, the thread is merely less polite.
            let _ = rustix::process::setpriority_process(None, nice);
            run(&shared);
        })
    };
    let flusher = spawn("state-flush", FLUSH_NICE, run_flusher)?;
    spawn("state-compact", COMPACT_NICE, run_compactor).map(|compactor| vec![flusher, compactor]).inspect_err(|_| shared.stop())
}

fn run_flusher(shared: &Shared) {
    let mut retry = RETRY_FIRST;
    // One flush takes all memtables that are sealed when it begins, and registers their tables at once: never a newer without an older.
    // One that is sealed in between may go with them; it is counted the next time.
    while let Some(sealed) = shared.next(Work::take_flush) {
        let Some((count, applied)) = sealed else {
            if free_retired(shared).is_err() {
                return;
            }
            continue;
        };
        match flush(shared) {
            Ok(l0_runs) => {
                retry = RETRY_FIRST;
                let mut work = shared.work();
                if work.flush_failure.take().is_some() {
                    info!(applied, "flushing the state works again");
                }
                let flushed: Vec<_> = work.sealed.drain(..count).map(|sealed| sealed.memtable).collect();
                work.retired.extend(flushed);
                work.flushed_count += count as u64;
                work.flushed = Some(applied);
                work.l0_runs = l0_runs;
                work.compaction_due = true;
                shared.changed.notify_all();
                drop(work);
                shared.free_memtables();
                shared.orphans.sweep(&shared.dir);
            }
            Err(failure) => {
                // The memtables stay where they are, readable, and the log keeps what is in them.
                error!(%failure, "failed to flush the state");
                if shared.fail(failure, |work| &mut work.flush_failure) {
                    return;
                }
                shared.orphans.sweep(&shared.dir);
                shared.back_off(&mut retry);
            }
        }
    }
}

/// The engine gives up old versions, with their memtables, only when it makes a new one. That can be a whole memtable later. `Err`: it is broken.
fn free_retired(shared: &Shared) -> Result<(), TreeError> {
    let watermark = watermark(shared);
    let given_up = guarded(&shared.dir, || shared.tree.get_version_history_lock().maintenance(&shared.dir, watermark));
    if let Err(failure) = given_up {
        warn!(%failure, "failed to give up old versions of the state");
        if matches!(failure, TreeError::Broken(_)) {
            shared.fail(failure.clone(), |work| &mut work.flush_failure);
            return Err(failure);
        }
        // It is tried again with the next batch.
    }
    shared.free_memtables();
    Ok(())
}

/// Flushes what is sealed; says how many runs level 0 has then.
fn flush(shared: &Shared) -> Result<usize, TreeError> {
    let tree = &shared.tree;
    let watermark = watermark(shared);
    let result = guarded(&shared.dir, || {
        let lock = tree.get_flush_lock();
        shared.orphans.watch(tree, || tree.flush(&lock, watermark))?;
        Ok(tree.l0_run_count())
    });
    // A flush reads nothing but what it has just written, and writes it anew the next time: no failure of it is there to stay.
    result.map_err(|failure| match failure {
        TreeError::Corrupt { what, .. } | TreeError::Io(what) => TreeError::Unavailable(what),
        other => other,
    })
}

fn run_compactor(shared: &Shared) {
    let strategy = shared.options.strategy();
    let mut retry = RETRY_FIRST;
    while shared.next(Work::take_compaction).is_some() {
        match compact(shared, &strategy) {
            Ok((l0_runs, more)) => {
                retry = RETRY_FIRST;
                let mut work = shared.work();
                work.compaction_failure = None;
                work.l0_runs = l0_runs;
                work.compaction_due |= more;
                work.is_compacting = false;
                shared.changed.notify_all();
                drop(work);
                shared.free_memtables();
                shared.orphans.sweep(&shared.dir);
            }
            Err(_) if shared.stopped() => return,
            Err(failure) => {
                warn!(%failure, "failed to compact the state");
                if matches!(failure, TreeError::Corrupt { .. }) {
                    retry = RETRY_CORRUPT;
                }
                if shared.fail(failure, |work| &mut work.compaction_failure) {
                    return;
                }
                shared.work().compaction_due = true;
                shared.orphans.sweep(&shared.dir);
                shared.back_off(&mut retry);
            }
        }
    }
}

/// One step of compaction; says how many runs level 0 has then, and whether anything changed, so that there may be more to do.
fn compact(shared: &Shared, strategy: &Arc<Leveled>) -> Result<(usize, bool), TreeError> {
    let tree = &shared.tree;
    let watermark = watermark(shared);
    guarded(&shared.dir, || {
        let before = tree.current_version().id();
        shared.orphans.watch(tree, || tree.compact(Arc::clone(strategy) as _, watermark))?;
        let more = tree.current_version().id() != before;
        if !more {
            // The engine gives up old versions, with their memtables and files, only when it makes a new one: on an idle tree, never.
            tree.get_version_history_lock().maintenance(&shared.dir, watermark)?;
        }
        Ok((tree.l0_run_count(), more))
    })
}

/// The oldest position that someone reads at, now or later.
fn watermark(shared: &Shared) -> SeqNo {
    // Flushes and compactions take sequence numbers too. Between batches, reading above them shows nothing new, and lets go of what they
    // have replaced; in the middle of one, its end will do that.
    if let Ok(_between_batches) = shared.applier.try_lock() {
        shared.tracker.advance(shared.seqno.get());
    }
    shared.tracker.watermark(shared.options.snapshot_max)
}
