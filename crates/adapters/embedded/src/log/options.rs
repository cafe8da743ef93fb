//! How a log is opened, with the defaults and limits of what can be chosen.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::error::LogError;
use super::segment::{Disk, RealDisk};
use super::{QUEUE_BYTES_MAX, record};

pub const SEGMENT_BYTES: u32 = 64 * 1024 * 1024;
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// Live epochs start here; below lies imported history.
pub const FIRST_EPOCH: u16 = 2;

/// A segment is read into memory when the log is opened.
const SEGMENT_BYTES_MAX: u32 = 1024 * 1024 * 1024;
/// How long after a failure the next segment is tried again.
const PREPARE_RETRY: Duration = Duration::from_secs(1);

/// Milliseconds since 1970. Need not be monotonic: the log is.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How a log is opened.
#[derive(Clone)]
pub struct Options {
    /// Size of segments that are made from now on; those that exist keep theirs.
    pub segment_bytes: u32,
    pub payload_bytes_max: usize,
    /// Of a new log; one that exists keeps its own.
    pub epoch: u16,
    pub verify: Verify,
    pub clock: Clock,
    pub backing: Backing,
}

/// The file operations below the log; only its tests choose other than the default.
#[derive(Clone)]
pub struct Backing {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) prepare_retry: Duration,
}

/// What opening reads. Tails check every record in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Every record of the last segment, the headers of the others.
    Last,
    /// Every record.
    All,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: SEGMENT_BYTES,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            epoch: FIRST_EPOCH,
            verify: Verify::Last,
            clock: Arc::new(system_time_ms),
            backing: Backing::default(),
        }
    }
}

impl Default for Backing {
    fn default() -> Self {
        Self { disk: Arc::new(RealDisk), prepare_retry: PREPARE_RETRY }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<(), LogError> {
        if self.segment_bytes > SEGMENT_BYTES_MAX {
            return Err(LogError::Options("segments are too large"));
        }
        let record_bytes = record::record_bytes(self.payload_bytes_max);
        if record::SEGMENT_HEADER_BYTES + record_bytes > self.segment_bytes as usize || record_bytes > QUEUE_BYTES_MAX {
            return Err(LogError::Options("the largest payload does not fit into a segment or the queue"));
        }
        Ok(())
    }
}

fn system_time_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}
