//! What the disk gives, before any of our code: the measure for everything that must be durable.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::FileExt as _,
    path::Path,
    time::{Duration, Instant},
};

use serde::Serialize;
use tempfile::TempDir;

use crate::{Latencies, Summary};

/// About what one message takes in the log.
pub const WRITE_BYTES: usize = 300;
/// Filled ahead, so that no sync has to write the file's size as well.
pub const FILE_BYTES: usize = 8 << 20;

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DiskSpeed {
    pub fsyncs_per_s: f64,
    pub latency: Summary,
}

/// Writes a message's worth and syncs it, again and again, alone. Blocks.
pub fn fsyncs(dir: &Path, lasting: Duration) -> io::Result<DiskSpeed> {
    let path = dir.join("fsyncs");
    fs::write(&path, vec![0; FILE_BYTES])?;
    let file = File::options().write(true).open(&path)?;
    file.sync_all()?;
    let latencies = Latencies::default();
    let (record, start) = ([b'x'; WRITE_BYTES], Instant::now());
    let mut count: usize = 0;
    while start.elapsed() < lasting {
        let began = Instant::now();
        file.write_all_at(&record, (count * WRITE_BYTES % (FILE_BYTES - WRITE_BYTES)) as u64)?;
        file.sync_data()?;
        latencies.record(0, began.elapsed());
        count += 1;
    }
    let fsyncs_per_s = count as f64 / start.elapsed().as_secs_f64();
    fs::remove_file(&path)?;
    Ok(DiskSpeed { fsyncs_per_s, latency: latencies.summary() })
}

/// A folder that goes when the value does.
pub fn scratch(dir: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("dunlin-bench-").tempdir_in(dir)
}

/// The kind of file system that holds a path, as the system names it.
pub fn file_system(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
    };
    let holding = mounts.lines().filter_map(mount).filter(|(point, _)| path.starts_with(point));
    // Of two at the same place the later one covers the earlier.
    holding.max_by_key(|(point, _)| point.len()).map_or_else(|| "unknown".into(), |(_, kind)| kind)
}

/// Bytes of all files below a folder: as long as they are, and without the zeros at their ends (what was filled ahead but not written yet).
pub fn sizes(folder: &Path) -> io::Result<(u64, u64)> {
    let (mut long, mut written) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let sizes = if path.is_dir() { self::sizes(&path)? } else { (path.metadata()?.len(), written_bytes(&path)?) };
        long += sizes.0;
        written += sizes.1;
    }
    Ok((long, written))
}

fn written_bytes(path: &Path) -> io::Result<u64> {
    const STEP: u64 = 1 << 20;
    let mut file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let mut bytes = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        bytes.clear();
        file.seek(SeekFrom::Start(start))?;
        file.by_ref().take(end - start).read_to_end(&mut bytes)?;
        if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_filled_ahead_are_not_written_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = vec![0; 3 << 20];
        bytes[99] = 1;
        fs::write(folder.path().join("a"), &bytes).unwrap();
        fs::create_dir(folder.path().join("b")).unwrap();
        fs::write(folder.path().join("b/c"), [1, 0, 1, 0]).unwrap();
        assert_eq!(sizes(folder.path()).unwrap(), ((3 << 20) + 4, 103));
    }

    #[test]
    fn the_disk_is_measured_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let speed = fsyncs(folder.path(), Duration::from_millis(20)).unwrap();
        assert!(speed.fsyncs_per_s > 0.0 && speed.latency.p50_us > 0.0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_ne!(file_system(folder.path()), "unknown");
    }
}
