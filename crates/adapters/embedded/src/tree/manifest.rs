//! What the engine does not check when it opens a folder, checked before it does.
//!
//! - It creates a new, empty tree where `current` is missing, and deletes the tables on the next opening: a lost file would become lost data.
//! - It writes a checksum of the manifest `v<n>` into `current` and never compares it. The manifest is otherwise bare: a flipped bit
//!   there could hide a table or shift its sequence numbers.
//! - It reads a count from a table's directory before it checks the directory's checksum, and asks for that much memory at once. A flipped
//!   bit there ends the process (an allocation failure is no panic).
//!
//! The blocks of a table carry checksums of their own, which the engine compares on every read from disk.
//! The formats are those of `lsm-tree` 3.1 (`version/persist.rs`, `version/recovery.rs`) and `sfa` 1.0; the version is pinned.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use lsm_tree::checksum::ChecksummedWriter;

use super::error::TreeError;

pub(super) const TABLES: &str = "tables";
const CURRENT: &str = "current";
/// Version id, checksum of the manifest, kind of checksum.
const CURRENT_BYTES: usize = 8 + 16 + 1;
/// Magic, version, kind of checksum, checksum, position and length of the directory.
const TRAILER_BYTES: u64 = 4 + 1 + 1 + 16 + 8 + 8;
/// Id, kind of checksum, checksum, global sequence number.
const TABLE_ENTRY_BYTES: usize = 8 + 1 + 16 + 8;

/// Checks the folder of a tree, if there is one: the manifest as a whole, and that each table it names is there with a sound directory.
pub(super) fn check(dir: &Path) -> Result<(), TreeError> {
    for table in referenced_tables(dir)? {
        let path = dir.join(TABLES).join(table.to_string());
        let mut file = File::open(&path).map_err(|error| TreeError::from_io(&error, &path))?;
        read_directory(&mut file, &path)?;
    }
    Ok(())
}

/// The ids of the tables that belong to the tree on disk; none for a folder without a tree.
pub(super) fn referenced_tables(dir: &Path) -> Result<Vec<u64>, TreeError> {
    let current = dir.join(CURRENT);
    let head = match fs::read(&current) {
        Ok(head) => head,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return no_tree(dir, &current),
        Err(error) => return Err(TreeError::from_io(&error, &current)),
    };
    let (version, expected) = parse_current(&head).ok_or_else(|| TreeError::corrupt(&current, "not a pointer to a manifest"))?;

    let manifest = dir.join(format!("v{version}"));
    let bytes = fs::read(&manifest).map_err(|error| TreeError::from_io(&error, &manifest))?;
    if checksum(&bytes) != expected {
        return Err(TreeError::corrupt(&manifest, "checksum mismatch"));
    }
    let directory = read_directory(&mut io::Cursor::new(&bytes), &manifest)?;
    let ids = section(&directory, b"tables").and_then(|range| bytes.get(range)).and_then(table_ids);
    ids.ok_or_else(|| TreeError::corrupt(&manifest, "no list of tables"))
}

/// A folder without `current` is new, or was left by a crash during its creation. With tables in it, it has lost its head.
fn no_tree(dir: &Path, current: &Path) -> Result<Vec<u64>, TreeError> {
    match fs::read_dir(dir.join(TABLES)).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(TreeError::corrupt(current, "missing although there are tables")),
        Ok(false) => Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(TreeError::from_io(&error, dir)),
    }
}

/// Reads a whole table and compares it with the checksum that the manifest keeps of it.
pub(super) fn check_whole_table(path: &Path, expected: u128) -> Result<(), TreeError> {
    let mut hasher = ChecksummedWriter::new(io::sink());
    let mut file = File::open(path).map_err(|error| TreeError::from_io(&error, path))?;
    io::copy(&mut file, &mut hasher).map_err(|error| TreeError::from_io(&error, path))?;
    if hasher.checksum().into_u128() == expected { Ok(()) } else { Err(TreeError::corrupt(path, "checksum mismatch")) }
}

