//! The data folder: one process at a time, one format, and a log and a state that belong together.
//!
//! ```text
//! FORMAT              which version wrote it
//! LOCK                held by the process that has it open
//! log/                what happened
//! state/              what follows from it
//! directory.sqlite    users, server keys, revocations
//! blobs/              attachments
//! ```

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use dunlin_model::{Epoch, Millis};
use dunlin_ports::StoreError;
use tracing::info;

use crate::{
    Blobs, Directory, EventLog, Messages, StateStats,
    log::{self, Log, LogError, Verify},
    store::Lifetimes,
    tree::{self, Tree, TreeError},
};

/// What this version writes, and all that it reads.
const FORMAT: &str = "dunlin 3\n";

const STATE: &str = "state";
const STATE_ASIDE: &str = "state.old";

#[derive(Clone, Debug)]
pub struct Options {
    pub segment_bytes: u32,
    pub memtable_bytes: usize,
    /// How many full memtables may wait for the disk.
    pub sealed_max: usize,
    pub cache_bytes: u64,
    pub files_max: usize,
    /// How long a `client_id` is kept, in log time: the dedup window and some more.
    pub dedup_keep_ms: u64,
    /// Read every record of the log when opening, not only the last segment.
    pub verify_log: bool,
}

impl Default for Options {
    fn default() -> Options {
        let tree = tree::Options::default();
        Options {
            segment_bytes: log::SEGMENT_BYTES,
            memtable_bytes: tree.memtable_bytes,
            sealed_max: tree.sealed_max,
            cache_bytes: tree.cache_bytes,
            files_max: tree.descriptors,
            dedup_keep_ms: 15 * Millis::DAY,
            verify_log: false,
        }
    }
}

/// An open data folder. Dropping it closes it without flushing the state: the log has what is missing.
pub struct Folder {
    pub log: Arc<EventLog>,
    pub store: Arc<Messages>,
    pub directory: Arc<Directory>,
    pub blobs: Arc<Blobs>,
    pub(crate) segments: Arc<Log>,
    path: PathBuf,
    /// Released by the system when the process ends, however it ends.
    _lock: File,
}

/// How large the parts are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    pub log_bytes: u64,
    pub state_bytes: u64,
    pub memtable_bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is in use by another process; stop that one first", .0.display())]
    InUse(PathBuf),
    #[error("{} says {found:?}, this program reads {FORMAT:?}: use the program that wrote the folder", path.display())]
    Format { path: PathBuf, found: String },
    #[error("{} holds files but no FORMAT: not a data folder of dunlin, or its FORMAT was deleted; choose an empty or a new folder", .0.display())]
    NotOurs(PathBuf),
    #[error("{} is gone, but what belongs to it is there: restore the log; do not start without it", .0.display())]
    NoLog(PathBuf),
    #[error("the state in {} has applied {applied} events, the log holds {durable}: the log was cut or replaced; restore the log that belongs to this state", path.display())]
    StateAhead { path: PathBuf, applied: u64, durable: u64 },
    #[error("the log in {} begins at {oldest}, the state has applied only {applied}: events in between are gone; restore the state or the log from a backup", path.display())]
    StateBehind { path: PathBuf, applied: u64, oldest: u64 },
    #[error("{} is missing or empty, and the log is not: it holds users, server keys and revoked tokens, which are nowhere else; restore it from a backup", .0.display())]
    NoDirectory(PathBuf),
    #[error("the log in {} begins at {oldest}: what came before was trimmed, so the state can't be rebuilt from it; restore a backup", path.display())]
    Trimmed { path: PathBuf, oldest: u64 },
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    State(#[from] TreeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("failed to open {}: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
}

impl OpenError {
    /// Whether what is stored is wrong, rather than out of reach.
    pub fn is_damage(&self) -> bool {
        match self {
            OpenError::StateAhead { .. } | OpenError::StateBehind { .. } | OpenError::NoLog(_) | OpenError::NoDirectory(_) => true,
            OpenError::Log(error) => matches!(error, LogError::Corrupt { .. }),
            OpenError::State(error) => matches!(error, TreeError::Corrupt { .. }),
            OpenError::Store(error) => matches!(error, StoreError::Corrupt(_)),
            OpenError::InUse(_) | OpenError::Format { .. } | OpenError::NotOurs(_) | OpenError::Trimmed { .. } | OpenError::Io { .. } => {
                false
            }
        }
    }
}

