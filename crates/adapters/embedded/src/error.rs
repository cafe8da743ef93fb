//! What the drivers' errors mean to a caller. Mapped here and nowhere else.

use std::{io, path::Path};

use dunlin_ports::StoreError;
use rusqlite::ErrorCode;

/// Whether a failure may have left something behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attempt {
    /// Nothing changes before it has succeeded: a read, or a write that is undone when it fails.
    Clean,
    /// It may have been done before it failed.
    Doubtful,
}

impl Attempt {
    fn failed(self, why: String) -> StoreError {
        match self {
            Attempt::Clean => StoreError::Unavailable(why),
            Attempt::Doubtful => StoreError::Unknown(why),
        }
    }
}

pub fn sqlite(file: &Path, attempt: Attempt, error: &rusqlite::Error) -> StoreError {
    let why = format!("{}: {error}", file.display());
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Corrupt(why),
            ErrorCode::ConstraintViolation => StoreError::Conflict(why),
            // An fsync that failed leaves open what is on the disk.
            ErrorCode::SystemIoFailure => attempt.failed(why),
            // A full disk, a lock that someone else holds, a file that can't be opened: SQLite has undone the transaction.
            _ => StoreError::Unavailable(why),
        },
        // A value that can't be read as what its column says: only someone else can have written it.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => StoreError::Corrupt(why),
        _ => StoreError::Unavailable(why),
    }
}

pub fn io(path: &Path, attempt: Attempt, error: &io::Error) -> StoreError {
    let why = format!("{}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => StoreError::Corrupt(why),
        _ => attempt.failed(why),
    }
}

/// Work on another thread that did not end by itself: it panicked, or the runtime is shutting down.
pub fn task(attempt: Attempt, error: &tokio::task::JoinError) -> StoreError {
    attempt.failed(format!("a blocking task did not finish: {error}"))
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn failure(code: i32, attempt: Attempt) -> StoreError {
        sqlite(Path::new("directory.sqlite"), attempt, &rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn a_full_disk_is_unavailable() {
        assert!(matches!(failure(ffi::SQLITE_FULL, Attempt::Doubtful), StoreError::Unavailable(_)));
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(matches!(io(Path::new("blobs"), Attempt::Clean, &full), StoreError::Unavailable(_)));
    }

    #[test]
    fn a_damaged_file_is_corrupt_and_named() {
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB] {
            let StoreError::Corrupt(why) = failure(code, Attempt::Clean) else { panic!("{code} is corrupt") };
            assert!(why.contains("directory.sqlite"), "{why}");
        }
    }

    #[test]
    fn a_failed_sync_leaves_the_outcome_unknown() {
        assert!(matches!(failure(ffi::SQLITE_IOERR_FSYNC, Attempt::Doubtful), StoreError::Unknown(_)));
        assert!(matches!(failure(ffi::SQLITE_IOERR_READ, Attempt::Clean), StoreError::Unavailable(_)));
    }
}
