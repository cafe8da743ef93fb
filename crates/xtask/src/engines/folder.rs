//! Where the folder of the engines is: in memory if that is large enough, for most of the time in which tables and databases are made, engines
//! wait for the disk. A process that is killed loses nothing that way, and nobody reads what they stored once they are stopped.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::request::Jit;

const IN_MEMORY: &str = "/dev/shm";
/// In the check, the engines stored up to 2.2 GiB; the tests beside them take memory, too.
const ROOM_MIN_KIB: u64 = 6 << 20;

/// `TMPDIR`, if that is set. What is to be measured is on a disk.
pub fn parent(jit: Jit) -> PathBuf {
    let is_in_memory = jit == Jit::Quick && env::var_os("TMPDIR").is_none() && has_room(Path::new(IN_MEMORY));
    if is_in_memory { PathBuf::from(IN_MEMORY) } else { env::temp_dir() }
}

fn has_room(folder: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let df = Command::new("df").arg("-Pk").arg(folder).output();
    let free = df.ok().and_then(|df| free_of_df(&String::from_utf8_lossy(&df.stdout)));
    takes_programs(&mounts, folder) && free.min(free_of_memory(&memory)) >= Some(ROOM_MIN_KIB)
}

/// Cassandra puts a library there.
fn takes_programs(mounts: &str, folder: &Path) -> bool {
    mounts.lines().any(|mount| match mount.split(' ').collect::<Vec<_>>()[..] {
        [_, place, "tmpfs", options, ..] => Path::new(place) == folder && options.split(',').all(|option| option != "noexec"),
        _ => false,
    })
}

fn free_of_df(text: &str) -> Option<u64> {
    text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
}

fn free_of_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_must_take_programs() {
        let shm = Path::new(IN_MEMORY);
        assert!(takes_programs("proc /proc proc rw 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n", shm));
        assert!(!takes_programs("shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k 0 0\n", shm));
        assert!(!takes_programs("/dev/sda1 / ext4 rw 0 0\n", shm));
    }

    #[test]
    fn free_room_is_read_in_kib() {
        let df = "Filesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs 12345 45 12300 1% /dev/shm\n";
        assert_eq!((free_of_df(df), free_of_df("df: no such file\n")), (Some(12300), None));
        assert_eq!(free_of_memory("MemTotal: 9 kB\nMemAvailable:   7 kB\n"), Some(7));
    }
}
