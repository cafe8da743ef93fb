//! `dunlin bench`: a server in a process of its own on a temporary folder (or one that runs somewhere), a generator in this one, and the engine alone beside it.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail, ensure};
use dunlin_bench::{
    Ledger, People, Progress, closed,
    http::{Cpu, Engine, HttpReport, Run, Site, What, check, one_connection},
    report::Machine,
    sends::{Aim, Pace, Sends},
    setup,
};
use dunlin_client::Client;

use super::{phases::open, seconds};

/// One and many first, as the engine alone is measured: what was sent before slows both down alike.
const CONNECTIONS: [usize; 4] = [1, 256, 64, 16];
const RATES_PER_S: [u32; 3] = [500, 2_000, 5_000];
/// The load under which reads are measured.
const LOAD_PER_S: u32 = 2_000;
const MANY: usize = 256;
const USERS: usize = 2_000;
const USERS_QUICK: usize = 100;

/// Measure the server over HTTP, and check that nothing was lost.
#[derive(Clone, Debug, clap::Args)]
pub struct HttpBench {
    /// A server that runs already, such as http://127.0.0.1:7400; without it one is started on a temporary folder
    #[arg(long, value_name = "URL", requires = "key")]
    pub url: Option<String>,
    /// A server key of that server, with the scopes act and users
    #[arg(long, value_name = "KEY", env = "DUNLIN_KEY", hide_env_values = true)]
    pub key: Option<String>,
    /// How long each phase runs
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = seconds)]
    pub seconds: f64,
    /// Only so many connections, in a closed loop, or with --rate at a fixed rate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: Option<u32>,
    /// Only at so many sends a second
    #[arg(long, value_name = "PER_S", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: Option<u32>,
    /// Where to make the temporary folder; a disk, not memory
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Write all numbers as JSON; - for stdout (the table then goes to stderr)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a plot as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Keep table, JSON and plot in a folder, named by the time of the run
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Try it out: short phases, few users
    #[arg(long)]
    pub quick: bool,
}

