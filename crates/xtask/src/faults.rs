//! `cargo xtask faults`: each failure of a table is done for real on the full set of engines, under load, and what came of it is reported.
//!
//! The failures themselves are tests of the crate `dunlin` (`tests/faults/`), which leave a file each. This runs them one by one.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    engines::{
        self, Engines,
        request::{Options, Set},
    },
    test::{ENGINES, run_to_success},
    workspace::cargo,
};

/// Rows in the order in which they run, and the test that does each.
pub const ROWS: [(&str, &str); 11] = [
    ("node-killed", "nodes::a_killed_node_loses_nothing"),
    ("node-stopped", "nodes::a_stopped_node_that_goes_on_loses_nothing"),
    ("redis-master-killed", "redis::a_killed_master_loses_nothing"),
    ("redis-gone", "redis::redis_gone_and_back_empty_loses_nothing"),
    ("kafka-broker-killed", "kafka::a_killed_broker_loses_nothing"),
    ("kafka-controller-killed", "kafka::a_killed_controller_loses_nothing"),
    ("kafka-gone", "kafka::kafka_gone_for_a_while_refuses_and_loses_nothing"),
    ("cassandra-node-killed", "cassandra::a_killed_node_loses_nothing"),
    ("cassandra-gone", "cassandra::cassandra_gone_for_a_while_loses_nothing"),
    ("postgres-primary-killed", "postgres::a_killed_primary_whose_standby_takes_over_loses_nothing"),
    ("postgres-gone", "postgres::postgres_gone_for_a_while_stops_no_message"),
];

/// Those that are part of the check.
const SHORT: [&str; 3] = ["node-killed", "redis-gone", "cassandra-gone"];

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Names of rows; none means all.
    pub only: Vec<String>,
    /// How long each failure lasts; unless told, each row knows.
    pub seconds: Option<u32>,
    /// Markdown, or JSON if it is called so. A copy: what each row left is in target/faults.
    pub report: Option<PathBuf>,
}

