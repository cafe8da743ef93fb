//! Everything that one run against a cluster has found, for JSON and for people.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{
    Summary,
    http::{Run, Verdict},
    report::Machine,
    table::{aligned, cells, count, number, plain},
};

#[derive(Clone, Debug, Serialize)]
pub struct ClusterReport {
    pub machine: Machine,
    pub partitions: u32,
    /// Appends: the driver alone, then the log.
    pub log: Vec<Alone>,
    /// Messages: the driver alone with the same statements, the projector alone, then the use case and the projector, without HTTP.
    pub store: Vec<Alone>,
    /// Requests to the message store for each message of the last of those.
    pub writes_per_message: f64,
    pub reads_per_message: f64,
    pub sends: Vec<Sends>,
    /// One message after the other, without HTTP.
    pub costs: Vec<Alone>,
    /// One read after the other, without HTTP.
    pub reads: Vec<Alone>,
    /// Readers of one conversation, and how many queries each page took.
    pub hot: Vec<Hot>,
    /// Users: the driver alone and the directory, writing, then reading. Empty if they are in SQLite.
    pub directory: Vec<Alone>,
    pub check: Verdict,
}

#[derive(Clone, Debug, Serialize)]
pub struct Alone {
    pub what: String,
    pub at_once: usize,
    pub per_s: f64,
    pub latency: Summary,
    pub cpu: Vec<Spent>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Hot {
    pub readers: usize,
    pub pages_per_s: f64,
    pub queries_per_page: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Sends {
    pub what: String,
    pub run: Run,
    pub cpu: Vec<Spent>,
}

/// What a process has spent for each thing that was done.
#[derive(Clone, Debug, Serialize)]
pub struct Spent {
    pub process: String,
    pub us: f64,
}

impl ClusterReport {
    pub fn to_json(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }
}

pub fn table(report: &ClusterReport) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "dunlin {} on a cluster, {} partitions, {} cores for everything, {} s a phase; times in µs\n",
        machine.version, report.partitions, machine.cores, machine.seconds_per_phase
    );
    let mut part = |title: &str, rows: Vec<Vec<String>>| text.push_str(&format!("\n{title}\n{}", aligned(&rows)));
    part("appends", alone(&report.log));
    part("messages, without HTTP", alone(&report.store));
    let per_message = |what: &str, requests: f64| vec![what.to_owned(), format!("{requests:.2}")];
    part(
        "requests to the message store a message",
        vec![per_message("writes", report.writes_per_message), per_message("reads", report.reads_per_message)],
    );
    part("sends over HTTP", sends(&report.sends));
    part("one message after the other, without HTTP", alone(&report.costs));
    part("one read after the other, without HTTP", alone(&report.reads));
    part("the newest 50 of one conversation, without HTTP", hot(&report.hot));
    if !report.directory.is_empty() {
        part("users", alone(&report.directory));
    }
    part("in short", short(report));
    let _ = writeln!(text, "\n{}", report.check.sentence());
    text
}

fn alone(all: &[Alone]) -> Vec<Vec<String>> {
    let mut rows =
        vec![[cells(["", "at once", "a second", "p50", "p99", "p99.9", "max"]), processes(all.first().map(|one| &one.cpu[..]))].concat()];
    for one in all {
        let front = vec![one.what.clone(), one.at_once.to_string(), number(one.per_s)];
        rows.push([front, plain(&one.latency), spent(&one.cpu)].concat());
    }
    rows
}

fn hot(all: &[Hot]) -> Vec<Vec<String>> {
    let mut rows = vec![cells(["readers", "pages a second", "queries a page"])];
    rows.extend(all.iter().map(|hot| vec![hot.readers.to_string(), number(hot.pages_per_s), format!("{:.2}", hot.queries_per_page)]));
    rows
}

fn sends(all: &[Sends]) -> Vec<Vec<String>> {
    let head = cells(["", "a second", "ack p50", "p99", "visible p50", "p99", "202", "failed"]);
    let mut rows = vec![[head, processes(all.first().map(|one| &one.cpu[..]))].concat()];
    for Sends { what, run, cpu } in all {
        let latencies = [run.ack, run.visible].iter().flat_map(|summary| [number(summary.p50_us), number(summary.p99_us)]).collect();
        let front = vec![what.clone(), number(run.per_s)];
        rows.push([front, latencies, vec![count(run.pending), count(run.failed)], spent(cpu)].concat());
    }
    rows
}

fn processes(cpu: Option<&[Spent]>) -> Vec<String> {
    cpu.unwrap_or_default().iter().map(|spent| format!("CPU {}", spent.process)).collect()
}

fn spent(cpu: &[Spent]) -> Vec<String> {
    cpu.iter().map(|spent| number(spent.us)).collect()
}

fn short(report: &ClusterReport) -> Vec<Vec<String>> {
    let row = |what: &str, value: String, target: &str| vec![what.to_owned(), value, target.to_owned()];
    let ratio = |all: &[Alone]| match all {
        [bare, ours, ..] => format!("{:.2}", ours.per_s / bare.per_s),
        _ => String::new(),
    };
    let mut rows = vec![row("", "here".into(), "target")];
    rows.push(row("the log, of the bare producer", ratio(&report.log), ">= 0.5"));
    rows.push(row("the projector, of the bare driver", ratio(&report.store), ">= 0.5"));
    if let [write, write_ours, read, read_ours] = &report.directory[..] {
        rows.push(row("users written, of the bare driver", format!("{:.2}", write_ours.per_s / write.per_s), ">= 0.5"));
        rows.push(row("users read, of the bare driver", format!("{:.2}", read_ours.per_s / read.per_s), ">= 0.5"));
    }
    let lag: Vec<f64> = report.sends.iter().filter(|sends| sends.what.starts_with("60 %")).map(|sends| sends.run.visible.p50_us).collect();
    if let ([first, ..], [.., last]) = (&lag[..], &lag[..]) {
        rows.push(row("visible p50 at 60 %, end of beginning", format!("{:.2}", last / first), "about 1"));
    }
    let p99 = |what: &str| report.reads.iter().find(|read| read.what.contains(what)).map(|read| read.latency.p99_us / 1_000.0);
    if let Some(ms) = p99("10000") {
        rows.push(row("first page of an inbox of 10,000, p99 (ms)", format!("{ms:.1}"), "< 50"));
    }
    rows
}
