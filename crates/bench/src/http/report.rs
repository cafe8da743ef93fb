//! Everything that one run over HTTP has found, for JSON and for people.

use std::fmt::Write as _;

use serde::Serialize;

use super::Verdict;
use crate::{
    DiskSpeed, Memory, Summary,
    report::Machine,
    table::{aligned, cells, count, number, plain},
};

#[derive(Clone, Debug, Serialize)]
pub struct HttpReport {
    pub machine: Machine,
    pub disk: Option<DiskSpeed>,
    /// The engine alone, in the same run; none for a server elsewhere.
    pub engine: Option<Engine>,
    /// Sends a second of one connection to a server that does nothing but sync; none for a server elsewhere.
    pub bare_per_s: Option<f64>,
    /// As fast as answers come.
    pub closed: Vec<Run>,
    /// At fixed rates; latencies count from when a send was due.
    pub paced: Vec<Run>,
    pub reads: Vec<Read>,
    /// Of the server.
    pub memory: Vec<Memory>,
    pub log_bytes_per_message: Option<f64>,
    pub state_bytes_per_message: Option<f64>,
    pub check: Verdict,
}

/// Through the use case, each sender going on when its message is visible.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Engine {
    pub one_per_s: f64,
    pub many_per_s: f64,
    pub many: usize,
    /// With its generator, which is in the same process.
    pub many_cpu_us: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Run {
    pub connections: usize,
    pub wanted_per_s: Option<u32>,
    /// Acknowledged.
    pub per_s: f64,
    /// Answered with 202: not visible yet.
    pub pending: u64,
    pub failed: u64,
    pub ack: Summary,
    /// Until its recipient has read it; one in 32 is looked for.
    pub visible: Summary,
    pub late: Option<Summary>,
    /// For each send, in all of the process's threads.
    pub server_cpu_us: f64,
    pub generator_cpu_us: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Read {
    pub what: String,
    pub per_s: u32,
    /// Sends a second meanwhile.
    pub while_per_s: u32,
    pub latency: Summary,
}

impl HttpReport {
    pub fn to_json(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }

    pub fn is_right(&self) -> bool {
        self.check.is_right()
    }
}

pub fn table(report: &HttpReport) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "dunlin {} over HTTP, {} cores for server and generator, {}, {} s a phase; times in µs\n",
        machine.version, machine.cores, machine.file_system, machine.seconds_per_phase
    );
    let mut part = |title: &str, rows: Vec<Vec<String>>| text.push_str(&format!("\n{title}\n{}", aligned(&rows)));
    let mut beside = vec![cells(["", "a second"])];
    if let Some(disk) = &report.disk {
        beside.push(vec!["the disk's syncs".into(), number(disk.fsyncs_per_s)]);
    }
    if let Some(engine) = &report.engine {
        beside.push(vec!["engine alone, 1 sender, acked when visible".into(), number(engine.one_per_s)]);
        let many = format!("engine alone, {} senders, acked when visible ({} µs CPU each)", engine.many, number(engine.many_cpu_us));
        beside.push(vec![many, number(engine.many_per_s)]);
    }
    if let Some(per_s) = report.bare_per_s {
        beside.push(vec!["a bare server that writes and syncs, 1 connection".into(), number(per_s)]);
    }
    part("beside it", beside);
    let mut closed = report.closed.clone();
    closed.sort_by_key(|run| run.connections);
    part("sends: as fast as answers come", runs(&closed));
    part("sends: at a fixed rate, counted from when each was due", runs(&report.paced));
    let mut reads = vec![cells(["", "while sends/s", "reads/s", "p50", "p99", "p99.9", "max"])];
    for read in &report.reads {
        reads.push([vec![read.what.clone(), count(read.while_per_s.into()), read.per_s.to_string()], plain(&read.latency)].concat());
    }
    part("reads", reads);
    if !report.memory.is_empty() {
        let mut memory = vec![cells(["after", "resident", "peak since start"])];
        memory.extend(report.memory.iter().map(|one| vec![one.after.clone(), number(one.rss_mb), number(one.peak_mb)]));
        part("memory of the server (MB)", memory);
    }
    if let (Some(log), Some(state)) = (report.log_bytes_per_message, report.state_bytes_per_message) {
        part("bytes a message", vec![vec!["log".into(), number(log)], vec!["state".into(), number(state)]]);
    }
    part("in short", short(report));
    let _ = writeln!(text, "\n{}", report.check.sentence());
    text
}

fn runs(all: &[Run]) -> Vec<Vec<String>> {
    let head = [
        "",
        "a second",
        "ack p50",
        "p99",
        "p99.9",
        "max",
        "visible p50",
        "p99",
        "p99.9",
        "max",
        "CPU server",
        "generator",
        "202",
        "failed",
    ];
    let mut rows = vec![cells(head)];
    for run in all {
        let name = match run.wanted_per_s {
            Some(wanted) => format!("{} a second, {} connections", count(wanted.into()), run.connections),
            None => format!("{} connections", run.connections),
        };
        let cpu = vec![number(run.server_cpu_us), number(run.generator_cpu_us)];
        let back = vec![count(run.pending), count(run.failed)];
        rows.push([vec![name, number(run.per_s)], plain(&run.ack), plain(&run.visible), cpu, back].concat());
    }
    rows
}

fn short(report: &HttpReport) -> Vec<Vec<String>> {
    let row = |what: &str, value: String, target: &str| vec![what.to_owned(), value, target.to_owned()];
    let of = |connections| report.closed.iter().find(|run| run.connections == connections);
    let mut rows = vec![row("", "here".into(), "target")];
    if let Some(run) = of(256) {
        rows.push(row("256 connections, accepted sends a second", number(run.per_s), ">= 10,000"));
        if let Some(engine) = &report.engine {
            // The generator takes its share of the cores; the engine's own figure has its generator in it.
            let cores = report.machine.cores as f64 * 1e6;
            let left = 1.0 - run.generator_cpu_us * run.per_s / cores;
            rows.push(row("  of the engine's rate", format!("{:.2}", run.per_s / engine.many_per_s), ""));
            rows.push(row("  of what the generator leaves of it", format!("{:.2}", run.per_s / (engine.many_per_s * left)), ">= 0.5"));
        }
    }
    if let (Some(run), Some(disk)) = (of(1), &report.disk) {
        rows.push(row("1 connection, of the disk's syncs", format!("{:.0} %", run.per_s / disk.fsyncs_per_s * 100.0), ">= 50 %"));
    }
    if let (Some(run), Some(bare)) = (of(1), report.bare_per_s) {
        rows.push(row("  of a bare server that only syncs", format!("{:.0} %", run.per_s / bare * 100.0), ""));
    }
    if let (Some(run), Some(disk)) = (report.paced.iter().find(|run| run.wanted_per_s == Some(2_000)), &report.disk) {
        rows.push(row("p99 at 2,000 a second, in syncs", format!("{:.1}", run.ack.p99_us / disk.latency.p50_us), "<= 20"));
    }
    for read in report.reads.iter().filter(|read| read.while_per_s > 0 && !read.what.ends_with("of 20")) {
        rows.push(row(&format!("{} under load, p99 (ms)", read.what), format!("{:.1}", read.latency.p99_us / 1_000.0), "< 10"));
    }
    if let Some(idle) = report.memory.first() {
        rows.push(row("memory of the idle server (MB)", number(idle.rss_mb), "< 60"));
    }
    rows
}
