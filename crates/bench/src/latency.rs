//! How long things took.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use hdrhistogram::Histogram;
use serde::Serialize;

/// So that senders on different threads seldom meet.
const SHARDS: usize = 4;
const MAX: Duration = Duration::from_secs(120);
const SIGNIFICANT_DIGITS: u8 = 3;

/// Collects latencies from any thread, in bounded memory.
pub struct Latencies {
    shards: [Mutex<Histogram<u32>>; SHARDS],
}

impl Default for Latencies {
    fn default() -> Latencies {
        let new = || Histogram::new_with_max(nanos(MAX), SIGNIFICANT_DIGITS).expect("the bounds are constants that fit");
        Latencies { shards: std::array::from_fn(|_| Mutex::new(new())) }
    }
}

impl Latencies {
    pub fn record(&self, lane: u32, took: Duration) {
        let shard = &self.shards[lane as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(nanos(took));
    }

    pub fn summary(&self) -> Summary {
        let mut all: Histogram<u32> = Histogram::new_with_max(nanos(MAX), SIGNIFICANT_DIGITS).expect("the bounds are constants that fit");
        for shard in &self.shards {
            all.add(&*shard.lock().unwrap_or_else(PoisonError::into_inner)).expect("all have the same bounds");
        }
        let us = |ns: u64| ns as f64 / 1_000.0;
        let at = |quantile| us(all.value_at_quantile(quantile));
        Summary { count: all.len(), p50_us: at(0.5), p99_us: at(0.99), p999_us: at(0.999), max_us: us(all.max()) }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub count: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_over_all_lanes_and_nothing_is_too_long() {
        let latencies = Latencies::default();
        for us in 1..=1_000 {
            latencies.record(us, Duration::from_micros(us.into()));
        }
        latencies.record(0, MAX * 2);
        let summary = latencies.summary();
        assert_eq!(summary.count, 1_001);
        assert!((summary.p50_us - 501.0).abs() < 1.0 && (summary.p99_us - 991.0).abs() < 1.0, "{summary:?}");
        assert!(summary.max_us >= 120e6, "{summary:?}");
    }
}
