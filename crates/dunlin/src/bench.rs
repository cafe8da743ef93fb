//! `dunlin bench`, `dunlin bench cluster`, and `dunlin bench engine`, which opens data folders for the phases of `dunlin-bench`, which know ports only, and brings the phases into order.

mod cluster;
mod http;
mod phases;

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use dunlin_bench::{
    Ledger, People, Progress, Report,
    report::{Machine, Open, Replay, Sizes},
    sends::Pace,
    setup,
};

pub use cluster::{ClusterBench, cluster};
pub use http::{HttpBench, http};
use phases::{Bench, PHASES, open};

const USERS_QUICK: usize = 100;
const USERS_MIN: usize = 1_000;
const USERS_MAX: usize = 10_000;
/// Creating users may take about so long: each is a sync or two.
const USERS_S_MAX: f64 = 5.0;

/// Measure the embedded engine on a temporary folder, and check that nothing was lost.
#[derive(Clone, Debug, clap::Args)]
pub struct EngineBench {
    /// How long each phase runs
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = seconds)]
    pub seconds: f64,
    /// Where to make the temporary folder; a disk, not memory
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Fill up to so many messages before measuring reads, opening and replay
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub messages: u64,
    /// Write all numbers as JSON; - for stdout (the table then goes to stderr)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a plot as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Try it out: short phases, few users, few messages
    #[arg(long)]
    pub quick: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    const MAX: f64 = 3_600.0;
    let seconds = text.parse().map_err(|_| "must be a number".to_owned())?;
    if (0.1..=MAX).contains(&seconds) { Ok(seconds) } else { Err(format!("must be from 0.1 to {MAX}")) }
}

/// Runs the bench and writes what it found. Exit code 1 if the check found something wrong.
pub fn engine(args: EngineBench) -> Result<ExitCode> {
    // Before all the work rather than after it.
    for file in [&args.json, &args.plot].into_iter().flatten().filter(|path| *path != Path::new("-")) {
        fs::File::create(file).with_context(|| format!("failed to write {}", file.display()))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("failed to start")?;
    let report = runtime.block_on(measure(&args))?;
    let table = dunlin_bench::table(&report);
    let json = report.to_json();
    match args.json.as_deref() {
        Some(path) if path == Path::new("-") => {
            io::stderr().lock().write_all(table.as_bytes())?;
            io::stdout().lock().write_all(json.as_bytes())?;
        }
        file => {
            if let Some(path) = file {
                fs::write(path, json).with_context(|| format!("failed to write {}", path.display()))?;
            }
            io::stdout().lock().write_all(table.as_bytes())?;
        }
    }
    if let Some(path) = &args.plot {
        fs::write(path, dunlin_bench::svg(&report)).with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(if report.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure(args: &EngineBench) -> Result<Report> {
    let scratch = dunlin_bench::scratch(&args.dir).with_context(|| format!("failed to make a folder in {}", args.dir.display()))?;
    let progress = Progress::new(PHASES);
    let file_system = dunlin_bench::file_system(scratch.path());
    if file_system == "tmpfs" || file_system == "ramfs" {
        progress.warn("warning: this folder is in memory, where a sync costs nothing; choose a disk with --dir");
    }
    let (phase_s, messages) = if args.quick { (0.3, args.messages.min(5_000)) } else { (args.seconds, args.messages) };
    let lasting = Duration::from_secs_f64(phase_s);
    let few = Arc::new(People::new(USERS_QUICK)?);
    let mut bench = Bench { begun: Instant::now(), lasting, people: few, ledger: Ledger::default(), memory: Vec::new(), progress };
    let mut disks = vec![bench.disk(scratch.path())?];
    let raw = bench.raw(&scratch.path().join("raw")).await?;

    disks.push(bench.disk(scratch.path())?);
    let path = scratch.path().join("data");
    let engine = open(&path)?;
    if !args.quick {
        let affordable = disks[1].fsyncs_per_s * USERS_S_MAX / 2.0;
        bench.people = Arc::new(People::new((affordable as usize).clamp(USERS_MIN, USERS_MAX))?);
    }
    bench.progress.phase("users and conversations");
    let setup = setup::prepare(&engine.app, &bench.people, &mut bench.ledger, &bench.progress).await?;
    let acked = bench.closed(&engine.app, Pace::WhenAcked).await?;
    let visible = bench.closed(&engine.app, Pace::WhenVisible).await?;
    let paced = bench.paced(&engine).await?;
    bench.fill(&engine.app, messages).await?;
    let reads = bench.reads(&engine).await?;
    engine.close().context("failed to flush")?;

    let messages = bench.ledger.acked();
    let sizes = |part| dunlin_bench::sizes(&path.join(part)).with_context(|| format!("failed to look at the {part}"));
    let sizes = Sizes { messages, log_bytes: sizes("log")?.1, state_bytes: sizes("state")?.0 };
    bench.progress.phase("open");
    let begun = Instant::now();
    let engine = bench.caught_up(&path).await?;
    let open = Open { messages, seconds: begun.elapsed().as_secs_f64() };
    let reopened = bench.check(&engine.app).await?;
    drop(engine);
    let seconds = bench.replay(&path)?;
    let engine = bench.caught_up(&path).await?;
    let events = engine.progress().next.0;
    let replayed = bench.check(&engine.app).await?;
    drop(engine);
    disks.push(bench.disk(scratch.path())?);
    let Bench { memory, .. } = bench;
    Ok(Report {
        machine: Machine {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            file_system,
            seconds_per_phase: phase_s,
        },
        replay: Replay { events, seconds, per_s: events as f64 / seconds },
        checks: vec![reopened, replayed],
        disks,
        raw,
        setup,
        acked,
        visible,
        paced,
        reads,
        sizes,
        open,
        memory,
    })
}
