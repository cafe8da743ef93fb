//! Damaged files: an error or exactly the right rows, never a panic, never wrong rows.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// A closed tree with tables in level 0 and below, and its files. Nothing is left to compact, so opening it changes nothing.
struct Sample {
    dir: tempfile::TempDir,
    files: Vec<PathBuf>,
    last: u64,
    rows: Model,
}

impl Sample {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::open(dir.path(), Options { memtable_bytes: 64 << 10, ..small() }).unwrap();
        let mut last = 100;
        (1..=last).for_each(|number| apply(&tree, number));
        loop {
            last += 1;
            apply(&tree, last);
            tree.flush().unwrap();
            settle(&tree);
            if tree.stats().l0_runs > 0 && tree.stats().levels[6] > 0 {
                break;
            }
        }
        tree.close().unwrap();
        // Opening removes what compactions have replaced.
        settle(&Tree::open(dir.path(), small()).unwrap());
        let files = |dir: PathBuf| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        let files: Vec<_> = files(dir.path().to_path_buf()).chain(files(dir.path().join("tables"))).collect();
        assert!(files.len() >= 4, "{files:?}");
        Self { dir, files, last, rows: model(last) }
    }

    /// Opens and reads everything. `Ok` only with the right rows.
    fn read_back(&self, dir: &Path) -> Result<Tree, TreeError> {
        let tree = Tree::open(dir, small())?;
        let found = read_all(&tree.snapshot())?;
        assert_eq!(tree.applied(), Some(self.last), "the wrong position");
        assert!(found == self.rows, "wrong rows");
        Ok(tree)
    }

    /// Damages one file in a copy of the folder, and reads it. What reading does not touch, `verify` has to find.
    fn damaged(&self, file: &Path, damage: impl FnOnce(&mut Vec<u8>)) -> Result<(), TreeError> {
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir(copy.path().join("tables")).unwrap();
        for file in &self.files {
            fs::copy(file, copy.path().join(file.strip_prefix(self.dir.path()).unwrap())).unwrap();
        }
        let path = copy.path().join(file.strip_prefix(self.dir.path()).unwrap());
        let original = fs::read(&path).unwrap();
        let mut bytes = original.clone();
        damage(&mut bytes);
        if bytes == original {
            return Ok(()); // zeroes over zeroes
        }
        fs::write(&path, bytes).unwrap();
        let tree = self.read_back(copy.path())?;
        assert!(matches!(tree.verify(), Err(TreeError::Corrupt { .. })), "{} is damaged and nobody notices", file.display());
        Ok(())
    }
}

/// All of a short file; the end, where the directory is, and samples of the rest of a long one.
fn offsets(length: usize, step: usize) -> impl Iterator<Item = usize> {
    let dense = length.saturating_sub(700);
    (0..dense).step_by(step).chain(dense..length)
}

#[test]
fn a_flipped_byte_anywhere_gives_an_error_or_the_right_rows() {
    let sample = Sample::new();
    sample.read_back(sample.dir.path()).unwrap().verify().unwrap();
    let (mut untouched, mut count) = (0, 0);
    for file in &sample.files {
        let length = fs::metadata(file).unwrap().len() as usize;
        for offset in offsets(length, 701) {
            count += 1;
            let flip = if offset % 3 == 0 { 0x80 } else { 1 << (offset % 8) };
            match sample.damaged(file, |bytes| bytes[offset] ^= flip) {
                Ok(()) => untouched += 1,
                Err(TreeError::Corrupt { .. } | TreeError::Io(_)) => {}
                Err(other) => panic!("{} at {offset} of {length}: {other:?}", file.display()),
            }
        }
    }
    println!("{count} flips, {untouched} of them where nobody reads");
    assert!(untouched * 10 < count, "{untouched} of {count} went unnoticed");
}

#[test]
fn zeroes_or_a_cut_give_an_error_or_the_right_rows() {
    let sample = Sample::new();
    for file in &sample.files {
        let length = fs::metadata(file).unwrap().len() as usize;
        let name = file.display();
        for offset in offsets(length, 4_001).step_by(11) {
            let end = (offset + 512).min(length);
            let _ = sample.damaged(file, |bytes| bytes[offset..end].fill(0));
            sample.damaged(file, |bytes| bytes.truncate(offset)).expect_err(&format!("{name} cut at {offset}"));
        }
        sample.damaged(file, |bytes| bytes.push(0)).expect_err("a byte too many");
    }
}

#[test]
fn a_missing_file_is_named_and_nothing_is_deleted() {
    let sample = Sample::new();
    for file in &sample.files {
        let bytes = fs::read(file).unwrap();
        fs::remove_file(file).unwrap();
        match Tree::open(sample.dir.path(), small()).map(drop) {
            Err(TreeError::Corrupt { path, .. }) => assert_eq!(&path, file),
            other => panic!("{}: {other:?}", file.display()),
        }
        fs::write(file, bytes).unwrap();
        sample.read_back(sample.dir.path()).unwrap();
    }
}

#[test]
fn damage_in_an_open_tree_is_an_error_for_readers_and_stops_no_writer() {
    let sample = Sample::new();
    let tree = Tree::open(sample.dir.path(), small()).unwrap();
    tree.verify().unwrap();
    for file in sample.files.iter().filter(|file| file.parent().unwrap().ends_with("tables")) {
        let mut bytes = fs::read(file).unwrap();
        let end = bytes.len().min(2_000);
        bytes[60..end].fill(0x55);
        fs::write(file, bytes).unwrap();
    }
    let Err(TreeError::Corrupt { path, .. }) = tree.verify() else { panic!("the damage goes unnoticed") };
    assert!(sample.files.contains(&path));
    assert!(matches!(read_all(&tree.snapshot()), Err(TreeError::Corrupt { .. })));
    for number in sample.last + 1..sample.last + 20 {
        apply(&tree, number);
    }
    tree.flush().unwrap();
    assert_eq!(tree.flushed(), Some(sample.last + 19));
}
