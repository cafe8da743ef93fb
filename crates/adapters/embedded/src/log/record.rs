//! The bytes of a segment: its header and its records. What is not here: files (`segment`) and what a bad record means (`recover`).
//!
//! All numbers are little-endian.
//!
//! ```text
//! header  magic 8 | version u16 | epoch u16 | bytes u32 | base u64 | previous u64 | floor_ms u64 | salt u32 | crc u32
//! record  length u32 | crc u32 | position u64 | group u64 | time_ms u64 | payload | zeros up to the next multiple of 8
//! ```
//!
//! A record's `length` counts position, group, time and payload, so it is never 0: zeros are never a record. Its crc covers everything
//! after it, padding included, and starts from length and salt. The salt is random per log: nobody who chooses a payload can make one that
//! holds a valid record, and a record of another log is none of ours.

use std::ops::Range;

pub(super) const FORMAT_VERSION: u16 = 1;
pub(super) const SEGMENT_HEADER_BYTES: usize = 48;
/// Everything of a record but payload and padding.
pub(super) const RECORD_HEADER_BYTES: usize = 32;
pub(super) const RECORD_ALIGN: usize = 8;

const MAGIC: [u8; 8] = *b"DUNLINLG";
/// Length and crc: what `length` does not count.
const PREFIX_BYTES: usize = 8;
const FIXED_BYTES: usize = RECORD_HEADER_BYTES - PREFIX_BYTES;

/// The fixed fields of a record that its reader needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub position: u64,
    /// First position of the group that was written and synced together with this record.
    pub group: u64,
    pub time_ms: u64,
}

/// A valid record at the start of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    pub head: Head,
    pub payload: Range<usize>,
    /// With padding: the next record begins here.
    pub bytes: usize,
}

/// What a record with such a payload takes in its segment.
pub(super) const fn record_bytes(payload_bytes: usize) -> usize {
    (RECORD_HEADER_BYTES + payload_bytes).next_multiple_of(RECORD_ALIGN)
}

/// Appends one record to a group's buffer. The payload's size has been checked against the segment's, so it fits u32.
pub(super) fn encode(buffer: &mut Vec<u8>, salt: u32, head: Head, payload: &[u8]) {
    let length = u32::try_from(FIXED_BYTES + payload.len()).expect("invariant: payloads are smaller than a segment");
    let start = buffer.len();
    let end = start + record_bytes(payload.len());
    buffer.reserve(end - start);
    buffer.extend_from_slice(&length.to_le_bytes());
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&head.position.to_le_bytes());
    buffer.extend_from_slice(&head.group.to_le_bytes());
    buffer.extend_from_slice(&head.time_ms.to_le_bytes());
    buffer.extend_from_slice(payload);
    buffer.resize(end, 0);
    let crc = checksum(salt, length, &buffer[start + PREFIX_BYTES..]);
    buffer[start + 4..start + PREFIX_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// `None` unless the bytes begin with a whole and valid record.
pub(super) fn decode(bytes: &[u8], salt: u32) -> Option<Decoded> {
    let total = claimed_bytes(bytes)?;
    let record = bytes.get(..total)?;
    let (length, crc) = (u32_at(record, 0), u32_at(record, 4));
    if crc != checksum(salt, length, &record[PREFIX_BYTES..]) {
        return None;
    }
    let payload = RECORD_HEADER_BYTES..PREFIX_BYTES + usize::try_from(length).ok()?;
    Some(Decoded { head: head_unchecked(record)?, payload, bytes: total })
}

/// The size that a record claims to have, read from its length alone. `None` where no record begins.
pub(super) fn claimed_bytes(bytes: &[u8]) -> Option<usize> {
    let length = usize::try_from(u32::from_le_bytes(*bytes.first_chunk()?)).ok()?;
    if length < FIXED_BYTES { None } else { PREFIX_BYTES.checked_add(length)?.checked_next_multiple_of(RECORD_ALIGN) }
}

/// The fixed fields as they stand there, for a cheap look before the crc is computed.
pub(super) fn head_unchecked(bytes: &[u8]) -> Option<Head> {
    let fixed: &[u8; RECORD_HEADER_BYTES] = bytes.first_chunk()?;
    Some(Head { position: u64_at(fixed, 8), group: u64_at(fixed, 16), time_ms: u64_at(fixed, 24) })
}

fn checksum(salt: u32, length: u32, rest: &[u8]) -> u32 {
    crc32c::crc32c_append(salt ^ length, rest)
}

/// What a segment says of itself. With it, opening needs to read only the headers of closed segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub epoch: u16,
    /// Size of the file: a shorter one was truncated.
    pub bytes: u32,
    pub base: u64,
    /// Base of the segment before this one, its own base in a log's first: shows a gap.
    pub previous: u64,
    /// Time of the last record before this segment, 0 if there is none: time never goes below it.
    pub floor_ms: u64,
    pub salt: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadHeader {
    Version(u16),
    Damaged,
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.base.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.previous.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.floor_ms.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.salt.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..44]);
        bytes[44..48].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<Self, BadHeader> {
        if bytes[0..8] != MAGIC {
            return Err(BadHeader::Damaged);
        }
        // Before the crc: another version may have another layout.
        let version = u16_at(bytes, 8);
        if version != FORMAT_VERSION {
            return Err(BadHeader::Version(version));
        }
        if u32_at(bytes, 44) != crc32c::crc32c(&bytes[..44]) {
            return Err(BadHeader::Damaged);
        }
        Ok(Self {
            epoch: u16_at(bytes, 10),
            bytes: u32_at(bytes, 12),
            base: u64_at(bytes, 16),
            previous: u64_at(bytes, 24),
            floor_ms: u64_at(bytes, 32),
            salt: u32_at(bytes, 40),
        })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*bytes[at..].first_chunk().expect("invariant: the caller checked the size"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("invariant: the caller checked the size"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("invariant: the caller checked the size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head { position: 7, group: 5, time_ms: 1_700_000_000_000 };

    #[test]
    fn the_bytes_of_format_version_1_stay_as_they_are() {
        let header = SegmentHeader { epoch: 2, bytes: 4096, base: 7, previous: 3, floor_ms: 9, salt: 0xdead_beef };
        let mut bytes = header.encode().to_vec();
        encode(&mut bytes, header.salt, HEAD, b"hello");
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let golden = concat!(
            "44554e4c494e4c470100020000100000",                                 // magic, version, epoch, bytes
            "070000000000000003000000000000000900000000000000efbeaddec850a5d8", // base, previous, floor_ms, salt, crc
            "1d000000d94d33e4070000000000000005000000000000000068e5cf8b010000", // length, crc, position, group, time_ms
            "68656c6c6f000000",                                                 // payload, padding
        );
        assert_eq!(hex, golden);
    }

    #[test]
    fn a_record_reads_back_and_no_flipped_bit_goes_unseen() {
        for payload in [&b""[..], b"x", b"12345678", b"a longer payload"] {
            let mut bytes = Vec::new();
            encode(&mut bytes, 99, HEAD, payload);
            let decoded = decode(&bytes, 99).expect("valid");
            assert_eq!((decoded.head, &bytes[decoded.payload], decoded.bytes), (HEAD, payload, record_bytes(payload.len())));
            assert_eq!(decode(&bytes, 98), None, "another log's salt");
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode(&bytes, 99), None, "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn zeros_are_no_record() {
        assert_eq!(decode(&[0; 64], 0), None);
        assert_eq!(decode(&[], 0), None);
    }
}
