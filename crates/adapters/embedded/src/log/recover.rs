//! Opening: finds the segments, checks that they belong together, and settles where the log ends. What is not here: whether the log still fits
//! what was derived from it, missing first or last segments included; the caller finds that out, from `Recovered`.

use std::collections::VecDeque;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use tracing::{info, warn};

use super::catalog::SegmentInfo;
use super::end::{self, Torn};
use super::error::{Damage, LogError};
use super::record::{BadHeader, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::segment::{self, Disk, Pace, SegmentFile};
use super::writer::Active;
use super::{Options, Verify};

/// What opening found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// First position that can still be read.
    pub oldest: u64,
    /// Position of the next append.
    pub next_position: u64,
    /// Time of the last record; 0 if there never was one.
    pub last_time_ms: u64,
    /// The epoch that the log was made with.
    pub epoch: u16,
    pub torn: Option<Torn>,
}

pub(super) struct Opened {
    pub recovered: Recovered,
    pub segments: VecDeque<SegmentInfo>,
    pub active: Active,
}

pub(super) fn open(dir: &Path, options: &Options) -> Result<Opened, LogError> {
    make_dir(dir, &*options.backing.disk).map_err(LogError::io("create", dir))?;
    segment::remove_unfinished(dir).map_err(LogError::io("clean up", dir))?;
    let bases = segment::list(dir).map_err(LogError::io("list", dir))?;
    if bases.is_empty() { create(dir, options) } else { reopen(dir, &bases, options) }
}

/// Makes the first segment of a new log.
fn create(dir: &Path, options: &Options) -> Result<Opened, LogError> {
    // The standard library's only source of randomness; it needs to be unguessable, not secret for ever.
    let salt = RandomState::new().hash_one(dir) as u32;
    let header = SegmentHeader { epoch: options.epoch, bytes: options.segment_bytes, base: 0, previous: 0, floor_ms: 0, salt };
    let pace = Pace { hurry: AtomicBool::new(true), ..Pace::default() };
    let segment = segment::prepare(dir, header.bytes, &*options.backing.disk, &pace)
        .and_then(|prepared| segment::write_header(&prepared, &header, &*options.backing.disk).map(|()| prepared))
        .and_then(|prepared| segment::publish(prepared, dir, header.base, &*options.backing.disk))
        .map_err(LogError::io("create the first segment in", dir))?;
    info!(dir = %dir.display(), epoch = header.epoch, "new log");
    let active = Active { segment, header, end: SEGMENT_HEADER_BYTES as u64, next_position: 0 };
    let recovered = Recovered { oldest: 0, next_position: 0, last_time_ms: 0, epoch: header.epoch, torn: None };
    Ok(Opened { recovered, segments: VecDeque::from([info_of(&header, None)]), active })
}

fn reopen(dir: &Path, bases: &[u64], options: &Options) -> Result<Opened, LogError> {
    let mut segments = VecDeque::<SegmentInfo>::with_capacity(bases.len());
    let mut last: Option<(SegmentFile, SegmentHeader)> = None;
    for &base in bases {
        let segment = SegmentFile::open(dir, base).map_err(LogError::io("open", &segment::path_of(dir, base)))?;
        let header = read_header(&segment, base)?;
        if let Some((before, closed)) = last {
            follows(&segment, &header, &closed)?;
            segments.push_back(info_of(&closed, Some(&header)));
            if options.verify == Verify::All {
                end::verify_closed(&before, &closed, base)?;
            }
        }
        last = Some((segment, header));
    }
    let (segment, header) = last.expect("invariant: there is at least one segment");
    segments.push_back(info_of(&header, None));

    let (end, torn) = end::settle(&segment, &header, &*options.backing.disk)?;
    options.backing.disk.sync_dir(dir).map_err(LogError::io("sync", dir))?;
    if let Some(torn) = &torn {
        let (position, bytes) = (torn.position, torn.bytes);
        warn!(file = %torn.file.display(), offset = torn.offset, position, bytes, "cut an unfinished group off the end of the log");
    }
    let recovered = Recovered { oldest: bases[0], next_position: end.position, last_time_ms: end.time_ms, epoch: header.epoch, torn };
    let active = Active { segment, header, end: end.offset as u64, next_position: end.position };
    Ok(Opened { recovered, segments, active })
}

/// Checks a file against its name and its header.
fn read_header(segment: &SegmentFile, base: u64) -> Result<SegmentHeader, LogError> {
    let damaged = |offset, what| LogError::corrupt(&segment.path, offset, what);
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    match segment.file.read_exact_at(&mut bytes, 0) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(damaged(0, Damage::Header)),
        Err(error) => return Err(LogError::io("read", &segment.path)(error)),
    }
    let header = SegmentHeader::decode(&bytes).map_err(|bad| match bad {
        BadHeader::Version(version) => LogError::Version { file: segment.path.clone(), version },
        BadHeader::Damaged => damaged(0, Damage::Header),
    })?;
    if header.base != base {
        return Err(damaged(0, Damage::Base(header.base)));
    }
    let length = segment.file.metadata().map_err(LogError::io("read the size of", &segment.path))?.len();
    if length != u64::from(header.bytes) {
        return Err(damaged(length, Damage::Length(header.bytes.into())));
    }
    Ok(header)
}

/// Checks that a segment is the one that was begun after `before`.
fn follows(segment: &SegmentFile, header: &SegmentHeader, before: &SegmentHeader) -> Result<(), LogError> {
    if (header.salt, header.epoch) != (before.salt, before.epoch) {
        return Err(LogError::corrupt(&segment.path, 0, Damage::Foreign));
    }
    if header.previous != before.base {
        return Err(LogError::corrupt(&segment.path, 0, Damage::Gap(header.previous)));
    }
    Ok(())
}

fn info_of(header: &SegmentHeader, next: Option<&SegmentHeader>) -> SegmentInfo {
    let end = next.map_or(header.base, |next| next.base);
    SegmentInfo { base: header.base, end, bytes: header.bytes, closed_ms: next.map(|next| next.floor_ms) }
}

/// Makes the folder, durably.
fn make_dir(dir: &Path, disk: &dyn Disk) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir)?;
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), |parent| disk.sync_dir(parent))
}
