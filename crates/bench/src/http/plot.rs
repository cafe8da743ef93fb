//! A run over HTTP as a picture.

use std::fmt::Write as _;

use super::{HttpReport, Run};
use crate::{
    plot::{grid, heading, label, nice, short, time},
    table::count,
};

const WIDTH: f64 = 1_040.0;
const HEIGHT: f64 = 430.0;
const TOP: f64 = 110.0;
const BOTTOM: f64 = 390.0;
const BLUE: &str = "#0072b2";
const ORANGE: &str = "#d55e00";
const GREEN: &str = "#009e73";

pub fn svg(report: &HttpReport) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#222\">\n<title>dunlin bench</title>\n\
         <rect x=\"1\" y=\"1\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"#fff\" stroke=\"#bbb\"/>\n",
        WIDTH - 2.0,
        HEIGHT - 2.0
    );
    let machine = &report.machine;
    let title =
        format!("dunlin {} over HTTP · {} cores for server and generator · {}", machine.version, machine.cores, machine.file_system);
    let _ = writeln!(svg, "<text x=\"24\" y=\"34\" font-size=\"16\" font-weight=\"600\">{title}</text>");
    bars(&mut svg, report);
    lines(&mut svg, &report.paced);
    svg.push_str("</svg>\n");
    svg
}

fn bars(svg: &mut String, report: &HttpReport) {
    const LEFT: f64 = 70.0;
    const RIGHT: f64 = 570.0;
    heading(svg, LEFT, "Accepted sends a second, by connections", &[("server", BLUE, "")]);
    let top = nice(report.closed.iter().map(|run| run.per_s).fold(1.0, f64::max));
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        grid(svg, (LEFT, RIGHT), BOTTOM - (BOTTOM - TOP) * value / top, &format!("{}/s", short(value)));
    }
    let mut closed = report.closed.clone();
    closed.sort_by_key(|run| run.connections);
    let width = (RIGHT - LEFT) / closed.len().max(1) as f64;
    for (place, run) in closed.iter().enumerate() {
        let middle = LEFT + width * (place as f64 + 0.5);
        let (bar, height) = (width * 0.4, (BOTTOM - TOP) * run.per_s / top);
        let (x, y) = (middle - bar / 2.0, BOTTOM - height);
        let _ = writeln!(svg, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{bar:.1}\" height=\"{height:.1}\" fill=\"{BLUE}\"/>");
        label(svg, middle, y - 4.0, "middle", &short(run.per_s));
        label(
            svg,
            middle,
            BOTTOM + 18.0,
            "middle",
            &format!("{} {}", run.connections, if run.connections == 1 { "connection" } else { "connections" }),
        );
    }
}

/// On a logarithmic scale.
fn lines(svg: &mut String, runs: &[Run]) {
    const LEFT: f64 = 660.0;
    const RIGHT: f64 = 1_000.0;
    type Read = fn(&Run) -> f64;
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
    let high = values().fold(1.0, f64::max).log10().ceil().max(low + 1.0);
    let y = |us: f64| BOTTOM - (BOTTOM - TOP) * (us.max(1.0).log10() - low) / (high - low);
    for power in low as i32..=high as i32 {
        grid(svg, (LEFT, RIGHT), y(10f64.powi(power)), &time(10f64.powi(power)));
    }
    let step = (RIGHT - LEFT) / runs.len().max(1) as f64;
    let x = |place: usize| LEFT + step * (place as f64 + 0.5);
    for (place, run) in runs.iter().enumerate() {
        label(svg, x(place), BOTTOM + 18.0, "middle", &format!("{} sends/s", count(run.wanted_per_s.unwrap_or_default().into())));
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
            label(svg, x + 6.0, y + if colour == GREEN { -6.0 } else { 14.0 }, "start", &time(read(run)));
        }
    }
}
