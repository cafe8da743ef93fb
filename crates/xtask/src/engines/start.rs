//! Installs and starts a set. Every process is in the state file as soon as it runs, so that whatever happens here,
//! `down` finds it.

use std::{
    fs,
    io::Write as _,
    os::unix::process::CommandExt as _,
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Error, Result};

use super::{
    Engine, Options, Place, Process, Progress, State, cassandra, folder, given, jars, kafka,
    ports::Ports,
    postgres,
    process::{self, Line},
    programs, redis, s3,
    state::FOLDER_PREFIX,
    stop, wait,
};

/// How long an engine may take until it answers.
pub const START_LIMIT: Duration = Duration::from_secs(120);

pub type Env = Vec<(String, String)>;

/// An engine that is installed.
pub trait Program: Sync {
    /// Starts all nodes and returns when they answer, with their addresses.
    fn start(&self, start: &Start) -> Result<Env>;
}

/// Starts a set from nothing. On an error, all that was started is stopped again. `ours` is what an earlier start gave.
pub fn start(place: &Place, options: Options, ours: &[(String, String)], progress: &Progress) -> Result<State> {
    let mut env = Env::new();
    let mut programs = Vec::new();
    for engine in Engine::ALL.into_iter().filter(|engine| engine.nodes(options) > 0) {
        match given::lookup(engine, ours, |name| std::env::var(name).ok()) {
            Some(given) => {
                given::check(engine, &given[0].1)?;
                progress.say(&format!("{} is given: {}", engine.name(), given::first_address(engine, &given[0].1)));
                env.extend(given);
            }
            None => programs.push((engine, install(engine, progress).with_context(|| format!("failed to install {}", engine.name()))?)),
        }
    }
    let _ = fs::remove_dir_all(place.logs());
    fs::create_dir_all(place.logs()).with_context(|| format!("failed to make {}", place.logs().display()))?;

    let state = State { options, folder: new_folder(&folder::parent(options.jit))?, ready: false, processes: Vec::new(), env };
    state.save(place)?;
    progress.say(&format!("their data is in {}", state.folder.display()));
    let guard = Guard::new(&state.folder)?;
    let start = Start {
        place,
        options,
        folder: state.folder.clone(),
        progress,
        ports: Mutex::new(Ports::new()),
        state: Mutex::new(state),
        failure: Mutex::default(),
    };
    start.all(&programs);
    let (mut state, failure) = start.outcome();
    let ended = failure.map_or_else(|| finish(place, &mut state), Err);
    if ended.is_err()
        && let Err(error) = stop(place, &state)
    {
        progress.say(&format!("{error:#}; `cargo xtask engines down` tries again"));
    }
    guard.dismiss();
    ended.map(|()| state)
}

fn finish(place: &Place, state: &mut State) -> Result<()> {
    state.ready = true;
    state.env.sort();
    state.processes.sort_by_key(|process| (process.engine, process.node));
    given::write(place, &state.env)?;
    state.save(place)
}

fn install(engine: Engine, progress: &Progress) -> Result<Box<dyn Program>> {
    Ok(match engine {
        Engine::Redis => Box::new(redis::install(&jars::cache()?, progress)?),
        Engine::S3 => Box::new(s3::install(&jars::cache()?, progress)?),
        Engine::Postgres => Box::new(postgres::install(progress)?),
        Engine::Cassandra => Box::new(cassandra::install(&jars::cache()?, progress)?),
        Engine::Kafka => Box::new(kafka::install(&jars::cache()?, progress)?),
    })
}

/// Open to the users as whom engines run, whatever the caller's umask; nobody else can have made it.
fn new_folder(parent: &Path) -> Result<PathBuf> {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let folder = parent.join(format!("{FOLDER_PREFIX}{}-{}", std::process::id(), now.as_millis()));
    programs::make_open_folder(&folder)?;
    Ok(folder)
}

/// A start under way, shared by the threads of the engines.
pub struct Start<'a> {
    pub options: Options,
    pub folder: PathBuf,
    place: &'a Place,
    progress: &'a Progress,
    ports: Mutex<Ports>,
    state: Mutex<State>,
    /// The first one; the others are only its consequences.
    failure: Mutex<Option<Error>>,
}