fn parse_current(head: &[u8]) -> Option<(u64, u128)> {
    let (version, rest) = head.split_first_chunk::<8>()?;
    let (checksum, rest) = rest.split_first_chunk::<16>()?;
    (head.len() == CURRENT_BYTES && rest == [0]).then_some((u64::from_le_bytes(*version), u128::from_le_bytes(*checksum)))
}

/// The directory at the end of an `sfa` file (a table or a manifest), once its checksum is known to be right.
fn read_directory(file: &mut (impl Read + Seek), path: &Path) -> Result<Vec<u8>, TreeError> {
    let io = |error: io::Error| TreeError::from_io(&error, path);
    let length = file.seek(SeekFrom::End(0)).map_err(io)?;
    let end = length.checked_sub(TRAILER_BYTES).ok_or_else(|| TreeError::corrupt(path, "too short"))?;
    file.seek(SeekFrom::Start(end)).map_err(io)?;
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact(&mut trailer).map_err(io)?;

    let (expected, start) = parse_trailer(&trailer).ok_or_else(|| TreeError::corrupt(path, "no trailer"))?;
    let size = end.checked_sub(start).ok_or_else(|| TreeError::corrupt(path, "the directory lies outside of the file"))?;
    file.seek(SeekFrom::Start(start)).map_err(io)?;
    let mut directory = Vec::new();
    file.take(size).read_to_end(&mut directory).map_err(io)?;
    if checksum(&directory) == expected { Ok(directory) } else { Err(TreeError::corrupt(path, "checksum mismatch in the directory")) }
}

/// The directory's checksum and position.
fn parse_trailer(trailer: &[u8]) -> Option<(u128, u64)> {
    let rest = trailer.strip_prefix(b"SFA!\x01\x00")?;
    let (checksum, rest) = rest.split_first_chunk::<16>()?;
    let (position, _length) = rest.split_first_chunk::<8>()?;
    Some((u128::from_le_bytes(*checksum), u64::from_le_bytes(*position)))
}

/// Where a named section lies in its file.
fn section(directory: &[u8], name: &[u8]) -> Option<std::ops::Range<usize>> {
    let mut rest = directory.strip_prefix(b"TOC!")?.get(4..)?;
    while !rest.is_empty() {
        let (position, after) = rest.split_first_chunk::<8>()?;
        let (length, after) = after.split_first_chunk::<8>()?;
        let (name_length, after) = after.split_first_chunk::<2>()?;
        let (found, after) = after.split_at_checked(u16::from_le_bytes(*name_length).into())?;
        if found == name {
            let start = usize::try_from(u64::from_le_bytes(*position)).ok()?;
            return Some(start..start.checked_add(usize::try_from(u64::from_le_bytes(*length)).ok()?)?);
        }
        rest = after;
    }
    None
}

/// The list of tables: levels of runs of entries.
fn table_ids(section: &[u8]) -> Option<Vec<u64>> {
    let mut ids = Vec::new();
    let (&levels, mut rest) = section.split_first()?;
    for _ in 0..levels {
        let (&runs, after) = rest.split_first()?;
        rest = after;
        for _ in 0..runs {
            let (count, after) = rest.split_first_chunk::<4>()?;
            let size = (u32::from_le_bytes(*count) as usize).checked_mul(TABLE_ENTRY_BYTES)?;
            let (entries, after) = after.split_at_checked(size)?;
            ids.extend(entries.chunks_exact(TABLE_ENTRY_BYTES).filter_map(|entry| entry.first_chunk()).map(|id| u64::from_le_bytes(*id)));
            rest = after;
        }
    }
    Some(ids)
}

/// The engine's own hash (XXH3, 128 bits), through the one part of it that is public.
fn checksum(bytes: &[u8]) -> u128 {
    let mut hasher = ChecksummedWriter::new(io::sink());
    hasher.write_all(bytes).expect("writing into a sink succeeds");
    hasher.checksum().into_u128()
}

/// Removes what a crash between writing and renaming `current` leaves; the engine looks only at files that begin with `v`.
pub(super) fn remove_temporary_files(dir: &Path) -> io::Result<()> {
    let paths: Vec<PathBuf> = match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for path in paths {
        if path.is_file() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".tmp")) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
