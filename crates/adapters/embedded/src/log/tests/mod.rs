//! The log's promises, through its handle and its files.

mod appending;
mod damage;
mod faults;
mod tailing;
mod tearing;

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::record::{self, Head, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::segment::{self, Disk, RealDisk, SegmentFile};
use super::{Backing, Log, LogError, Options, ReadLimit, Record, Recovered};

const SALT: u32 = 0x5a17;
const SEGMENT: u32 = 512;
const ALL: ReadLimit = ReadLimit { records: usize::MAX, payload_bytes: usize::MAX };

/// Segments for about ten small records, on a disk that never fails.
fn small() -> Options {
    with_disk(|_, _| Fate::Pass)
}

fn open(dir: &Path) -> (Log, Recovered) {
    Log::open(dir, small()).expect("opens")
}

fn refusal(dir: &Path, options: Options) -> LogError {
    Log::open(dir, options).err().expect("refused")
}

async fn append(log: &Log, payloads: impl IntoIterator<Item = impl AsRef<str>>) {
    for payload in payloads {
        log.append(payload.as_ref().to_owned()).await.expect("appends");
    }
}

/// All payloads from a position on; their positions follow one another.
fn read(log: &Log, from: u64) -> Result<Vec<String>, LogError> {
    let (mut tail, mut records) = (log.tail(from)?, Vec::new());
    while from + (records.len() as u64) < log.durable() {
        records.extend(tail.try_next(ALL)?);
    }
    assert!(records.iter().zip(from..).all(|(record, position)| record.position == position));
    Ok(texts(&records))
}

fn texts(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8(record.payload.to_vec()).expect("text")).collect()
}

/// A log's folder, made byte by byte: the groups of each segment, payload by payload.
fn write_log(dir: &Path, segments: &[&[&[&str]]]) {
    let (mut position, mut previous) = (0, 0);
    for groups in segments {
        let base = position;
        let header = SegmentHeader { epoch: 2, bytes: SEGMENT, base, previous, floor_ms: base, salt: SALT };
        let mut bytes = header.encode().to_vec();
        for group in groups.iter() {
            let first = position;
            for payload in group.iter() {
                record::encode(&mut bytes, SALT, Head { position, group: first, time_ms: position }, payload.as_bytes());
                position += 1;
            }
        }
        assert!(bytes.len() <= SEGMENT as usize, "the segment is too small for the test");
        bytes.resize(SEGMENT as usize, 0);
        put(segment::path_of(dir, base), bytes);
        previous = base;
    }
}

/// Offset of the n-th record in a segment of records that all have such payloads.
fn offset_of(n: usize, payload: &str) -> usize {
    SEGMENT_HEADER_BYTES + n * record::record_bytes(payload.len())
}

/// Writes a file in place: some file systems sync one that is truncated first, which is slow.
fn put(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).expect("opens");
    file.set_len(bytes.as_ref().len() as u64).expect("sets the length");
    file.write_all_at(bytes.as_ref(), 0).expect("writes");
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("reads");
    change(&mut bytes);
    put(path, bytes);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Write,
    Sync,
    SyncDir,
}

#[derive(Clone, Copy)]
enum Fate {
    Pass,
    Fail(io::ErrorKind),
    /// Half of a write is done first.
    FailHalfway(io::ErrorKind),
}

/// A disk whose operations fail, or wait, as the test says. Syncs are not passed on: nothing here loses power, and they are slow.
struct TestDisk<F>(F);

impl<F: Fn(Op, &Path) -> Fate + Send + Sync> Disk for TestDisk<F> {
    fn write(&self, to: &SegmentFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        match (self.0)(Op::Write, &to.path) {
            Fate::Pass => RealDisk.write(to, bytes, offset),
            Fate::Fail(kind) => Err(kind.into()),
            Fate::FailHalfway(kind) => RealDisk.write(to, &bytes[..bytes.len() / 2], offset).and(Err(kind.into())),
        }
    }

    fn sync(&self, segment: &SegmentFile) -> io::Result<()> {
        match (self.0)(Op::Sync, &segment.path) {
            Fate::Pass => Ok(()),
            Fate::Fail(kind) | Fate::FailHalfway(kind) => Err(kind.into()),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match (self.0)(Op::SyncDir, dir) {
            Fate::Pass => Ok(()),
            Fate::Fail(kind) | Fate::FailHalfway(kind) => Err(kind.into()),
        }
    }
}

fn with_disk(judge: impl Fn(Op, &Path) -> Fate + Send + Sync + 'static) -> Options {
    let backing = Backing { disk: Arc::new(TestDisk(judge)), prepare_retry: Duration::from_millis(5) };
    Options { segment_bytes: SEGMENT, payload_bytes_max: 128, backing, ..Options::default() }
}
