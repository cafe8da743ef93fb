//! The phases of the bench on the embedded engine.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, atomic::AtomicI64},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use dunlin_app::App;
use dunlin_bench::{
    DiskSpeed, Ledger, Memory, People, Progress, check, closed, paced, raw, reads,
    report::{PacedRun, Raw, Read, Run},
    sends::{Aim, Pace, Sends},
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
/// How many lines of progress there are.
pub const PHASES: u64 = 26;

pub struct Bench {
    pub begun: Instant,
    pub lasting: Duration,
    pub people: Arc<People>,
    pub ledger: Ledger,
    pub memory: Vec<Memory>,
    pub progress: Progress,
}

impl Bench {
    pub fn disk(&mut self, dir: &Path) -> Result<DiskSpeed> {
        self.progress.phase("disk");
        let speed = dunlin_bench::fsyncs(dir, self.lasting.min(Duration::from_secs(2))).context("failed to measure the disk")?;
        self.remember("disk");
        Ok(speed)
    }

    /// How much memory is in use after a phase.
    pub fn remember(&mut self, phase: &str) {
        self.memory.push(Memory::after(phase, self.begun));
    }

    /// The log without a projector, in a folder of its own, which goes afterwards.
    pub async fn raw(&mut self, path: &Path) -> Result<Vec<Raw>> {
        let folder = Folder::open(path, &Options::default())?;
        let mut runs = Vec::new();
        for senders in SENDERS {
            self.progress.phase(&format!("log alone, {senders} senders"));
            let log: Arc<dyn EventLog> = folder.log.clone();
            runs.push(raw::measure(log, &self.people, senders, self.lasting).await?);
        }
        self.remember("log alone");
        drop(folder);
        fs::remove_dir_all(path).context("failed to remove the log")?;
        Ok(runs)
    }

    pub async fn closed(&mut self, app: &App, pace: Pace) -> Result<Vec<Run>> {
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
            self.remember(&format!("{name}, {senders} senders"));
        }
        Ok(runs)
    }

    pub async fn paced(&mut self, engine: &Engine) -> Result<Vec<PacedRun>> {
        let mut runs = Vec::new();
        for wanted_per_s in RATES_PER_S {
            self.progress.phase(&format!("{wanted_per_s} sends a second"));
            settled(engine).await;
            runs.push(self.load(&engine.app, wanted_per_s, self.lasting).await?);
            self.remember(&format!("{wanted_per_s} sends a second"));
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

    pub async fn fill(&mut self, app: &App, messages: u64) -> Result<()> {
        const SENDERS: usize = 256;
        self.progress.phase(&format!("filling up to {messages} messages"));
        let missing = i64::try_from(messages.saturating_sub(self.ledger.acked())).context("so many can't be sent")?;
        let left = Arc::new(AtomicI64::new(missing));
        let mut sends = Sends::new(app, &self.people, &mut self.ledger, Pace::WhenAcked, vec![Aim::Counted(left); SENDERS]);
        let driven = closed(sends.take(), None).await?;
        sends.done(driven.lanes, &mut self.ledger).await?;
        self.remember("filling up");
        Ok(())
    }

    /// Each kind of read idle, then under load.
    pub async fn reads(&mut self, engine: &Engine) -> Result<Vec<Read>> {
        let app = &engine.app;
        let mut all = Vec::new();
        self.progress.phase("reads, idle");
        settled(engine).await;
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
        self.remember("reads");
        Ok(all)
    }

    pub async fn caught_up(&self, path: &Path) -> Result<Engine> {
        let engine = open(path)?;
        let caught_up = engine.caught_up(|done, of| self.progress.say(&format!("{done} of {of} events"))).await;
        caught_up.map_err(|trouble| anyhow::anyhow!("the log could not be replayed: {trouble}"))?;
        Ok(engine)
    }

    /// Has another process make the state anew from the log, from its start to its end; returns how long that took. The process has nothing else
    /// in its memory.
    pub fn replay(&mut self, path: &Path) -> Result<f64> {
        const LOOK_EVERY: Duration = Duration::from_millis(20);
        self.progress.phase("replay");
        let start = Instant::now();
        let mut command = Command::new(env::current_exe().context("failed to find this program")?);
        let command = command.args(["rebuild", "--data"]).arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().context("failed to start `dunlin rebuild`")?;
        let mut memory = None;
        let status = loop {
            if let Some(status) = process.try_wait()? {
                break status;
            }
            memory = Some(Memory::of(&process.id().to_string(), "replay", self.begun)).filter(|memory| memory.peak_mb > 0.0).or(memory);
            thread::sleep(LOOK_EVERY);
        };
        let seconds = start.elapsed().as_secs_f64();
        self.memory.extend(memory);
        anyhow::ensure!(status.success(), "`dunlin rebuild` ended with {status}");
        Ok(seconds)
    }

    pub async fn check(&self, app: &App) -> Result<check::Verdict> {
        self.progress.phase("checking");
        let told = |messages| self.progress.say(&format!("{messages} messages"));
        check::check(&*app.store, &self.people, &self.ledger, told).await.context("failed to read everything back")
    }
}

/// Waits until flushing and compaction have done what earlier phases left to them: a phase at a fixed rate pays for its own sends only.
async fn settled(engine: &Engine) {
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    const WAIT_MAX: Duration = Duration::from_secs(60);
    let begun = Instant::now();
    let is_busy = || {
        let stats = engine.folder.state_stats();
        stats.sealed > 0 || stats.is_compacting
    };
    while is_busy() && begun.elapsed() < WAIT_MAX {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

pub fn open(path: &Path) -> Result<Engine> {
    Engine::open(path, EngineOptions::default()).with_context(|| format!("failed to open {}", path.display()))
}
