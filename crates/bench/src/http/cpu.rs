//! What a process has spent.

use std::{collections::HashSet, fs, time::Duration};

/// Linux counts hundredths of a second, whatever the machine.
const TICKS_PER_S: f64 = 100.0;

/// The CPU time of a process at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Cpu(Duration);

impl Cpu {
    /// Zero for what runs elsewhere.
    pub fn of(process: Option<u32>) -> Cpu {
        let stat = process.and_then(|process| fs::read_to_string(format!("/proc/{process}/stat")).ok()).unwrap_or_default();
        Cpu(Duration::from_secs_f64(ticks(&stat) / TICKS_PER_S))
    }

    pub fn since(self, process: Option<u32>) -> Duration {
        Cpu::of(process).0.saturating_sub(self.0)
    }
}

/// The process on this machine that listens at an address, if there is one that we may look at.
pub fn listener(address: &str) -> Option<u32> {
    let port: u16 = address.rsplit_once(':')?.1.parse().ok()?;
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let sockets: HashSet<String> = tables.iter().flat_map(|table| table.lines()).filter_map(|line| socket_at(line, port)).collect();
    let processes = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holds = |process: &u32| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| link.to_str().is_some_and(|link| sockets.contains(link)))
    };
    processes.into_iter().find(holds)
}

/// The name of the socket that a line of the kernel's table tells of, if it listens at the port.
fn socket_at(line: &str, port: u16) -> Option<String> {
    const LISTENING: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let is_it = *state == LISTENING && u16::from_str_radix(local.rsplit_once(':')?.1, 16) == Ok(port);
    is_it.then(|| format!("socket:[{inode}]"))
}

/// In user and in system mode. The name, which is in brackets, may hold anything.
fn ticks(stat: &str) -> f64 {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port() {
        let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(listener(&listening.local_addr().unwrap().to_string()), Some(std::process::id()));
        assert_eq!(listener("127.0.0.1"), None);
    }

    #[test]
    fn ticks_are_read_behind_any_name() {
        assert_eq!(ticks("12 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20"), 200.0);
        assert_eq!(ticks(""), 0.0);
    }
}
