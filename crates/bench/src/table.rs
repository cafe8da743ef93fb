//! A report for people.

use std::fmt::Write as _;

use crate::{Report, Summary, check::Verdict, report::Ratios};

pub fn table(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "dunlin {} on {} cores, {}, {} s a phase; times in µs, in brackets as multiples of a sync's p50\n",
        machine.version, machine.cores, machine.file_system, machine.seconds_per_phase
    );
    let mut part = |title: &str, rows: Vec<Vec<String>>| text.push_str(&format!("\n{title}\n{}", aligned(&rows)));
    part("disk: write of 300 bytes and fdatasync", disks(report));
    part("sends: as fast as answers come", throughput(report));
    part("sends: at a fixed rate, counted from when each was due", rates(report));
    part("reads", reads(report));
    part("memory (MB, engine and generator together; the replay is a process of its own)", memory(report));
    let setup = &report.setup;
    let per_message = |bytes: u64| number(bytes as f64 / report.sizes.messages.max(1) as f64);
    part(
        "sizes and starts",
        vec![
            vec!["messages".into(), count(report.sizes.messages)],
            vec!["log bytes a message".into(), per_message(report.sizes.log_bytes)],
            vec!["state bytes a message".into(), per_message(report.sizes.state_bytes)],
            vec!["open, all flushed (s)".into(), format!("{:.3}", report.open.seconds)],
            vec!["replay into a new state (events/s)".into(), number(report.replay.per_s)],
            vec!["users created a second".into(), number(setup.users as f64 / setup.users_s)],
            vec!["conversations opened a second".into(), number(setup.opening_messages as f64 / setup.openings_s)],
        ],
    );
    part("in short", ratios(&report.ratios()));
    for (verdict, when) in report.checks.iter().zip(["after reopening", "after a replay into a new state"]) {
        let _ = writeln!(text, "\n{}", sentence(verdict, when));
    }
    text
}

fn disks(report: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![cells(["", "syncs/s", "p50", "p99", "p99.9", "max"])];
    for (disk, when) in report.disks.iter().zip(["at the beginning", "before the sends", "at the end"]) {
        rows.push([vec![when.into(), number(disk.fsyncs_per_s)], plain(&disk.latency)].concat());
    }
    if report.is_uneven() {
        rows.push(cells(["uneven: something else uses this disk, so the ratios below say little"]));
    }
    rows
}

fn throughput(report: &Report) -> Vec<Vec<String>> {
    let mut rows =
        vec![cells(["", "senders", "a second", "ack p50", "p99", "p99.9", "max", "visible p50", "p99", "p99.9", "max", "failed"])];
    for run in &report.raw {
        let front = vec!["log alone".into(), run.senders.to_string(), number(run.per_s)];
        rows.push([front, in_fsyncs(report, &run.ack), vec![String::new(); 4], vec![count(run.failed)]].concat());
    }
    for (name, runs) in [("acked by the log", &report.acked), ("acked when visible", &report.visible)] {
        for run in runs {
            let front = vec![name.into(), run.senders.to_string(), number(run.per_s)];
            let failed = vec![count(run.refused + run.unknown + run.surprises)];
            rows.push([front, in_fsyncs(report, &run.ack), in_fsyncs(report, &run.visible), failed].concat());
        }
    }
    rows
}

fn rates(report: &Report) -> Vec<Vec<String>> {
    let mut rows =
        vec![cells(["wanted", "a second", "ack p50", "p99", "p99.9", "max", "visible p50", "p99", "p99.9", "max", "late p99", "failed"])];
    for run in &report.paced {
        let front = vec![count(run.wanted_per_s.into()), number(run.per_s)];
        let back = vec![number(run.late.p99_us), count(run.refused + run.unknown + run.surprises + run.undone)];
        rows.push([front, in_fsyncs(report, &run.ack), in_fsyncs(report, &run.visible), back].concat());
    }
    rows
}

fn reads(report: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![cells(["", "while", "reads/s", "p50", "p99", "p99.9", "max"])];
    for read in &report.reads {
        let load = if read.under_load { "5,000 sends/s" } else { "idle" };
        rows.push([vec![read.what.clone(), load.into(), read.per_s.to_string()], plain(&read.latency)].concat());
    }
    rows
}

fn memory(report: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![cells(["after", "resident", "peak"])];
    rows.extend(report.memory.iter().map(|memory| vec![memory.after.clone(), number(memory.rss_mb), number(memory.peak_mb)]));
    rows
}

fn ratios(ratios: &Ratios) -> Vec<Vec<String>> {
    let row = |what: &str, value: String, target: &str| vec![what.to_owned(), value, target.to_owned()];
    vec![
        row("", "here".into(), "target"),
        row("one sender, log alone, of the disk's syncs", format!("{:.0} %", ratios.raw_1_of_fsyncs * 100.0), ">= 70 %"),
        row("one sender, acked by the log, of the disk's syncs", format!("{:.0} %", ratios.acked_1_of_fsyncs * 100.0), ">= 70 %"),
        row("256 senders, acked by the log, of the log alone", format!("{:.2}", ratios.acked_256_of_raw_256), ">= 0.10"),
        row("256 senders, acked when visible, a second", number(ratios.visible_256_per_s), ">= 25,000"),
        row("p99 of ack at 5,000/s, in syncs", format!("{:.1}", ratios.ack_p99_at_5000_in_fsyncs), "<= 20"),
        row("replay, events a second", number(ratios.replay_per_s), ">= 80,000"),
        row("open, seconds", format!("{:.3}", ratios.open_seconds), "< 2 with a million"),
        row("memory at most (MB)", number(ratios.rss_peak_mb), "< 200"),
    ]
}

fn sentence(verdict: &Verdict, when: &str) -> String {
    let Verdict { acknowledged, conversations, messages, lost, twice, refused_but_there, altered, out_of_order, not_dense, strangers } =
        verdict;
    if verdict.is_right() {
        return format!(
            "checked {when}: all {} acknowledged sends are there exactly once, as they were sent, in order for each sender and conversation, \
             and numbered without gaps ({} messages in {} conversations)",
            count(*acknowledged),
            count(*messages),
            count(*conversations)
        );
    }
    format!(
        "WRONG {when}: of {acknowledged} acknowledged sends {lost} lost, {twice} twice, {altered} altered, {out_of_order} out of order, \
         {not_dense} numbers or heads not dense, {refused_but_there} refused but there, {strangers} sent by nobody ({messages} messages)"
    )
}

pub(crate) fn plain(summary: &Summary) -> Vec<String> {
    [summary.p50_us, summary.p99_us, summary.p999_us, summary.max_us].map(number).to_vec()
}

fn in_fsyncs(report: &Report, summary: &Summary) -> Vec<String> {
    let cell = |us| format!("{} [{:.1}]", number(us), report.in_fsyncs(us));
    [summary.p50_us, summary.p99_us, summary.p999_us, summary.max_us].map(cell).to_vec()
}

pub(crate) fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { count(value.round() as u64) }
}

/// With a comma between thousands.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn cells<const COUNT: usize>(cells: [&str; COUNT]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// The first column to the left, the others to the right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    // A row of one cell is a remark, which makes no column wider.
    let width = |column: usize| {
        rows.iter().filter(|row| row.len() > 1).filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if column == 0 { write!(line, "  {cell:<width$}") } else { write!(line, "  {cell:>width$}") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_commas() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn columns_line_up() {
        let rows = [cells(["a", "bb"]), cells(["long", "1"])];
        assert_eq!(aligned(&rows), "  a     bb\n  long   1\n");
    }
}
