//! What can go wrong, told by what the caller can do about it. Details that only an operator can use go to the logs.

use std::io;
use std::path::{Path, PathBuf};

/// Why an append was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Above `Options::payload_bytes_max`; nothing was written.
    #[error("payload is larger than the log takes")]
    TooLarge,
    /// Nothing was written. The log goes on by itself once there is room.
    #[error("disk is full")]
    Full,
    /// Nothing was written. Either a next segment could not be made, which is retried, or an earlier write or sync failed and only
    /// reopening tells what the disk holds; the logs say which.
    #[error("log takes no appends")]
    Unavailable,
    /// The record may or may not be found when the log is next opened.
    #[error("failed to write or sync; outcome unknown")]
    Unknown,
    /// Nothing was written.
    #[error("log is closed")]
    Closed,
}

impl AppendError {
    /// What a failure means that happened before any record was written.
    pub(super) fn before_writing(error: &io::Error) -> Self {
        if is_full(error) { Self::Full } else { Self::Unavailable }
    }
}

/// Why the log could not be opened, read or trimmed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// What was durable is damaged or gone. Never repaired by itself: that would forget acknowledged records.
    #[error("log is damaged: {what}, in {} at byte {offset}; restore this file from a backup or a replica, do not delete or edit it", file.display())]
    Corrupt { file: PathBuf, offset: u64, what: Damage },
    #[error("{} has format version {version}, this program reads {}: use the program that wrote it", file.display(), super::record::FORMAT_VERSION)]
    Version { file: PathBuf, version: u16 },
    #[error("position {from} was trimmed; the log begins at {oldest}")]
    Trimmed { from: u64, oldest: u64 },
    #[error("position {from} is ahead of the log, which ends at {next}: the log was cut or replaced")]
    Ahead { from: u64, next: u64 },
    #[error("log is closed")]
    Closed,
    #[error("log options do not fit together: {0}")]
    Options(&'static str),
    #[error("failed to {doing} {}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

/// How a file differs from what must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("record {0} is bad although it had been synced")]
    Record(u64),
    #[error("segment header is bad")]
    Header,
    #[error("segment header names base {0}, the file name another")]
    Base(u64),
    #[error("segment before it is missing (base {0})")]
    Gap(u64),
    #[error("segment belongs to another log")]
    Foreign,
    #[error("file should have {0} bytes")]
    Length(u64),
}

impl LogError {
    /// For `map_err`: names what was tried.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    pub(super) fn corrupt(file: &Path, offset: u64, what: Damage) -> Self {
        Self::Corrupt { file: file.to_owned(), offset, what }
    }
}

/// No room, on the disk or in a quota.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
