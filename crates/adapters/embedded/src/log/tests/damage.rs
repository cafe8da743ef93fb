//! Damage to what was synced is refused, and told with file and offset; nothing is forgotten in silence.

use super::super::*;
use super::*;

const TEXTS: [&str; 12] = ["r00", "r01", "r02", "r03", "r04", "r05", "r06", "r07", "r08", "r09", "r10", "r11"];
/// First record of the last group.
const LAST_GROUP: u64 = 10;

/// Three segments with groups of two.
fn write_groups(dir: &Path) {
    let groups: Vec<&[&str]> = TEXTS.chunks(2).collect();
    write_log(dir, &[&groups[..2], &groups[2..4], &groups[4..]]);
}

fn verify_all() -> Options {
    Options { verify: Verify::All, ..small() }
}

/// Opens and reads everything. What is refused names file and offset; what is read is a prefix that ends in the last group at the earliest.
fn refused_or_cut_in_the_last_group(dir: &Path, options: Options, what: &str) -> bool {
    let read = Log::open(dir, options).and_then(|(log, _)| read(&log, 0));
    match read {
        Err(LogError::Corrupt { file, .. } | LogError::Version { file, .. }) => {
            assert!(file.starts_with(dir), "{what}");
            true
        }
        Err(other) => panic!("{what}: {other}"),
        Ok(texts) => {
            assert_eq!(texts, TEXTS[..texts.len()], "{what}");
            assert!(texts.len() as u64 >= LAST_GROUP, "{what}: {} records are left", texts.len());
            false
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused_or_costs_only_the_last_group() {
    let dir = tempfile::tempdir().unwrap();
    write_groups(dir.path());
    let closed_end = offset_of(4, TEXTS[0]);
    for base in [0, 4, 8] {
        let path = segment::path_of(dir.path(), base);
        let original = fs::read(&path).unwrap();
        for byte in 0..original.len() {
            for options in [small(), verify_all()] {
                let mut damaged = original.clone();
                damaged[byte] ^= 1 << (byte % 8);
                put(&path, damaged);
                let refused = refused_or_cut_in_the_last_group(dir.path(), options, &format!("byte {byte} of segment {base}"));
                // The unused end of a closed segment holds nothing; in the last one the last group and what follows may be cut.
                let harmless = if base < 8 { closed_end } else { offset_of(2, TEXTS[0]) };
                assert_eq!(refused, byte < harmless, "byte {byte} of segment {base}");
                write_groups(dir.path());
            }
        }
    }
}

#[test]
fn zeros_over_synced_records_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for base in [0, 4, 8] {
        let records = if base < 8 { 4 } else { 2 };
        for (start, end) in (0..records).flat_map(|start| (start..records).map(move |end| (start, end + 1))) {
            write_groups(dir.path());
            let range = offset_of(start, TEXTS[0])..offset_of(end, TEXTS[0]);
            change(&segment::path_of(dir.path(), base), |bytes| bytes[range.clone()].fill(0));
            for options in [small(), verify_all()] {
                assert!(refused_or_cut_in_the_last_group(dir.path(), options, &format!("{range:?} of segment {base}")));
            }
        }
    }
}

#[test]
fn the_refusal_names_file_offset_and_position() {
    let dir = tempfile::tempdir().unwrap();
    write_groups(dir.path());
    let damaged = segment::path_of(dir.path(), 8);
    let at = offset_of(1, TEXTS[0]);
    change(&damaged, |bytes| bytes[at + 20] ^= 0x10);
    let error = refusal(dir.path(), small());
    assert!(matches!(&error, LogError::Corrupt { file, offset, what: Damage::Record(9) } if *file == damaged && *offset == at as u64));
    let text = error.to_string();
    assert!(text.contains("00000000000000000008.log at byte 88") && text.contains("restore"), "{text}");
}

#[test]
fn a_refused_log_is_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    write_groups(dir.path());
    let damaged = segment::path_of(dir.path(), 8);
    change(&damaged, |bytes| bytes[offset_of(0, TEXTS[0])] ^= 1);
    let before = fs::read(&damaged).unwrap();
    refusal(dir.path(), small());
    assert_eq!(fs::read(&damaged).unwrap(), before);
}

#[test]
fn a_truncated_or_grown_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for base in [0, 4, 8] {
        for length in (0..SEGMENT as usize).chain([SEGMENT as usize + 1]) {
            write_groups(dir.path());
            change(&segment::path_of(dir.path(), base), |bytes| bytes.resize(length, 0));
            let error = refusal(dir.path(), small());
            assert!(matches!(error, LogError::Corrupt { what: Damage::Length(512) | Damage::Header, .. }), "{length}: {error}");
        }
    }
}

