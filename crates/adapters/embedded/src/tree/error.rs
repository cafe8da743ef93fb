//! What can go wrong with the state, and how the engine's errors are read. Nothing else names the engine's error type.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Says what the caller can do: wait and retry (`Full`, `Unavailable`), take a new snapshot, restart, or rebuild from the log.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TreeError {
    /// Nothing of the batch was applied. Retry when there is room again; no restart is needed.
    #[error("no room on the disk to flush the state")]
    Full,

    /// Nothing of the batch was applied. Retry later; no restart is needed.
    #[error("the state cannot be flushed or compacted for now: {0}")]
    Unavailable(String),

    /// A file is damaged or gone. Only a rebuild from the log, or a backup, helps.
    #[error("the state is damaged at {}: {what}", path.display())]
    Corrupt { path: PathBuf, what: String },

    /// The engine panicked and may hold poisoned locks. Nothing in files is lost: a restart opens them and replays the log.
    #[error("the state's engine stopped: {0}")]
    Broken(String),

    /// The snapshot was open for longer than `Options::snapshot_max`. Its reads could be wrong by now, so there are none.
    #[error("the snapshot was open for too long")]
    SnapshotExpired,

    /// Keys are 1 to 65,535 bytes and do not begin with a zero byte, which is reserved.
    #[error("the key of {0} bytes is empty, too long or reserved")]
    Key(usize),

    /// Values are below 4 GiB.
    #[error("the value of {0} bytes is too long")]
    Value(usize),

    /// The log's position only moves forward.
    #[error("position {given} lies before {applied}, which is already applied")]
    Backwards { applied: u64, given: u64 },

    #[error("failed to read or write the state: {0}")]
    Io(String),
}

impl TreeError {
    /// What an engine error means. It rarely names a file (it logs the name instead), so the damaged folder stands in for it.
    pub(super) fn from_engine(error: lsm_tree::Error, dir: &Path) -> Self {
        match error {
            lsm_tree::Error::Io(error) => Self::from_io(&error, dir),
            other => Self::corrupt(dir, format!("{other:?}")),
        }
    }

    /// Reading past a file's end, or a file that the manifest names and the folder lacks, is damage and not a passing fault.
    pub(super) fn from_io(error: &io::Error, path: &Path) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound | io::ErrorKind::InvalidData => Self::corrupt(path, error.to_string()),
            _ => Self::Io(format!("{}: {error}", path.display())),
        }
    }

    pub(super) fn corrupt(path: &Path, what: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_path_buf(), what: what.into() }
    }
}

/// Runs a call into the engine and turns a panic into an error.
///
/// The engine asserts and expects its way through parts of its files, and every lock of it panics once a writer has panicked. None of that
/// may take the whole process down. The state that a panic leaves behind is never used again: the caller reports `Broken` from then on.
pub(super) fn guarded<T>(dir: &Path, call: impl FnOnce() -> lsm_tree::Result<T>) -> Result<T, TreeError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| TreeError::from_engine(error, dir)),
        Err(panic) => Err(TreeError::Broken(panic_message(&*panic))),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic without a message").to_owned()
}
