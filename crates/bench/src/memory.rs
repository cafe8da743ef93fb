//! How much memory a process holds. Engine and generator share one, except for the replay.

use std::{fs, time::Instant};

use serde::Serialize;

/// In MB (10^6 bytes).
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    pub after: String,
    /// When, since the run began.
    pub at_s: f64,
    pub rss_mb: f64,
    /// The most since the last look.
    pub peak_mb: f64,
}

impl Memory {
    /// Looks, and starts the peak anew.
    pub fn after(phase: &str, begun: Instant) -> Memory {
        let memory = Memory::of("self", phase, begun);
        // Where the system does not let us, the peak is that since the start.
        let _ = fs::write("/proc/self/clear_refs", "5");
        memory
    }

    /// That of another process, by its id.
    pub fn of(process: &str, phase: &str, begun: Instant) -> Memory {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let (rss_mb, peak_mb) = (megabytes(&status, "VmRSS:"), megabytes(&status, "VmHWM:"));
        Memory { after: phase.to_owned(), at_s: begun.elapsed().as_secs_f64(), rss_mb, peak_mb }
    }
}

/// 0 where the system does not tell.
fn megabytes(status: &str, name: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib: f64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default();
    kib * 1_024.0 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_the_status_page() {
        let status = "Name:\tx\nVmHWM:\t   2000 kB\nVmRSS:\t   1000 kB\n";
        assert_eq!(megabytes(status, "VmRSS:"), 1.024);
        assert_eq!(megabytes(status, "VmHWM:"), 2.048);
        assert_eq!(megabytes("", "VmRSS:"), 0.0);
    }
}
