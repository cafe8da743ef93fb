//! What a process has spent.

use std::{fs, time::Duration};

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

/// In user and in system mode. The name, which is in brackets, may hold anything.
fn ticks(stat: &str) -> f64 {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_behind_any_name() {
        assert_eq!(ticks("12 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20"), 200.0);
        assert_eq!(ticks(""), 0.0);
    }
}
