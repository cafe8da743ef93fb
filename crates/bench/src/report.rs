//! Everything that one run has found, as it is written to JSON.

use serde::Serialize;

use crate::{DiskSpeed, Memory, Summary, check::Verdict};

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub machine: Machine,
    /// At the beginning, before the sends and at the end, each time alone.
    pub disks: Vec<DiskSpeed>,
    /// The log alone.
    pub raw: Vec<Raw>,
    pub setup: Setup,
    /// Through the use case; each sender goes on when the log has its message.
    pub acked: Vec<Run>,
    /// Through the use case; each sender goes on when its message is visible.
    pub visible: Vec<Run>,
    /// Through the use case, at fixed rates; latencies count from when a send was due.
    pub paced: Vec<PacedRun>,
    pub reads: Vec<Read>,
    pub sizes: Sizes,
    pub open: Open,
    pub replay: Replay,
    pub memory: Vec<Memory>,
    /// After reopening, and after replaying the log into a new state.
    pub checks: Vec<Verdict>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub version: String,
    pub cores: usize,
    pub file_system: String,
    pub seconds_per_phase: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Raw {
    pub senders: usize,
    pub per_s: f64,
    pub failed: u64,
    pub ack: Summary,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Setup {
    pub users: u64,
    pub users_s: f64,
    /// At least one for each conversation.
    pub opening_messages: u64,
    pub openings_s: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Run {
    pub senders: usize,
    pub per_s: f64,
    pub refused: u64,
    pub unknown: u64,
    /// Acknowledged, but not accepted.
    pub surprises: u64,
    pub ack: Summary,
    pub visible: Summary,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct PacedRun {
    pub wanted_per_s: u32,
    pub per_s: f64,
    pub refused: u64,
    pub unknown: u64,
    pub surprises: u64,
    /// Due, but never begun.
    pub undone: u64,
    pub ack: Summary,
    pub visible: Summary,
    /// The part of both that passed before a send was begun.
    pub late: Summary,
}

#[derive(Clone, Debug, Serialize)]
pub struct Read {
    pub what: String,
    pub per_s: u32,
    pub under_load: bool,
    pub latency: Summary,
}

/// After everything was flushed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sizes {
    pub messages: u64,
    /// Without what is filled ahead.
    pub log_bytes: u64,
    pub state_bytes: u64,
}

/// Of a folder with everything flushed; its files are in the system's cache.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Open {
    pub messages: u64,
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Replay {
    pub events: u64,
    pub seconds: f64,
    pub per_s: f64,
}

/// What is compared with targets: parts of one run, so that machines matter less.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratios {
    pub raw_1_of_fsyncs: f64,
    pub acked_1_of_fsyncs: f64,
    pub acked_256_of_raw_256: f64,
    pub visible_256_per_s: f64,
    pub ack_p99_at_5000_in_fsyncs: f64,
    pub replay_per_s: f64,
    pub open_seconds: f64,
    pub rss_peak_mb: f64,
}

impl Report {
    /// With the ratios beside what they were computed from.
    pub fn to_json(&self) -> String {
        let mut all = serde_json::json!(self);
        all["ratios"] = serde_json::json!(self.ratios());
        format!("{all:#}\n")
    }

    pub fn ratios(&self) -> Ratios {
        let of = |runs: &[Run], senders| runs.iter().find(|run| run.senders == senders).map_or(0.0, |run| run.per_s);
        let raw = |senders| self.raw.iter().find(|run| run.senders == senders).map_or(0.0, |run| run.per_s);
        let at_5000 = self.paced.iter().find(|run| run.wanted_per_s == 5_000).map_or(0.0, |run| run.ack.p99_us);
        let fsyncs_per_s = self.disk().fsyncs_per_s;
        Ratios {
            raw_1_of_fsyncs: raw(1) / fsyncs_per_s,
            acked_1_of_fsyncs: of(&self.acked, 1) / fsyncs_per_s,
            acked_256_of_raw_256: of(&self.acked, 256) / raw(256),
            visible_256_per_s: of(&self.visible, 256),
            ack_p99_at_5000_in_fsyncs: self.in_fsyncs(at_5000),
            replay_per_s: self.replay.per_s,
            open_seconds: self.open.seconds,
            // Not what follows the checks, in which the bench keeps a record of every message.
            rss_peak_mb: self.memory.iter().filter(|memory| memory.after != "disk").map(|memory| memory.peak_mb).fold(0.0, f64::max),
        }
    }

    /// The middle one: a disk has faster and slower moments of its own.
    pub fn disk(&self) -> DiskSpeed {
        let mut disks = self.disks.clone();
        disks.sort_by(|one, other| one.fsyncs_per_s.total_cmp(&other.fsyncs_per_s));
        disks.get(disks.len() / 2).copied().unwrap_or_default()
    }

    /// Whether someone else used the disk meanwhile, so that the ratios say little.
    pub fn is_uneven(&self) -> bool {
        let speeds = || self.disks.iter().map(|disk| disk.fsyncs_per_s);
        speeds().fold(0.0, f64::max) > speeds().fold(f64::MAX, f64::min) * 1.5
    }

    pub fn in_fsyncs(&self, us: f64) -> f64 {
        us / self.disk().latency.p50_us
    }

    pub fn is_right(&self) -> bool {
        let surprises = self.acked.iter().chain(&self.visible).map(|run| run.surprises).chain(self.paced.iter().map(|run| run.surprises));
        self.checks.iter().all(Verdict::is_right) && surprises.sum::<u64>() == 0
    }
}
