//! `dunlin bench engine`: opens data folders for the phases of `dunlin-bench`, which know ports only, and brings the phases into order.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::AtomicI64},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use dunlin_app::App;
use dunlin_bench::{
    Ledger, Memory, People, Progress, Report, check, closed, paced, raw, reads,
    report::{Machine, Open, PacedRun, Raw, Read, Replay, Run, Sizes},
    sends::{Aim, Pace, Sends},
    setup,
};
use dunlin_embedded::{Folder, Options};
use dunlin_ports::EventLog;

use crate::engine::{Engine, EngineOptions};

const SENDERS: [usize; 4] = [1, 16, 256, 1_024];
const RATES_PER_S: [u32; 3] = [1_000, 5_000, 10_000];
/// How many senders share a fixed rate: so many that each has time for a stall before its next message is due.
const PACED_SENDERS: usize = 256;
/// The load under which reads are measured.
const LOAD_PER_S: u32 = 5_000;
const USERS_MAX: usize = 10_000;
/// Creating users may take about so long: each is a sync or two.
const USERS_S_MAX: f64 = 5.0;
const PHASES: u64 = 1 + 4 + 1 + 8 + 3 + 1 + 2 + 1 + 2 + 2;

/// Measure the embedded engine on a temporary folder, and check that nothing was lost.
#[derive(Clone, Debug, clap::Args)]
pub struct EngineBench {
    /// How long each phase runs
    #[arg(long, value_name = "S", default_value_t = 3.0)]
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

/// Runs the bench and writes what it found. Exit code 1 if the check found something wrong.
pub fn engine(args: EngineBench) -> Result<ExitCode> {
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

struct Bench {
    lasting: Duration,
    people: Arc<People>,
    ledger: Ledger,
    memory: Vec<Memory>,
    progress: Progress,
}

async fn measure(args: &EngineBench) -> Result<Report> {
    let scratch = dunlin_bench::scratch(&args.dir).with_context(|| format!("failed to make a folder in {}", args.dir.display()))?;
    let progress = Progress::new(PHASES);
    let file_system = dunlin_bench::file_system(scratch.path());
    if file_system == "tmpfs" || file_system == "ramfs" {
        progress.warn("warning: this folder is in memory, where a sync costs nothing; choose a disk with --dir");
    }
    let (phase_s, messages) = if args.quick { (0.3, args.messages.min(5_000)) } else { (args.seconds.max(0.1), args.messages) };
    let lasting = Duration::from_secs_f64(phase_s);
    progress.phase("disk");
    let disk = dunlin_bench::fsyncs(scratch.path(), lasting.min(Duration::from_secs(2))).context("failed to measure the disk")?;
    let users = if args.quick { 100 } else { ((disk.fsyncs_per_s * USERS_S_MAX / 2.0) as usize).clamp(1_000, USERS_MAX) };
    let mut bench =
        Bench { lasting, people: Arc::new(People::new(users)?), ledger: Ledger::default(), memory: vec![Memory::after("disk")], progress };
    let raw = bench.raw(&scratch.path().join("raw")).await?;

    let path = scratch.path().join("data");
    let engine = open(&path)?;
    bench.progress.phase("users and conversations");
    let setup = setup::prepare(&engine.app, &bench.people, &mut bench.ledger, &bench.progress).await?;
    let acked = bench.closed(&engine.app, Pace::WhenAcked).await?;
    let visible = bench.closed(&engine.app, Pace::WhenVisible).await?;
    let paced = bench.paced(&engine.app).await?;
    bench.fill(&engine.app, messages).await?;
    let reads = bench.reads(&engine.app).await?;
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
    Folder::set_state_aside(&path, &Options::default()).context("failed to set the state aside")?;
    bench.progress.phase("replay");
    let begun = Instant::now();
    let engine = bench.caught_up(&path).await?;
    let (events, seconds) = (engine.progress().next.0, begun.elapsed().as_secs_f64());
    bench.memory.push(Memory::after("replay"));
    let replayed = bench.check(&engine.app).await?;
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
        disk,
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

impl Bench {
    /// The log without a projector, in a folder of its own, which goes afterwards.
    async fn raw(&mut self, path: &Path) -> Result<Vec<Raw>> {
        let folder = Folder::open(path, &Options::default())?;
        let mut runs = Vec::new();
        for senders in SENDERS {
            self.progress.phase(&format!("log alone, {senders} senders"));
            let log: Arc<dyn EventLog> = folder.log.clone();
            runs.push(raw::measure(log, &self.people, senders, self.lasting).await?);
        }
        self.memory.push(Memory::after("log alone"));
        drop(folder);
        fs::remove_dir_all(path).context("failed to remove the log")?;
        Ok(runs)
    }

    async fn closed(&mut self, app: &App, pace: Pace) -> Result<Vec<Run>> {
        let name = if pace == Pace::WhenAcked { "acked by the log" } else { "acked when visible" };
        let mut runs = Vec::new();
        for senders in SENDERS {
            self.progress.phase(&format!("{name}, {senders} senders"));
            let mut sends = Sends::new(app, &self.people, &mut self.ledger, pace, vec![Aim::Anyone; senders]);
            let driven = closed(sends.take(), Some(self.lasting)).await?;
            let sent = sends.done(driven.lanes, &mut self.ledger).await?;
            let per_s = sent.acked as f64 / driven.elapsed.as_secs_f64();
            let (refused, unknown, surprises) = (sent.refused, sent.unknown, sent.surprises);
            runs.push(Run { senders, per_s, refused, unknown, surprises, ack: sent.ack, visible: sent.visible });
            self.memory.push(Memory::after(&format!("{name}, {senders} senders")));
        }
        Ok(runs)
    }

    async fn paced(&mut self, app: &App) -> Result<Vec<PacedRun>> {
        let mut runs = Vec::new();
        for wanted_per_s in RATES_PER_S {
            self.progress.phase(&format!("{wanted_per_s} sends a second"));
            runs.push(self.load(app, wanted_per_s, self.lasting).await?);
            self.memory.push(Memory::after(&format!("{wanted_per_s} sends a second")));
        }
        Ok(runs)
    }

    async fn load(&mut self, app: &App, wanted_per_s: u32, lasting: Duration) -> Result<PacedRun> {
        let mut sends = Sends::new(app, &self.people, &mut self.ledger, Pace::WhenAcked, vec![Aim::Anyone; PACED_SENDERS]);
        let driven = paced(sends.take(), wanted_per_s, lasting).await?;
        let sent = sends.done(driven.lanes, &mut self.ledger).await?;
        Ok(PacedRun {
            wanted_per_s,
            per_s: sent.acked as f64 / driven.elapsed.as_secs_f64(),
            refused: sent.refused,
            unknown: sent.unknown,
            surprises: sent.surprises,
            undone: driven.undone,
            ack: sent.ack,
            visible: sent.visible,
            late: driven.late,
        })
    }

    async fn fill(&mut self, app: &App, messages: u64) -> Result<()> {
        const SENDERS: usize = 256;
        self.progress.phase(&format!("filling up to {messages} messages"));
        let missing = i64::try_from(messages.saturating_sub(self.ledger.acked())).context("so many can't be sent")?;
        let left = Arc::new(AtomicI64::new(missing));
        let mut sends = Sends::new(app, &self.people, &mut self.ledger, Pace::WhenAcked, vec![Aim::Counted(left); SENDERS]);
        let driven = closed(sends.take(), None).await?;
        sends.done(driven.lanes, &mut self.ledger).await?;
        self.memory.push(Memory::after("filling up"));
        Ok(())
    }

    /// Each kind of read idle, then under load.
    async fn reads(&mut self, app: &App) -> Result<Vec<Read>> {
        let mut all = Vec::new();
        self.progress.phase("reads, idle");
        for what in reads::What::ALL {
            all.push(reads::measure(app, &self.people, what, false, self.lasting).await?);
        }
        self.progress.phase("reads, under load");
        for what in reads::What::ALL {
            let people = Arc::clone(&self.people);
            let (read, load) =
                tokio::join!(reads::measure(app, &people, what, true, self.lasting), self.load(app, LOAD_PER_S, self.lasting));
            load?;
            all.push(read?);
        }
        self.memory.push(Memory::after("reads"));
        Ok(all)
    }

    async fn caught_up(&self, path: &Path) -> Result<Engine> {
        let engine = open(path)?;
        let caught_up = engine.caught_up(|done, of| self.progress.say(&format!("{done} of {of} events"))).await;
        caught_up.map_err(|trouble| anyhow::anyhow!("the log could not be replayed: {trouble}"))?;
        Ok(engine)
    }

    async fn check(&self, app: &App) -> Result<check::Verdict> {
        self.progress.phase("checking");
        let told = |messages| self.progress.say(&format!("{messages} messages"));
        check::check(&*app.store, &self.people, &self.ledger, told).await.context("failed to read everything back")
    }
}

fn open(path: &Path) -> Result<Engine> {
    Engine::open(path, EngineOptions::default()).with_context(|| format!("failed to open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_measures_everything_and_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name| Some(folder.path().join(name));
        let dir = folder.path().to_owned();
        let args = EngineBench { seconds: 3.0, dir, messages: 2_000, json: file("bench.json"), plot: file("bench.svg"), quick: true };
        assert_eq!(engine(args).unwrap(), ExitCode::SUCCESS);
        let json = fs::read_to_string(folder.path().join("bench.json")).unwrap();
        for part in ["\"disk\"", "\"raw\"", "\"acked\"", "\"visible\"", "\"paced\"", "\"reads\"", "\"replay\"", "\"ratios\"", "\"lost\": 0"]
        {
            assert!(json.contains(part), "{part} is missing in {json}");
        }
        let svg = fs::read_to_string(folder.path().join("bench.svg")).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("1,024 senders"), "{svg}");
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "the temporary folder is gone: {left:?}");
    }
}
