//! Reading: one path for replay after a restart and for live tailing. Only what is durable is read, and every record is checked, for
//! closed segments are not read when the log is opened.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use tokio::sync::watch;

use super::Durable;
use super::catalog::{Catalog, SegmentInfo};
use super::error::{Damage, LogError};
use super::record::{self, SEGMENT_HEADER_BYTES};
use super::segment::{self, SegmentFile};

/// Read at once where more than that is there. Records share the memory of their chunk, so it is also what one kept record can keep.
const CHUNK_BYTES: usize = 256 * 1024;

/// A durable record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub position: u64,
    pub time_ms: u64,
    /// A slice of a larger chunk: copy what is kept for long.
    pub payload: Bytes,
}

/// When one call has enough: at least one record is returned, and the last one may go beyond `payload_bytes`.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimit {
    pub records: usize,
    pub payload_bytes: usize,
}

/// Reads the log in order from a position on. Any number of them can be open.
///
/// Reads happen in the calling thread: a MiB that is in the page cache takes well below a millisecond, one that is not takes what the disk takes.
/// A caller that may not block for that reads on a thread of its own, or little at a time.
pub struct Tail {
    dir: PathBuf,
    salt: u32,
    catalog: Arc<Catalog>,
    published: watch::Receiver<Durable>,
    /// Position of the next record that is returned.
    next: u64,
    cursor: Option<Cursor>,
}

/// A place in an open segment.
struct Cursor {
    segment: SegmentFile,
    info: SegmentInfo,
    /// Position and offset of the next record in the file: below `Tail::next` while the place is still sought.
    position: u64,
    offset: u64,
    /// What was read ahead, beginning at `offset`.
    ahead: Bytes,
}

impl Tail {
    pub(super) fn new(
        dir: PathBuf,
        salt: u32,
        catalog: Arc<Catalog>,
        published: watch::Receiver<Durable>,
        from: u64,
    ) -> Result<Self, LogError> {
        let next = published.borrow().position;
        if from > next {
            return Err(LogError::Ahead { from, next });
        }
        catalog.find(from).map_err(|oldest| LogError::Trimmed { from, oldest })?;
        Ok(Self { dir, salt, catalog, published, next: from, cursor: None })
    }

    /// The next records, at least one; waits at the end. `Closed` once the log is closed and everything was read. Dropping the future
    /// loses nothing.
    pub async fn next(&mut self, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        loop {
            let records = self.try_next(limit)?;
            if !records.is_empty() {
                return Ok(records);
            }
            self.published.changed().await.map_err(|_| LogError::Closed)?;
        }
    }

    /// The next records; none at the end.
    pub fn try_next(&mut self, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        let durable = *self.published.borrow_and_update();
        let salt = self.salt;
        let mut records = Vec::new();
        let mut bytes = 0;
        while self.next < durable.position && (records.is_empty() || (records.len() < limit.records && bytes < limit.payload_bytes)) {
            let record = match self.cursor(durable).and_then(|cursor| cursor.read(salt, durable)) {
                Ok(record) => record,
                Err(error) if records.is_empty() => return Err(error),
                // What was read is not lost; the error is found again by the next call.
                Err(_) => break,
            };
            if record.position < self.next {
                continue; // still seeking the place in the segment
            }
            self.next += 1;
            bytes += record.payload.len();
            records.push(record);
        }
        Ok(records)
    }

    /// The place to read on, in the next segment where one ends.
    fn cursor(&mut self, durable: Durable) -> Result<&mut Cursor, LogError> {
        let cursor = match self.cursor.take() {
            None => self.open(self.next)?,
            Some(cursor) if cursor.ended() => self.open(cursor.position)?,
            Some(cursor) if cursor.info.closed_ms.is_some() || cursor.info.base == durable.segment => cursor,
            Some(cursor) => {
                // Its segment was closed since. Looked up by the position, not by the base: once read to its end it may also be trimmed.
                let info = self.find(cursor.position)?;
                if info.base == cursor.info.base { Cursor { info, ..cursor } } else { self.open(cursor.position)? }
            }
        };
        Ok(self.cursor.insert(cursor))
    }

    fn open(&self, position: u64) -> Result<Cursor, LogError> {
        let info = self.find(position)?;
        let path = segment::path_of(&self.dir, info.base);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) => {
                self.find(position)?; // it may have been trimmed a moment ago
                return Err(LogError::io("open", &path)(error));
            }
        };
        let segment = SegmentFile { file, path };
        Ok(Cursor { segment, info, position: info.base, offset: SEGMENT_HEADER_BYTES as u64, ahead: Bytes::new() })
    }

    fn find(&self, position: u64) -> Result<SegmentInfo, LogError> {
        self.catalog.find(position).map_err(|oldest| LogError::Trimmed { from: self.next, oldest })
    }
}

impl Cursor {
    fn read(&mut self, salt: u32, durable: Durable) -> Result<Record, LogError> {
        let limit = if self.info.base == durable.segment { durable.offset } else { self.info.bytes.into() };
        if !self.has_whole_record() {
            self.read_ahead(CHUNK_BYTES, limit)?;
        }
        if !self.has_whole_record() {
            self.read_ahead(record::claimed_bytes(&self.ahead).unwrap_or(0), limit)?;
        }
        let Some(found) = record::decode(&self.ahead, salt).filter(|found| found.head.position == self.position) else {
            return Err(LogError::corrupt(&self.segment.path, self.offset, Damage::Record(self.position)));
        };
        let payload = self.ahead.slice(found.payload);
        self.ahead.advance(found.bytes);
        self.offset += found.bytes as u64;
        self.position += 1;
        Ok(Record { position: found.head.position, time_ms: found.head.time_ms, payload })
    }

    fn ended(&self) -> bool {
        self.info.closed_ms.is_some() && self.position == self.info.end
    }

    fn has_whole_record(&self) -> bool {
        record::claimed_bytes(&self.ahead).is_some_and(|bytes| bytes <= self.ahead.len())
    }

    /// Reads from `offset` on, up to the limit.
    fn read_ahead(&mut self, bytes: usize, limit: u64) -> Result<(), LogError> {
        let there = limit.saturating_sub(self.offset);
        let bytes = usize::try_from(there).map_or(bytes, |there| bytes.min(there));
        if bytes <= self.ahead.len() {
            return Ok(());
        }
        let mut chunk = vec![0; bytes];
        self.segment.file.read_exact_at(&mut chunk, self.offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => LogError::corrupt(&self.segment.path, self.offset, Damage::Length(self.info.bytes.into())),
            _ => LogError::io("read", &self.segment.path)(error),
        })?;
        self.ahead = chunk.into();
        Ok(())
    }
}
