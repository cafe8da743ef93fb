//! `cargo xtask engines`: Cassandra, Kafka, PostgreSQL, Redis and an S3 server on this machine, without containers.
//!
//! This file says what there is and in which order things happen. Each engine has a file that installs, starts and
//! probes it; what they share is in the others. Whether tests want engines is not decided here.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

mod cassandra;
mod folder;
mod given;
mod jars;
mod kafka;
mod one;
mod ports;
mod postgres;
mod process;
mod programs;
mod progress;
mod redis;
mod report;
pub mod request;
mod s3;
mod start;
mod state;
mod wait;

use process::Process;
use progress::Progress;
use request::{Options, Request, S3, Set};
use state::State;

/// How long engines that run already may take to answer.
const HEALTH_LIMIT: Duration = Duration::from_secs(5);

pub fn run(root: &Path, request: Request) -> Result<()> {
    let place = Place::of(root);
    match request {
        Request::Up(options) => up(root, options),
        Request::Down(None) => down(root),
        Request::Down(Some(folder)) => down_if(root, |state| state.folder == folder),
        Request::Kill(targets) => one::kill(&place, &targets),
        Request::Start(targets) => one::start(&place, &targets),
        Request::Promote => one::promote(&place),
        Request::Status => report::status(&place),
        Request::Logs(engine) => report::logs(&place, engine),
    }
}

/// The engines that tests may use.
pub struct Engines {
    /// The addresses, as environment variables.
    pub env: Vec<(String, String)>,
    /// Whether this call started them; then its caller stops them with [`down`].
    pub started: bool,
    /// Whether `up` started all of them, so that they may be hurt.
    pub are_ours: bool,
}

impl Engines {
    fn of(state: State, started: bool) -> Engines {
        let is_ours = |engine: &Engine| state.processes.iter().any(|process| process.engine == *engine);
        let are_ours = Engine::ALL.iter().filter(|engine| engine.nodes(state.options) > 0).all(is_ours);
        Engines { env: state.env, started, are_ours }
    }
}

/// Starts the engines of a set unless they run. What is half up is stopped first. On an error nothing is left running.
pub fn ensure(root: &Path, options: Options) -> Result<Engines> {
    let place = Place::of(root);
    let _lock = place.lock()?;
    let progress = Progress::new();
    let mut ours = Vec::new();
    if let Some(state) = State::load(&place)? {
        match health(&state) {
            Ok(()) if state.options.cover(options) => return Ok(Engines::of(state, false)),
            Ok(()) => bail!("another set is up ({}); stop it first: `cargo xtask engines down`", state.options),
            Err(reason) => {
                progress.say(&format!("not all engines are well ({reason}); stopping the others, to start anew without what they stored"))
            }
        }
        stop(&place, &state)?;
        ours = state.own_env();
    }
    let state = start::start(&place, options, &ours, &progress)?;
    Ok(Engines::of(state, true))
}

/// Stops what was started, and only that; what it stored goes too.
pub fn down(root: &Path) -> Result<()> {
    down_if(root, |_| true)
}

fn down_if(root: &Path, is_meant: impl Fn(&State) -> bool) -> Result<()> {
    let place = Place::of(root);
    let _lock = place.lock()?;
    let Some(state) = State::load(&place)?.filter(is_meant) else {
        eprintln!("    no engines are up");
        return Ok(());
    };
    let count = state.processes.iter().filter(|process| process.identity.is_running()).count();
    stop(&place, &state)?;
    eprintln!("    stopped {count} processes and removed {}", state.folder.display());
    Ok(())
}

fn up(root: &Path, options: Options) -> Result<()> {
    let start = Instant::now();
    let engines = ensure(root, options)?;
    if engines.started {
        eprintln!("==> the engines are up after {:.1} s: {options}", start.elapsed().as_secs_f64());
    } else {
        eprintln!("==> the engines are up already: {options}");
    }
    // What the caller has already may hold passwords.
    let is_new = |(key, value): &&(String, String)| std::env::var(key).as_ref() != Ok(value);
    print!("{}", given::env_file(&engines.env.iter().filter(is_new).cloned().collect::<Vec<_>>()));
    eprintln!("    `set -a; . target/engines/env; set +a` gives the addresses to a shell");
    Ok(())
}

fn health(state: &State) -> Result<()> {
    if !state.ready {
        bail!("the last start did not come to its end");
    }
    wait::until(&state.processes, HEALTH_LIMIT, || true, |process| wait::probe(process, &state.processes))
}

fn stop(place: &Place, state: &State) -> Result<()> {
    process::stop(&state.processes)?;
    state.remove_folder()?;
    for path in [place.env(), place.state()] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("failed to remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// In the order in which they start: the light ones first, because `initdb` next to starting JVMs takes five times as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    Redis,
    S3,
    Postgres,
    Cassandra,
    Kafka,
}

impl Engine {
    pub const ALL: [Engine; 5] = [Engine::Redis, Engine::S3, Engine::Postgres, Engine::Cassandra, Engine::Kafka];

    pub fn name(self) -> &'static str {
        match self {
            Engine::Redis => "redis",
            Engine::S3 => "s3",
            Engine::Postgres => "postgres",
            Engine::Cassandra => "cassandra",
            Engine::Kafka => "kafka",
        }
    }

    pub fn named(name: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// How many processes of it are asked for.
    fn nodes(self, options: Options) -> u32 {
        match (self, options.set) {
            (Engine::S3, Set::Small) => u32::from(options.s3 == S3::InAny),
            (Engine::S3, Set::Full) => 1,
            (Engine::Postgres, Set::Small) => 1,
            (Engine::Postgres, Set::Full) => 2,
            (Engine::Redis, Set::Small) => 3,
            (Engine::Redis, Set::Full) => 6,
            (Engine::Cassandra | Engine::Kafka, Set::Small) => 1,
            (Engine::Cassandra | Engine::Kafka, Set::Full) => 3,
        }
    }

    /// Whether one process answers as it should among `nodes` of its kind. The error says what is still missing.
    fn probe(self, process: &Process, nodes: u32) -> Result<()> {
        match self {
            Engine::Redis => redis::probe(process, nodes),
            Engine::S3 => s3::probe(process),
            Engine::Postgres => postgres::probe(process, nodes),
            Engine::Cassandra => cassandra::probe(process, nodes),
            Engine::Kafka => kafka::probe(process, nodes),
        }
    }
}

/// Where the commands of one checkout keep what they must remember.
struct Place(PathBuf);

impl Place {
    fn of(root: &Path) -> Place {
        Place(root.join("target/engines"))
    }

    fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    fn env(&self) -> PathBuf {
        self.0.join("env")
    }

    /// Logs outlive the engines, so that a failed start can be looked into.
    fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// One command at a time; the others wait.
    fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.0).with_context(|| format!("failed to make {}", self.0.display()))?;
        lock(&self.0.join("lock"))
    }
}

/// Held until the file is dropped, also by the death of this process.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("failed to make {}", path.display()))?;
    if file.try_lock().is_err() {
        eprintln!("    waiting for another command that holds {}", path.display());
        file.lock().with_context(|| format!("failed to lock {}", path.display()))?;
    }
    Ok(file)
}

/// Puts values into a template: `{{name}}` becomes the value.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(template.to_owned(), |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), value))
}