impl Folder {
    /// Opens a data folder, or makes one of an empty or absent folder. Blocks.
    pub fn open(path: &Path, options: &Options) -> Result<Folder, OpenError> {
        let failed = |cause| OpenError::Io { path: path.to_owned(), cause };
        if path.is_file() {
            return Err(failed(io::Error::other("it is a file, not a folder")));
        }
        // What is in it is nobody's business but the server's.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let lock = lock(path)?;
        check_format(path)?;
        // The log is made first of all, so where anything else is, it was there.
        let directory = path.join("directory.sqlite");
        if !path.join("log").exists() && [path.join(STATE), path.join(STATE_ASIDE), directory.clone()].iter().any(|other| other.exists()) {
            return Err(OpenError::NoLog(path.join("log")));
        }
        let (segments, _) = Log::open(path.join("log"), log_options(options))?;
        let state = path.join(STATE);
        if !state.exists() && path.join(STATE_ASIDE).exists() {
            // A rebuild is under way, or was cut off after its first step: the log has everything that the new state needs.
            info!("the state was set aside; it is made anew from the log");
        }
        let lifetimes = Lifetimes::new(options.dedup_keep_ms);
        let now = lifetimes.now();
        let tree = Tree::open(&state, tree_options(options, lifetimes))?;
        check_positions(path, tree.applied().unwrap_or(0), &segments)?;
        // Nothing is appended before the directory is made.
        if segments.durable() > 0 && fs::metadata(&directory).map_or(true, |file| file.len() == 0) {
            return Err(OpenError::NoDirectory(directory));
        }
        let segments = Arc::new(segments);
        Ok(Folder {
            log: Arc::new(EventLog::new(Arc::clone(&segments))),
            store: Arc::new(Messages::new(tree, Epoch(segments.epoch()), now)),
            directory: Arc::new(Directory::open(&directory)?),
            blobs: Arc::new(Blobs::open(&path.join("blobs"))?),
            segments,
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Puts the state aside so that the next opening makes it anew from the log; refused if the log no longer has everything.
    pub fn set_state_aside(path: &Path, options: &Options) -> Result<(), OpenError> {
        let failed = |cause| OpenError::Io { path: path.to_owned(), cause };
        if !path.join("FORMAT").exists() {
            return Err(OpenError::NotOurs(path.to_owned()));
        }
        let _lock = lock(path)?;
        check_format(path)?;
        // All of it is read first: with a damaged log the state that is there is all that there is.
        let (segments, _) = Log::open(path.join("log"), log::Options { verify: Verify::All, ..log_options(options) })?;
        if segments.oldest() > 0 {
            return Err(OpenError::Trimmed { path: path.to_owned(), oldest: segments.oldest() });
        }
        let (state, aside) = (path.join(STATE), path.join(STATE_ASIDE));
        match (state.exists(), aside.exists()) {
            (false, _) => return Ok(()),
            // An earlier rebuild was cut off: what is aside is older and whole, what it made may be neither.
            (true, true) => fs::remove_dir_all(&state).map_err(failed)?,
            (true, false) => fs::rename(&state, &aside).map_err(failed)?,
        }
        sync_folder(path).map_err(failed)
    }

    /// Removes the state that was put aside, once the new one is durable.
    pub fn drop_state_aside(&self) -> Result<(), OpenError> {
        let aside = self.path.join(STATE_ASIDE);
        match fs::remove_dir_all(&aside) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(OpenError::Io { path: aside, cause }),
            _ => Ok(()),
        }
    }

    /// The next offset that the log will give: everything below is durable.
    pub fn durable(&self) -> u64 {
        self.segments.durable()
    }

    /// Puts everything applied so far into files, so that the next opening has nothing to replay. Blocks.
    pub fn flush(&self) -> Result<(), OpenError> {
        Ok(self.store.tree().flush()?)
    }

    pub fn sizes(&self) -> Sizes {
        let stats = self.store.tree().stats();
        Sizes {
            log_bytes: self.segments.segments().iter().map(|segment| u64::from(segment.bytes)).sum(),
            state_bytes: stats.disk_bytes,
            memtable_bytes: stats.memtable_bytes + stats.sealed_bytes,
        }
    }

    pub fn state_stats(&self) -> StateStats {
        self.store.tree().stats()
    }

    /// Why the state can't be written at the moment, while it can't.
    pub fn trouble(&self) -> Option<String> {
        self.store.tree().stats().failure.map(|failure| failure.to_string())
    }

    /// Reads every file of the state as a whole against its checksum. Slow.
    pub fn verify_state(&self) -> Result<(), OpenError> {
        Ok(self.store.tree().verify()?)
    }
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let failed = |cause| OpenError::Io { path: path.join("LOCK"), cause };
    let file = File::options().create(true).truncate(false).write(true).open(path.join("LOCK")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// A new folder gets our mark before anything else; any other mark is not ours to touch.
fn check_format(path: &Path) -> Result<(), OpenError> {
    let file = path.join("FORMAT");
    let failed = |cause| OpenError::Io { path: file.clone(), cause };
    match fs::read(&file) {
        Ok(found) if found == FORMAT.as_bytes() => Ok(()),
        Ok(found) => Err(OpenError::Format { path: file, found: String::from_utf8_lossy(&found[..found.len().min(40)]).into_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if fs::read_dir(path).map_err(failed)?.flatten().any(|entry| entry.file_name() != "LOCK" && entry.file_name() != "FORMAT.new") {
                return Err(OpenError::NotOurs(path.to_owned()));
            }
            let new = path.join("FORMAT.new");
            let mut written = File::create(&new).map_err(failed)?;
            written.write_all(FORMAT.as_bytes()).and_then(|()| written.sync_all()).map_err(failed)?;
            fs::rename(&new, &file).map_err(failed)?;
            sync_folder(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

fn check_positions(path: &Path, applied: u64, log: &Log) -> Result<(), OpenError> {
    let path = path.to_owned();
    match (log.oldest(), log.durable()) {
        (_, durable) if applied > durable => Err(OpenError::StateAhead { path, applied, durable }),
        // The last applied event itself must still be there: it tells whether this is the same log.
        (oldest, _) if applied.saturating_sub(1) < oldest => Err(OpenError::StateBehind { path, applied, oldest }),
        _ => Ok(()),
    }
}

fn log_options(options: &Options) -> log::Options {
    let verify = if options.verify_log { Verify::All } else { Verify::Last };
    log::Options { segment_bytes: options.segment_bytes, verify, ..log::Options::default() }
}

fn tree_options(options: &Options, lifetimes: Lifetimes) -> tree::Options {
    tree::Options {
        memtable_bytes: options.memtable_bytes,
        sealed_max: options.sealed_max,
        cache_bytes: options.cache_bytes,
        descriptors: options.files_max,
        expiry: Some(Arc::new(lifetimes)),
        ..tree::Options::default()
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
