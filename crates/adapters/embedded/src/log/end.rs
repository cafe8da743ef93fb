//! The end of a segment: how far its records are good, and what it means that they end there.
//!
//! A bad record P was synced if any valid record after it belongs to a group that starts after P, for a group is written only after all
//! before it were synced. Then it is damage, and refused. Otherwise P belongs to the last group, which was not acknowledged: a torn tail, and cut.
//! (Damage to the last group alone can't be told from that.)

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::error::{Damage, LogError};
use super::record::{self, RECORD_ALIGN, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::segment::{Disk, SegmentFile};

/// How far the records of a segment are good.
pub(super) struct End {
    pub offset: usize,
    pub position: u64,
    pub time_ms: u64,
    /// Where the last group begins.
    group_offset: usize,
}

/// An unfinished last group that was cut off: a crash came before it was synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    pub file: PathBuf,
    pub offset: u64,
    /// The first position that is given anew.
    pub position: u64,
    /// How far after `offset` something had been written.
    pub bytes: u64,
}

/// Finds where the last segment ends, and makes that true on disk: what is before the end is durable, what is after it is zeros.
pub(super) fn settle(segment: &SegmentFile, header: &SegmentHeader, disk: &dyn Disk) -> Result<(End, Option<Torn>), LogError> {
    let bytes = read_whole(segment, header)?;
    let end = walk(&bytes, header);
    let rest = &bytes[end.offset..];
    if later_group(rest, header.salt, end.position) {
        return Err(LogError::corrupt(&segment.path, end.offset as u64, Damage::Record(end.position)));
    }
    let litter = rest.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    // The last group may never have been synced, and after a failed sync the kernel takes its pages for clean although they are not on disk.
    // Written again they are dirty, and the sync below means what it says.
    let mut settled = bytes[end.group_offset..end.offset].to_vec();
    settled.resize(settled.len() + litter, 0);
    disk.write(segment, &settled, end.group_offset as u64)
        .and_then(|()| disk.sync(segment))
        .map_err(LogError::io("settle the end of", &segment.path))?;
    let torn =
        (litter > 0).then(|| Torn { file: segment.path.clone(), offset: end.offset as u64, position: end.position, bytes: litter as u64 });
    Ok((end, torn))
}

/// Whether a valid record of a group that starts after `position` is anywhere in the rest of a segment.
fn later_group(rest: &[u8], salt: u32, position: u64) -> bool {
    (0..rest.len().saturating_sub(RECORD_HEADER_BYTES - 1)).step_by(RECORD_ALIGN).any(|offset| {
        let bytes = &rest[offset..];
        // The look at the head spares the crc nearly everywhere.
        record::head_unchecked(bytes).is_some_and(|head| head.group > position && head.position >= head.group)
            && record::decode(bytes, salt).is_some()
    })
}

/// Walks a closed segment: it must hold every record up to the base of the next.
pub(super) fn verify_closed(segment: &SegmentFile, header: &SegmentHeader, next_base: u64) -> Result<(), LogError> {
    let end = walk(&read_whole(segment, header)?, header);
    if end.position == next_base { Ok(()) } else { Err(LogError::corrupt(&segment.path, end.offset as u64, Damage::Record(end.position))) }
}

/// Reads records from the start up to the first that is bad, or not the one that must stand there.
fn walk(bytes: &[u8], header: &SegmentHeader) -> End {
    let mut end = End { offset: SEGMENT_HEADER_BYTES, position: header.base, time_ms: header.floor_ms, group_offset: SEGMENT_HEADER_BYTES };
    while let Some(found) = record::decode(&bytes[end.offset..], header.salt) {
        if found.head.position != end.position {
            break;
        }
        if found.head.group == end.position {
            end.group_offset = end.offset;
        }
        end = End { offset: end.offset + found.bytes, position: end.position + 1, time_ms: found.head.time_ms, ..end };
    }
    end
}

fn read_whole(segment: &SegmentFile, header: &SegmentHeader) -> Result<Vec<u8>, LogError> {
    let mut bytes = vec![0; header.bytes as usize];
    segment.file.read_exact_at(&mut bytes, 0).map_err(LogError::io("read", &segment.path))?;
    Ok(bytes)
}
