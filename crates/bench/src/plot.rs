//! A report as a picture: plain SVG on a white card, so that it reads on light and dark pages.

use std::fmt::Write as _;

use crate::{Report, report::PacedRun, table::count};

const WIDTH: f64 = 1_040.0;
const HEIGHT: f64 = 430.0;
/// Where both charts stand.
const TOP: f64 = 110.0;
const BOTTOM: f64 = 390.0;
/// Told apart by people who see few colours.
const BLUE: &str = "#0072b2";
const ORANGE: &str = "#d55e00";
const GREEN: &str = "#009e73";

pub fn svg(report: &Report) -> String {
    let machine = &report.machine;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#222\">\n<title>dunlin bench engine</title>\n\
         <rect x=\"1\" y=\"1\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"#fff\" stroke=\"#bbb\"/>\n",
        WIDTH - 2.0,
        HEIGHT - 2.0
    );
    let title = format!(
        "dunlin {} · {} cores · {} · {} syncs/s (p50 {:.0} µs)",
        machine.version,
        machine.cores,
        machine.file_system,
        count(report.disk().fsyncs_per_s as u64),
        report.disk().latency.p50_us
    );
    let _ = writeln!(svg, "<text x=\"24\" y=\"34\" font-size=\"16\" font-weight=\"600\">{title}</text>");
    bars(&mut svg, report);
    lines(&mut svg, &report.paced);
    svg.push_str("</svg>\n");
    svg
}

/// Throughput by senders.
fn bars(svg: &mut String, report: &Report) {
    const LEFT: f64 = 70.0;
    const RIGHT: f64 = 570.0;
    let raw: Vec<(usize, f64)> = report.raw.iter().map(|run| (run.senders, run.per_s)).collect();
    let of = |runs: &[crate::report::Run]| runs.iter().map(|run| (run.senders, run.per_s)).collect::<Vec<_>>();
    let series =
        [("log alone", BLUE, raw), ("acked by the log", ORANGE, of(&report.acked)), ("acked when visible", GREEN, of(&report.visible))];
    let names: Vec<_> = series.iter().map(|(name, colour, _)| (*name, *colour, "")).collect();
    heading(svg, LEFT, "Messages a second, by concurrent senders (each waits for its answer)", &names);
    let highest = series.iter().flat_map(|(_, _, runs)| runs).map(|(_, per_s)| *per_s).fold(1.0, f64::max);
    let top = nice(highest);
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        grid(svg, (LEFT, RIGHT), BOTTOM - (BOTTOM - TOP) * value / top, &format!("{}/s", short(value)));
    }
    let groups = report.raw.len().max(1) as f64;
    let width = (RIGHT - LEFT) / groups;
    for (group, run) in report.raw.iter().enumerate() {
        let middle = LEFT + width * (group as f64 + 0.5);
        label(
            svg,
            middle,
            BOTTOM + 18.0,
            "middle",
            &format!("{} {}", count(run.senders as u64), if run.senders == 1 { "sender" } else { "senders" }),
        );
        for (place, (_, colour, runs)) in series.iter().enumerate() {
            let Some((_, per_s)) = runs.iter().find(|(senders, _)| *senders == run.senders) else { continue };
            let bar = width * 0.27;
            let (x, height) = (middle + bar * (place as f64 - 1.5), (BOTTOM - TOP) * per_s / top);
            let (y, inner) = (BOTTOM - height, bar - 3.0);
            let _ = writeln!(svg, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{inner:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>");
            label(svg, x + inner / 2.0, y - 4.0, "middle", &short(*per_s));
        }
    }
}

/// Latencies by rate, on a logarithmic scale.
fn lines(svg: &mut String, runs: &[PacedRun]) {
    const LEFT: f64 = 660.0;
    const RIGHT: f64 = 1_000.0;
    type Read = fn(&PacedRun) -> f64;
    let series: [(&str, &str, &str, Read); 4] = [
        ("ack p50", ORANGE, "", |run| run.ack.p50_us),
        ("ack p99", ORANGE, "5 4", |run| run.ack.p99_us),
        ("visible p50", GREEN, "", |run| run.visible.p50_us),
        ("visible p99", GREEN, "5 4", |run| run.visible.p99_us),
    ];
    let names: Vec<_> = series.iter().map(|(name, colour, dash, _)| (*name, *colour, *dash)).collect();
    heading(svg, LEFT, "Latency at fixed rates, from when each was due", &names);
    let values = || runs.iter().flat_map(|run| series.iter().map(move |(.., read)| read(run).max(1.0)));
    let low = values().fold(f64::MAX, f64::min).min(100.0).log10().floor();
    let high = (values().fold(1.0, f64::max).log10().ceil()).max(low + 1.0);
    let y = |us: f64| BOTTOM - (BOTTOM - TOP) * (us.max(1.0).log10() - low) / (high - low);
    for power in low as i32..=high as i32 {
        let us = 10f64.powi(power);
        grid(svg, (LEFT, RIGHT), y(us), &time(us));
    }
    let step = (RIGHT - LEFT) / runs.len().max(1) as f64;
    let x = |place: usize| LEFT + step * (place as f64 + 0.5);
    for (place, run) in runs.iter().enumerate() {
        label(svg, x(place), BOTTOM + 18.0, "middle", &format!("{} sends/s", count(run.wanted_per_s.into())));
    }
    for (_, colour, dash, read) in series {
        let points: Vec<String> = runs.iter().enumerate().map(|(place, run)| format!("{:.1},{:.1}", x(place), y(read(run)))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>",
            points.join(" ")
        );
        for (place, run) in runs.iter().enumerate() {
            let (x, y) = (x(place), y(read(run)));
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
            // The lines of one colour lie above those of the other, or on them.
            let beside = if colour == GREEN { -6.0 } else { 14.0 };
            label(svg, x + 6.0, y + beside, "start", &time(read(run)));
        }
    }
}

/// A chart's title and what its colours mean, as (name, colour, dashes).
pub(crate) fn heading(svg: &mut String, left: f64, title: &str, names: &[(&str, &str, &str)]) {
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"64\" font-weight=\"600\">{title}</text>");
    for (place, (name, colour, dash)) in names.iter().enumerate() {
        let x = left + place as f64 * if names.len() > 3 { 86.0 } else { 150.0 };
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"82\" x2=\"{}\" y2=\"82\" stroke=\"{colour}\" stroke-width=\"3\" stroke-dasharray=\"{dash}\"/>",
            x + 16.0
        );
        label(svg, x + 20.0, 86.0, "start", name);
    }
}

pub(crate) fn grid(svg: &mut String, (left, right): (f64, f64), y: f64, name: &str) {
    let _ = writeln!(svg, "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>");
    label(svg, left - 6.0, y + 4.0, "end", name);
}

pub(crate) fn label(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"11\">{text}</text>");
}

/// The next of 1, 2, 4, 6, 8, 10 times a power of ten.
pub(crate) fn nice(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 6.0, 8.0, 10.0].into_iter().map(|step| step * power).find(|top| *top >= value).unwrap_or(value)
}

pub(crate) fn short(value: f64) -> String {
    if value >= 10_000.0 {
        format!("{:.0}k", value / 1_000.0)
    } else if value >= 1_000.0 {
        format!("{:.1}k", value / 1_000.0)
    } else {
        format!("{value:.0}")
    }
}

pub(crate) fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.1} s", us / 1e6),
        us if us >= 10_000.0 => format!("{:.0} ms", us / 1_000.0),
        us if us >= 1_000.0 => format!("{:.1} ms", us / 1_000.0),
        us => format!("{us:.0} µs"),
    }
}