#[test]
fn a_missing_segment_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    write_groups(dir.path());
    fs::remove_file(segment::path_of(dir.path(), 4)).unwrap();
    assert!(matches!(refusal(dir.path(), small()), LogError::Corrupt { what: Damage::Gap(4), .. }));
}

#[test]
fn a_missing_first_segment_reads_as_trimmed_so_that_the_caller_can_refuse() {
    let dir = tempfile::tempdir().unwrap();
    write_groups(dir.path());
    fs::remove_file(segment::path_of(dir.path(), 0)).unwrap();
    let (log, recovered) = open(dir.path());
    assert_eq!(recovered.oldest, 4);
    assert!(matches!(log.tail(3).err(), Some(LogError::Trimmed { from: 3, oldest: 4 })));
    assert_eq!(read(&log, 4).unwrap(), TEXTS[4..]);
}

#[test]
fn a_segment_under_another_name_or_of_another_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    write_groups(dir.path());
    fs::rename(segment::path_of(dir.path(), 8), segment::path_of(dir.path(), 9)).unwrap();
    assert!(matches!(refusal(dir.path(), small()), LogError::Corrupt { what: Damage::Base(8), .. }));

    let header = SegmentHeader { epoch: 2, bytes: SEGMENT, base: 9, previous: 4, floor_ms: 0, salt: SALT + 1 };
    change(&segment::path_of(dir.path(), 9), |bytes| bytes[..SEGMENT_HEADER_BYTES].copy_from_slice(&header.encode()));
    assert!(matches!(refusal(dir.path(), small()), LogError::Corrupt { what: Damage::Foreign, .. }));
}

#[test]
fn an_unknown_format_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    write_groups(dir.path());
    change(&segment::path_of(dir.path(), 8), |bytes| bytes[8] = 2);
    assert!(matches!(refusal(dir.path(), small()), LogError::Version { version: 2, .. }));
}

#[test]
fn damage_in_a_closed_segment_is_found_when_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    write_groups(dir.path());
    let damaged = segment::path_of(dir.path(), 4);
    let at = offset_of(1, TEXTS[0]) as u64;
    change(&damaged, |bytes| bytes[offset_of(1, TEXTS[0]) + 33] ^= 1);
    let (log, _) = open(dir.path());
    let mut tail = log.tail(0).unwrap();
    let one = ReadLimit { records: 1, payload_bytes: 1 };
    for text in &TEXTS[..5] {
        assert_eq!(texts(&tail.try_next(one).unwrap()), [*text]);
    }
    for _ in 0..2 {
        let error = tail.try_next(one).expect_err("never skips it");
        assert!(matches!(&error, LogError::Corrupt { file, offset, what: Damage::Record(5) } if *file == damaged && *offset == at));
    }
    assert_eq!(read(&log, 8).unwrap(), TEXTS[8..], "the rest can be read");
    drop(log);
    assert!(matches!(refusal(dir.path(), verify_all()), LogError::Corrupt { offset, .. } if offset == at));
}

#[test]
fn a_valid_record_in_the_wrong_place_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second, end) = (offset_of(0, TEXTS[0]), offset_of(1, TEXTS[0]), offset_of(2, TEXTS[0]));
    let swap = |base| {
        write_groups(dir.path());
        change(&segment::path_of(dir.path(), base), |bytes| bytes[first..end].rotate_left(second - first));
    };
    let names = |error: LogError, position: u64| {
        let LogError::Corrupt { offset, what, .. } = error else { panic!("{error}") };
        assert_eq!((offset, what), (first as u64, Damage::Record(position)));
    };
    swap(8);
    names(refusal(dir.path(), small()), 8);
    swap(4);
    names(refusal(dir.path(), verify_all()), 4);
    let (log, _) = open(dir.path());
    names(read(&log, 4).expect_err("found when it is read"), 4);
}

#[test]
fn what_was_read_before_the_damage_is_returned_first() {
    let dir = tempfile::tempdir().unwrap();
    write_groups(dir.path());
    let (log, _) = Log::open(dir.path(), small()).unwrap();
    change(&segment::path_of(dir.path(), 4), |bytes| bytes[offset_of(1, TEXTS[0])] ^= 1);
    let mut tail = log.tail(0).unwrap();
    assert_eq!(texts(&tail.try_next(ALL).unwrap()), TEXTS[..5], "not dropped with the error");
    for _ in 0..2 {
        assert!(matches!(tail.try_next(ALL), Err(LogError::Corrupt { .. })));
    }
}
