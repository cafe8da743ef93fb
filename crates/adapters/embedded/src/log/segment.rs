//! Segment files: their names, how they come to be and go. What is not here: what is in them (`record`, `recover`, `tail`).
//!
//! A segment is made as `next.new`: filled with real zeros and synced, later given its header, synced, and only then renamed to its base
//! position. So a `.log` file always has its whole size and a good header, whatever crash came between; anything else is damage, and
//! what is left under `.new` can be removed without a look.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::record::SegmentHeader;

/// Zeros are written and synced in steps, so that the writer's own syncs never queue behind a whole segment of them. Measured: larger steps
/// double the slowest one in a hundred appends meanwhile.
const ZERO_STEP_BYTES: usize = 256 * 1024;
/// When the writer is about to wait for the segment: fewer syncs, sooner done.
const ZERO_STEP_HURRIED_BYTES: usize = 4 * 1024 * 1024;
const UNFINISHED: &str = "next.new";
/// Decimal digits of u64::MAX: names sort as positions do.
const NAME_DIGITS: usize = 20;

/// The operations that make things durable, which tests let fail.
pub(super) trait Disk: Send + Sync {
    /// Writes all bytes or fails; after a failure any part of them may be there.
    fn write(&self, to: &SegmentFile, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes what was written durable. After a failure nobody knows what is: the kernel may have dropped the pages.
    fn sync(&self, segment: &SegmentFile) -> io::Result<()>;
    /// Makes what was created, renamed and deleted in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

pub(super) struct RealDisk;

impl Disk for RealDisk {
    fn write(&self, to: &SegmentFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        to.file.write_all_at(bytes, offset)
    }

    fn sync(&self, segment: &SegmentFile) -> io::Result<()> {
        segment.file.sync_data()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

/// An open segment file and where it is, for messages.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub file: File,
    pub path: PathBuf,
}

impl SegmentFile {
    pub(super) fn open(dir: &Path, base: u64) -> io::Result<Self> {
        let path = path_of(dir, base);
        Ok(Self { file: OpenOptions::new().read(true).write(true).open(&path)?, path })
    }
}

/// How a segment is being prepared; changed from outside meanwhile.
#[derive(Default)]
pub(super) struct Pace {
    pub hurry: AtomicBool,
    pub stop: AtomicBool,
}

pub(super) fn path_of(dir: &Path, base: u64) -> PathBuf {
    dir.join(format!("{base:0NAME_DIGITS$}.log"))
}

/// Makes the file that will be the next segment: real zeros, synced, so that appends change no metadata and never find the disk full.
/// Gives the room back if it fails.
pub(super) fn prepare(dir: &Path, bytes: u32, disk: &dyn Disk, pace: &Pace) -> io::Result<SegmentFile> {
    let path = dir.join(UNFINISHED);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
    let segment = SegmentFile { file, path };
    if let Err(error) = fill_with_zeros(&segment, u64::from(bytes), disk, pace) {
        // The failure that is told is the first one; what is left is removed at the next attempt or opening.
        let _ = fs::remove_file(&segment.path);
        return Err(error);
    }
    Ok(segment)
}

fn fill_with_zeros(segment: &SegmentFile, bytes: u64, disk: &dyn Disk, pace: &Pace) -> io::Result<()> {
    let zeros = vec![0; ZERO_STEP_HURRIED_BYTES];
    let mut offset = 0;
    while offset < bytes {
        if pace.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let step = if pace.hurry.load(Ordering::Relaxed) { ZERO_STEP_HURRIED_BYTES } else { ZERO_STEP_BYTES };
        let step = usize::try_from(bytes - offset).map_or(step, |rest| rest.min(step));
        disk.write(segment, &zeros[..step], offset)?;
        disk.sync(segment)?;
        offset += step as u64;
    }
    Ok(())
}

/// Gives a prepared file its header. It is not part of the log before `publish`.
pub(super) fn write_header(prepared: &SegmentFile, header: &SegmentHeader, disk: &dyn Disk) -> io::Result<()> {
    disk.write(prepared, &header.encode(), 0)?;
    disk.sync(prepared)
}

/// Makes a prepared file with a header part of the log, durably.
pub(super) fn publish(mut prepared: SegmentFile, dir: &Path, base: u64, disk: &dyn Disk) -> io::Result<SegmentFile> {
    let path = path_of(dir, base);
    fs::rename(&prepared.path, &path)?;
    disk.sync_dir(dir)?;
    prepared.path = path;
    Ok(prepared)
}

/// Deletes one segment, durably before the next: whatever crash comes, no gap is left. Can be repeated.
pub(super) fn remove(dir: &Path, base: u64, disk: &dyn Disk) -> io::Result<()> {
    remove_if_there(&path_of(dir, base))?;
    disk.sync_dir(dir)
}

pub(super) fn remove_unfinished(dir: &Path) -> io::Result<()> {
    remove_if_there(&dir.join(UNFINISHED))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Bases of all segments, ascending. Files that are not named like a segment are left alone.
pub(super) fn list(dir: &Path) -> io::Result<Vec<u64>> {
    let mut bases = Vec::new();
    for entry in fs::read_dir(dir)? {
        bases.extend(entry?.file_name().to_str().and_then(base_of));
    }
    bases.sort_unstable();
    Ok(bases)
}

fn base_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    if digits.len() == NAME_DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit()) { digits.parse().ok() } else { None }
}