impl Start<'_> {
    fn all(&self, programs: &[(Engine, Box<dyn Program>)]) {
        thread::scope(|scope| {
            for (engine, program) in programs {
                let thread = scope.spawn(move || self.one(*engine, program.as_ref()));
                if *engine == Engine::Postgres {
                    // The JVMs begin after it.
                    thread.join().unwrap_or_else(|panic| resume_unwind(panic));
                }
            }
        });
    }

    fn one(&self, engine: Engine, program: &dyn Program) {
        let (name, nodes) = (engine.name(), engine.nodes(self.options));
        if self.has_failed() {
            return;
        }
        self.progress.begin(name);
        match program.start(self) {
            Ok(env) => {
                self.state().env.extend(env);
                let s = if nodes == 1 { " answers" } else { "s answer" };
                self.progress.done(name, &format!("{name}: {nodes} node{s}"));
            }
            Err(error) => {
                locked(&self.failure).get_or_insert_with(|| error.context(format!("failed to start {name}")));
            }
        }
    }

    fn outcome(self) -> (State, Option<Error>) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state, self.failure.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn nodes(&self, engine: Engine) -> u32 {
        engine.nodes(self.options)
    }

    pub fn port(&self, take: impl FnOnce(&mut Ports) -> Result<u16>) -> Result<u16> {
        take(&mut locked(&self.ports))
    }

    /// A folder for one node; its name is also that of its log.
    pub fn node_folder(&self, engine: Engine, node: u32) -> Result<PathBuf> {
        let folder = self.folder.join(format!("{}-{node}", engine.name()));
        fs::create_dir(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
        Ok(folder)
    }

    pub fn log(&self, engine: Engine, node: u32) -> PathBuf {
        self.place.logs().join(format!("{}-{node}.log", engine.name()))
    }

    pub fn launch(&self, engine: Engine, node: u32, address: String, folder: &Path, command: &mut Command) -> Result<()> {
        let log = self.log(engine, node);
        // Together with its record: nothing may run that `down` does not know.
        let mut state = self.state();
        let line = Line::of(command)?;
        let identity = process::launch(command, folder, &log)?;
        state.processes.push(Process { engine, node, address, identity, folder: folder.to_owned(), log, line });
        state.save(self.place)
    }

    /// Waits until all nodes of an engine answer as they should.
    pub fn wait(&self, engine: Engine) -> Result<()> {
        self.wait_for(engine, |process| engine.probe(process, self.nodes(engine)))
    }

    /// Waits until `probe` is content with those nodes of an engine that were launched.
    pub fn wait_for(&self, engine: Engine, probe: impl Fn(&Process) -> Result<()>) -> Result<()> {
        let processes: Vec<_> = self.state().processes.iter().filter(|process| process.engine == engine).cloned().collect();
        let go_on = || {
            self.progress.tick();
            !self.has_failed()
        };
        wait::until(&processes, START_LIMIT, go_on, probe)
    }

    /// Runs a command that prepares a node, with its output in the node's log.
    pub fn prepare(&self, engine: Engine, node: u32, command: &mut Command) -> Result<()> {
        process::run(command, &self.log(engine, node), START_LIMIT)
    }

    fn has_failed(&self) -> bool {
        locked(&self.failure).is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A shell that stops the engines if this process dies while it starts them, by Ctrl-C or otherwise: its input then ends
/// without a line. Those of a later start, which may come first, it leaves alone.
struct Guard(Child);

impl Guard {
    fn new(folder: &Path) -> Result<Guard> {
        let own = std::env::current_exe().context("failed to find this program")?;
        let mut shell = Command::new("sh");
        shell.args(["-c", "read -r line || exec \"$0\" engines down --if-in \"$1\""]).arg(own).arg(folder);
        shell.stdin(Stdio::piped()).process_group(0);
        Ok(Guard(shell.spawn().context("failed to start sh")?))
    }

    fn dismiss(mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            let _ = writeln!(input, "done");
        }
        let _ = self.0.wait();
    }
}

/// `what` for each node, joined by commas.
pub fn list<T>(nodes: &[T], what: impl Fn(&T) -> String) -> String {
    nodes.iter().map(what).collect::<Vec<_>>().join(",")
}

/// One variable of an engine.
pub fn variable(engine: Engine, value: String) -> (String, String) {
    (given::variable(engine), value)
}