pub fn run(root: &Path, request: &Request) -> Result<()> {
    let rows: Vec<_> =
        ROWS.into_iter().filter(|(name, _)| request.only.is_empty() || request.only.iter().any(|only| only == name)).collect();
    let (mut reports, mut failed, mut started) = (Vec::new(), Vec::new(), false);
    for (number, (name, test)) in rows.iter().enumerate() {
        eprintln!("==> {} of {}: {name}", number + 1, rows.len());
        // A row that failed may have left them hurt: then they start anew.
        let engines = engines::ensure(root, Options { set: Set::Full, ..Options::default() })?;
        started |= engines.started;
        match row(root, request, &engines, name, test) {
            Ok(report) => reports.push(report),
            Err(error) => {
                eprintln!("==> {name} failed: {error:#}");
                failed.push(*name);
                reports.extend(read(root, name).ok());
            }
        }
    }
    let table = table(&reports);
    println!("{table}");
    let path = request.report.clone().unwrap_or_else(|| folder(root).join("report.md"));
    let text = if path.extension().is_some_and(|name| name == "json") { format!("{:#}\n", Value::from(reports)) } else { table };
    fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
    eprintln!("==> {}", path.display());
    if started {
        engines::down(root)?;
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// The rows that any engines can stand, for the check. They must leave the engines as they were.
pub fn short(root: &Path, engines: &Engines) -> Result<()> {
    if !engines.are_ours {
        eprintln!("    faults: not run, for some engines are given, and those are not to be hurt");
        return Ok(());
    }
    let tests = ROWS.into_iter().filter(|(name, _)| SHORT.contains(name)).map(|(_, test)| test);
    let arguments: Vec<_> = ["--include-ignored", "--exact"].into_iter().chain(tests).collect();
    faults(root, engines, &arguments, None)
}

fn row(root: &Path, request: &Request, engines: &Engines, name: &str, test: &str) -> Result<Value> {
    ensure!(engines.are_ours, "some engines are given by the environment, and those are not to be hurt");
    let path = folder(root).join(format!("{name}.json"));
    let _ = fs::remove_file(path);
    let start = Instant::now();
    faults(root, engines, &["--include-ignored", "--exact", test], request.seconds)?;
    eprintln!("==> {name} passed in {:.0} s", start.elapsed().as_secs_f64());
    read(root, name)
}

fn faults(root: &Path, engines: &Engines, arguments: &[&str], seconds: Option<u32>) -> Result<()> {
    let of_workspace =
        ["test", "--workspace", "--locked", "--features", ENGINES, "--test", "faults", "--", "--nocapture", "--test-threads=1"];
    let line = format!("cargo {} {}", of_workspace.join(" "), arguments.join(" "));
    let mut command = cargo();
    command.args(of_workspace).args(arguments).current_dir(root).envs(engines.env.iter().cloned());
    command.env("DUNLIN_FAULTS_FOLDER", folder(root));
    command.env("DUNLIN_XTASK", std::env::current_exe().context("failed to find this program")?);
    command.envs(seconds.map(|seconds| ("DUNLIN_FAULTS_SECONDS", seconds.to_string())));
    run_to_success(&line, &mut command)
}

fn folder(root: &Path) -> PathBuf {
    root.join("target/faults")
}

fn read(root: &Path, name: &str) -> Result<Value> {
    let path = folder(root).join(format!("{name}.json"));
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not understood", path.display()))
}

fn table(reports: &[Value]) -> String {
    let head = [
        "failure",
        "lasting",
        "acknowledged",
        "of which 202",
        "unknown",
        "lost",
        "doubled",
        "out of order",
        "unread wrong",
        "otherwise wrong",
        "check",
        "not acknowledged at once",
        "reads refused",
        "longest pause",
        "longest wait",
        "recovered",
        "drained",
    ];
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for report in reports {
        let found = &report["found"];
        let others = ["altered", "not_expected", "outcome_wrong", "users_lost"].map(|key| found[key].as_u64().unwrap_or_default());
        let others = others.iter().sum::<u64>() + report["reads_wrong"].as_u64().unwrap_or_default();
        let cells = [
            report["what"].as_str().unwrap_or_default().to_owned(),
            seconds(&report["lasting_s"]),
            report["acknowledged"].to_string(),
            report["pending"].to_string(),
            report["unknown"].to_string(),
            found["lost"].to_string(),
            found["doubled"].to_string(),
            found["out_of_order"].to_string(),
            found["unread_wrong"].to_string(),
            others.to_string(),
            if report["check_is_clean"] == true { "clean" } else { "NOT CLEAN" }.to_owned(),
            counts(&report["refused"]),
            counts(&report["reads_refused"]),
            seconds(&report["longest_pause_s"]),
            seconds(&report["longest_wait_s"]),
            seconds(&report["recovered_s"]),
            seconds(&report["drained_s"]),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

fn seconds(value: &Value) -> String {
    value.as_f64().map_or("never".to_owned(), |seconds| format!("{seconds:.1} s"))
}

/// `503 busy: 12, no connection: 3`.
fn counts(value: &Value) -> String {
    let each = value.as_object().into_iter().flatten().map(|(name, count)| format!("{name}: {count}"));
    let all = each.collect::<Vec<_>>().join(", ");
    if all.is_empty() { "–".to_owned() } else { all }
}

/// What follows `faults`; none if help was asked for. The error is a sentence for whoever typed the command.
pub fn parse(mut args: impl Iterator<Item = String>) -> std::result::Result<Option<Request>, String> {
    let mut request = Request::default();
    while let Some(arg) = args.next() {
        let (option, value) = match arg.split_once('=') {
            Some((option, value)) => (option.to_owned(), Some(value.to_owned())),
            None => (arg, None),
        };
        let mut value = || value.clone().or_else(|| args.next()).ok_or_else(|| format!("`{option}` wants a value"));
        match option.as_str() {
            "-h" | "--help" => return Ok(None),
            "--only" => request.only = value()?.split(',').map(parse_row).collect::<std::result::Result<_, _>>()?,
            "--seconds" => {
                let value = value()?;
                let seconds = value.parse().ok().filter(|seconds| *seconds > 0);
                request.seconds = Some(seconds.ok_or_else(|| format!("`--seconds` wants a number above 0, not `{value}`"))?);
            }
            "--report" => request.report = Some(value()?.into()),
            other => return Err(format!("`faults` does not know `{other}`")),
        }
    }
    Ok(Some(request))
}

fn parse_row(name: &str) -> std::result::Result<String, String> {
    let names = ROWS.map(|(name, _)| name);
    if names.contains(&name) { Ok(name.to_owned()) } else { Err(format!("there is no row `{name}`; there are {}", names.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> std::result::Result<Option<Request>, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn rows_seconds_and_a_file_can_be_asked_for() {
        assert_eq!(parse_line(""), Ok(Some(Request::default())));
        let request =
            Request { only: vec!["redis-gone".to_owned(), "kafka-gone".to_owned()], seconds: Some(7), report: Some("r.json".into()) };
        assert_eq!(parse_line("--only redis-gone,kafka-gone --seconds=7 --report r.json"), Ok(Some(request)));
        assert_eq!(parse_line("--help"), Ok(None));
        assert!(parse_line("--only mysql-gone").unwrap_err().contains("node-killed, "));
        for wrong in ["--seconds 0", "--seconds", "now"] {
            assert!(parse_line(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_row_of_the_table_says_what_was_found() {
        let report = serde_json::json!({
            "what": "a fire", "lasting_s": 1.23, "acknowledged": 10, "pending": 2, "unknown": 3, "reads_wrong": 1, "check_is_clean": false,
            "refused": {"503 busy": 4}, "reads_refused": {}, "longest_pause_s": 0.5, "longest_wait_s": 2.0, "recovered_s": null, "drained_s": 1.0,
            "found": {"lost": 5, "doubled": 6, "out_of_order": 7, "unread_wrong": 8, "altered": 1, "not_expected": 2, "outcome_wrong": 0, "users_lost": 0},
        });
        let line = "| a fire | 1.2 s | 10 | 2 | 3 | 5 | 6 | 7 | 8 | 4 | NOT CLEAN | 503 busy: 4 | – | 0.5 s | 2.0 s | never | 1.0 s |";
        assert_eq!(table(&[report]).lines().nth(2), Some(line));
    }
}
