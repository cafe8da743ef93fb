//! Torn tails: whatever a crash leaves of the last group, everything before it stays, and the log goes on.

use std::iter;

use super::super::*;
use super::*;

const EARLIER: [&str; 4] = ["payload0", "payload1", "payload2", "payload3"];
const LAST: [&str; 5] = ["payload4", "pay5", "payload6 and more", "", "p8"];

fn write_groups(dir: &Path) -> (PathBuf, Vec<u8>) {
    write_log(dir, &[&[&EARLIER[..1], &EARLIER[1..3]], &[&EARLIER[3..], &LAST]]);
    let path = segment::path_of(dir, 3);
    let bytes = fs::read(&path).expect("reads");
    (path, bytes)
}

/// Where each record of the last group begins, and where the group ends.
fn last_group() -> Vec<usize> {
    let first = offset_of(1, EARLIER[3]);
    iter::once(first)
        .chain(LAST.iter().scan(first, |offset, payload| {
            *offset += record::record_bytes(payload.len());
            Some(*offset)
        }))
        .collect()
}

/// Puts back a damaged image, opens it, and checks what must hold; `whole` records of the last group are unharmed in front of the damage.
async fn goes_on_after(dir: &Path, original: &[u8], torn: &[u8], whole: usize, what: &str) {
    let path = segment::path_of(dir, 3);
    put(&path, torn);
    let (log, recovered) = open(dir);
    let kept = EARLIER.len() + whole;
    assert_eq!(recovered.next_position, kept as u64, "{what}");
    let offset = last_group()[whole];
    let litter = torn[offset..].iter().any(|&byte| byte != 0);
    let cut = recovered.torn.map(|torn| (torn.position, torn.offset));
    assert_eq!(cut, litter.then_some((kept as u64, offset as u64)), "{what}");
    assert_eq!(&fs::read(&path).expect("reads")[..offset], &original[..offset], "{what}");

    // Of the size that would lay bare stale bytes of the record after it.
    append(&log, [LAST.get(whole).copied().unwrap_or("more")]).await;
    drop(log);
    let (log, recovered) = open(dir);
    assert_eq!((recovered.next_position, recovered.torn), (kept as u64 + 1, None), "{what}");
    let expected = EARLIER.iter().chain(&LAST).take(kept).chain([LAST.get(whole).unwrap_or(&"more")]);
    assert!(read(&log, 0).unwrap().iter().eq(expected), "{what}");
}

#[tokio::test]
async fn a_last_group_cut_at_any_byte_loses_no_earlier_group_and_no_whole_record() {
    let dir = tempfile::tempdir().unwrap();
    let (_, original) = write_groups(dir.path());
    let offsets = last_group();
    for cut in offsets[0]..=offsets[LAST.len()] {
        let mut torn = original.clone();
        torn[cut..].fill(0);
        // A cut in zeros at a record's end is none.
        let whole = offsets[1..].iter().filter(|&&end| torn[..end] == original[..end]).count();
        goes_on_after(dir.path(), &original, &torn, whole, &format!("cut at {cut}")).await;
    }
}

#[tokio::test]
async fn a_last_group_with_any_hole_is_cut_at_the_hole() {
    let dir = tempfile::tempdir().unwrap();
    let (_, original) = write_groups(dir.path());
    let offsets = last_group();
    for start in (offsets[0]..offsets[LAST.len()]).step_by(8) {
        for bytes in [8, 64, 128] {
            let mut torn = original.clone();
            torn[start..(start + bytes).min(offsets[LAST.len()])].fill(0);
            let whole = offsets[1..].iter().filter(|&&end| torn[..end] == original[..end]).count();
            goes_on_after(dir.path(), &original, &torn, whole, &format!("{bytes} bytes lost at {start}")).await;
        }
    }
}

#[tokio::test]
async fn stale_records_of_a_cut_group_never_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let same = ["same-len"; 6];
    write_log(dir.path(), &[&[&same[..2], &same[2..]]]);
    let path = segment::path_of(dir.path(), 0);
    change(&path, |bytes| bytes[offset_of(2, "same-len") + 4] ^= 1);
    let (log, recovered) = open(dir.path());
    assert_eq!(recovered.torn.map(|torn| torn.position), Some(2));
    // Records 3 to 5 of the cut group were whole, and would follow this one exactly.
    append(&log, ["new-data"]).await;
    drop(log);
    let (log, recovered) = open(dir.path());
    assert_eq!((recovered.next_position, recovered.torn), (3, None));
    assert_eq!(read(&log, 0).unwrap(), ["same-len", "same-len", "new-data"]);
}

#[tokio::test]
async fn a_torn_first_group_of_a_segment_leaves_it_empty() {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path(), &[&[&["a"]], &[&["b", "c"]]]);
    change(&segment::path_of(dir.path(), 1), |bytes| bytes[offset_of(0, "b")] ^= 1);
    let (log, recovered) = open(dir.path());
    assert_eq!((recovered.next_position, recovered.last_time_ms), (1, 1));
    append(&log, ["d"]).await;
    assert_eq!(read(&log, 0).unwrap(), ["a", "d"]);
}

#[tokio::test]
async fn a_payload_that_imitates_a_later_record_does_not_make_a_torn_tail_look_like_damage() {
    let dir = tempfile::tempdir().unwrap();
    let mut imitation = Vec::new();
    record::encode(&mut imitation, 0, Head { position: 1000, group: 1000, time_ms: 1 }, b"x");
    let (log, _) = open(dir.path());
    log.append(imitation).await.unwrap();
    drop(log);
    change(&segment::path_of(dir.path(), 0), |bytes| bytes[SEGMENT_HEADER_BYTES] ^= 1);
    assert_eq!(open(dir.path()).1.next_position, 0);
}

#[tokio::test]
async fn a_segment_that_was_never_finished_is_removed_without_a_word() {
    let dir = tempfile::tempdir().unwrap();
    for leftover in [&b""[..], &[0; 100], &[0xff; 600]] {
        put(dir.path().join("next.new"), leftover);
        let (log, recovered) = open(dir.path());
        assert_eq!(recovered.torn, None);
        assert!(!dir.path().join("next.new").exists());
        append(&log, vec!["x"; 20]).await;
    }
    assert_eq!(open(dir.path()).1.next_position, 60);
}