/// Runs the bench and writes what it found. Exit code 1 if the check found something wrong.
pub fn http(args: HttpBench) -> Result<ExitCode> {
    // Before all the work rather than after it.
    for file in [&args.json, &args.plot].into_iter().flatten().filter(|path| *path != Path::new("-")) {
        fs::File::create(file).with_context(|| format!("failed to write {}", file.display()))?;
    }
    if let Some(folder) = &args.save {
        fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("failed to start")?;
    let report = runtime.block_on(measure(&args))?;
    let (table, json, plot) = (dunlin_bench::http::table(&report), report.to_json(), dunlin_bench::http::svg(&report));
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    match to_stdout {
        true => {
            io::stderr().lock().write_all(table.as_bytes())?;
            io::stdout().lock().write_all(json.as_bytes())?;
        }
        false => io::stdout().lock().write_all(table.as_bytes())?,
    }
    let mut files = Vec::new();
    files.extend(args.json.iter().filter(|_| !to_stdout).map(|path| (path.clone(), &json)));
    files.extend(args.plot.iter().map(|path| (path.clone(), &plot)));
    if let Some(folder) = &args.save {
        let at = unix_s();
        files.extend(
            [("json", &json), ("svg", &plot), ("txt", &table)].map(|(ending, text)| (folder.join(format!("bench-{at}.{ending}")), text)),
        );
    }
    for (path, text) in files {
        fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(if report.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

async fn measure(args: &HttpBench) -> Result<HttpReport> {
    let begun = Instant::now();
    let phase_s = if args.quick { 0.3 } else { args.seconds };
    let lasting = Duration::from_secs_f64(phase_s);
    let progress = Progress::new(21);
    // Another run may have been made on a server that runs already.
    let run = if args.url.is_some() { format!("-{:x}", unix_s()) } else { String::new() };
    let people = Arc::new(People::of_run(if args.quick { USERS_QUICK } else { USERS }, &run)?);
    let scratch = dunlin_bench::scratch(&args.dir).with_context(|| format!("failed to make a folder in {}", args.dir.display()))?;
    let is_here = args.url.is_none();
    let (mut disk, mut engine, mut bare_per_s) = (None, None, None);
    if is_here {
        progress.phase("disk");
        disk = Some(dunlin_bench::fsyncs(scratch.path(), lasting.min(Duration::from_secs(2))).context("failed to measure the disk")?);
        progress.phase("a bare server");
        bare_per_s = Some(bare(scratch.path(), lasting).await?);
        progress.phase("the engine alone");
        engine = Some(alone(&scratch.path().join("engine"), &people, &progress, lasting).await?);
    }

    progress.phase("users and conversations");
    let mut served = if is_here { Some(Served::start(&scratch.path().join("data"), &[], &[])?) } else { None };
    let (url, key) = match (&served, &args.url, &args.key) {
        (Some(served), ..) => (served.url.clone(), served.key.clone()),
        (None, Some(url), Some(key)) => (url.clone(), key.clone()),
        _ => bail!("--url needs --key"),
    };
    let host = Client::new(url.parse().with_context(|| format!("{url} is no URL"))?, &key);
    let process = served.as_ref().map(|served| served.process.id());
    let idle = process.map(|process| dunlin_bench::Memory::of(&process.to_string(), "start", begun));
    let site = Site::prepare(host, Arc::clone(&people), process, &progress).await?;
    let mut ledger = Ledger::default();
    site.open(&mut ledger).await?;
    let mut memory: Vec<_> = idle.into_iter().collect();

    let (mut closed, mut paced) = (Vec::new(), Vec::new());
    let (connections, rates) = choice(args);
    for connections in connections {
        progress.phase(&format!("{connections} connections"));
        closed.push(site.closed(&mut ledger, connections, lasting).await?);
        memory.extend(site.memory(&format!("{connections} connections"), begun));
    }
    for (connections, per_s) in rates {
        progress.phase(&format!("{per_s} sends a second"));
        paced.push(site.paced(&mut ledger, connections, per_s, lasting).await?);
        memory.extend(site.memory(&format!("{per_s} sends a second"), begun));
    }
    let mut reads = Vec::new();
    for what in What::ALL {
        progress.phase("reads, idle");
        reads.push(site.reads(what, 0, lasting).await?);
    }
    for what in What::ALL {
        progress.phase("reads, under load");
        let (read, load) = tokio::join!(site.reads(what, LOAD_PER_S, lasting), site.paced(&mut ledger, MANY, LOAD_PER_S, lasting));
        let _: Run = load?;
        reads.push(read?);
    }
    memory.extend(site.memory("reads", begun));
    progress.phase("checking");
    let verdict = check(&site, &ledger, |messages| progress.say(&format!("{messages} messages"))).await?;
    memory.extend(site.memory("the check", begun));
    let (mut log, mut state) = (None, None);
    if let Some(served) = &mut served {
        served.stop()?;
        let per_message = |bytes: u64| Some(bytes as f64 / ledger.acked().max(1) as f64);
        let sizes =
            |part| dunlin_bench::sizes(&scratch.path().join("data").join(part)).with_context(|| format!("failed to look at the {part}"));
        (log, state) = (per_message(sizes("log")?.1), per_message(sizes("state")?.0));
    }
    Ok(HttpReport {
        machine: Machine {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            file_system: dunlin_bench::file_system(scratch.path()),
            seconds_per_phase: phase_s,
        },
        disk,
        engine,
        bare_per_s,
        closed,
        paced,
        reads,
        memory,
        log_bytes_per_message: log,
        state_bytes_per_message: state,
        check: verdict,
    })
}

/// Which connections in a closed loop, and which at which rates.
fn choice(args: &HttpBench) -> (Vec<usize>, Vec<(usize, u32)>) {
    let connections = args.connections.map(|connections| connections as usize);
    match (connections, args.rate) {
        (None, None) => (CONNECTIONS.to_vec(), RATES_PER_S.map(|per_s| (MANY, per_s)).to_vec()),
        (Some(connections), None) => (vec![connections], Vec::new()),
        (connections, Some(per_s)) => (Vec::new(), vec![(connections.unwrap_or(MANY), per_s)]),
    }
}

/// What a server in a process of its own reaches that does nothing but sync.
async fn bare(dir: &Path, lasting: Duration) -> Result<f64> {
    let mut command = Command::new(env::current_exe().context("failed to find this program")?);
    command.args(["bench", "bare", "--dir"]).arg(dir).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = command.spawn().context("failed to start the bare server")?;
    let mut url = String::new();
    let said = process.stdout.take().context("the bare server has an output")?;
    BufReader::new(said).read_line(&mut url).context("the bare server did not start")?;
    let per_s = one_connection(url.trim(), lasting).await;
    process.kill().context("failed to end the bare server")?;
    process.wait()?;
    per_s
}

/// What the engine does without a network.
async fn alone(path: &Path, people: &Arc<People>, progress: &Progress, lasting: Duration) -> Result<Engine> {
    let engine = open(path)?;
    let mut ledger = Ledger::default();
    setup::prepare(&engine.app, people, &mut ledger, progress).await?;
    let (mut rates, mut cpu_us) = (Vec::new(), 0.0);
    for senders in [1, MANY] {
        let mut sends = Sends::new(&engine.app, people, &mut ledger, Pace::WhenVisible, vec![Aim::Anyone; senders]);
        let cpu = Cpu::of(Some(std::process::id()));
        let driven = closed(sends.take(), Some(lasting)).await?;
        let spent = cpu.since(Some(std::process::id()));
        let sent = sends.done(driven.lanes, &mut ledger).await?;
        rates.push(sent.acked as f64 / driven.elapsed.as_secs_f64());
        cpu_us = spent.as_secs_f64() * 1e6 / sent.acked.max(1) as f64;
    }
    engine.close().context("failed to close")?;
    fs::remove_dir_all(path).context("failed to remove the engine's folder")?;
    Ok(Engine { one_per_s: rates[0], many_per_s: rates[1], many: MANY, many_cpu_us: cpu_us })
}

/// A server of our own.
pub(super) struct Served {
    pub process: Child,
    pub url: String,
    pub key: String,
}

impl Served {
    /// With arguments and variables beside those that every bench wants.
    pub fn start(data: &Path, arguments: &[&OsStr], variables: &[(&str, String)]) -> Result<Served> {
        let mut command = Command::new(env::current_exe().context("failed to find this program")?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(arguments);
        // The bench's few users call more often than people do.
        command.envs([("DUNLIN_LIMITS_USER_PER_S", "0"), ("DUNLIN_LIMITS_KEY_PER_S", "0"), ("DUNLIN_LOG", "warn")]);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("failed to start the server")?;
        let (mut url, mut key) = (None, None);
        let said = process.stdout.take().context("the server has an output")?;
        for line in BufReader::new(said).lines() {
            let line = line.context("the server has ended")?;
            url = url.or(line.split_once(" on http://").map(|(_, address)| format!("http://{address}")));
            key = key.or(line.trim().starts_with("dk_").then(|| line.trim().to_owned()));
            if url.is_some() && key.is_some() {
                break;
            }
        }
        let (url, key) = (url.context("the server did not start")?, key.context("the server made no key")?);
        Ok(Served { process, url, key })
    }

    pub fn stop(&mut self) -> Result<()> {
        let status = Command::new("kill").arg(self.process.id().to_string()).status().context("failed to stop the server")?;
        ensure!(status.success(), "failed to stop the server");
        let ended = self.process.wait()?;
        ensure!(ended.success(), "the server ended with {ended}");
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
