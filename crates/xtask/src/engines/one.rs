//! Failures by hand, and their end: some of the processes that `up` started are killed, started again, or change their role.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{
    Engine, Place, Process, Progress, State, given, kafka, postgres, process, redis,
    request::{Role, Target},
    wait,
};

/// With what they had, and perhaps under load: longer than from nothing.
const RESTART_LIMIT: Duration = Duration::from_secs(300);

/// Says on stdout whom it was, for a script that only knows the role.
pub fn kill(place: &Place, targets: &[Target]) -> Result<()> {
    let _lock = place.lock()?;
    let state = load(place)?;
    let doomed: Vec<Process> = meant(&state, targets)?.into_iter().filter(|process| process.identity.is_running()).collect();
    process::kill(&doomed)?;
    doomed.iter().for_each(|process| println!("{}", process.name()));
    Ok(())
}

/// Returns when they answer as they should. What runs already is left alone.
pub fn start(place: &Place, targets: &[Target]) -> Result<()> {
    let _lock = place.lock()?;
    let mut state = load(place)?;
    for process in meant(&state, targets)?.into_iter().filter(|process| !process.identity.is_running()) {
        let primary = state.processes.iter().find(|other| other.engine == Engine::Postgres && postgres::is_primary(other)).cloned();
        if let Some(primary) = primary.filter(|_| process.engine == Engine::Postgres && !postgres::is_standby(&process)) {
            postgres::install(&Progress::new())?.follow(&process, &primary)?;
        }
        let identity = process::launch(&mut process.line.command()?, &process.folder, &process.log)?;
        let known = state.processes.iter_mut().find(|other| other.name() == process.name());
        known.context("it is one of them")?.identity = identity;
        state.save(place)?;
        println!("{}", process.name());
    }
    let started = meant(&state, targets)?;
    wait::until(&started, RESTART_LIMIT, || true, |process| probe(process, &state))
}

/// Also whom the addresses name: whoever asks next gets the one that takes writes.
pub fn promote(place: &Place) -> Result<()> {
    let _lock = place.lock()?;
    let mut state = load(place)?;
    let is_left = |process: &&Process| process.engine == Engine::Postgres && process.identity.is_running() && postgres::is_standby(process);
    let standby = state.processes.iter().find(is_left).context("no standby of PostgreSQL runs")?;
    ensure!(
        !state.processes.iter().any(postgres_primary),
        "PostgreSQL has a primary; kill it first: `cargo xtask engines kill postgres-primary`"
    );
    postgres::promote(standby)?;
    println!("{}", standby.name());
    let [one, other] = [given::variable(Engine::Postgres), "DUNLIN_TEST_POSTGRES_STANDBY".to_owned()];
    for (key, _) in &mut state.env {
        match key {
            key if *key == one => key.clone_from(&other),
            key if *key == other => key.clone_from(&one),
            _ => {}
        }
    }
    state.env.sort();
    given::write(place, &state.env)?;
    state.save(place)
}

fn load(place: &Place) -> Result<State> {
    State::load(place)?.context("no engines are up: `cargo xtask engines up`")
}

/// All of it, if all its processes run; else one can only be asked whether it is there.
fn probe(process: &Process, state: &State) -> Result<()> {
    let all_run = state.processes.iter().filter(|other| other.engine == process.engine).all(|other| other.identity.is_running());
    if all_run { wait::probe(process, &state.processes) } else { wait::connect(&process.address).map(drop) }
}

fn postgres_primary(process: &Process) -> bool {
    process.engine == Engine::Postgres && process.identity.is_running() && postgres::is_primary(process)
}

/// In the order in which they are named.
fn meant(state: &State, targets: &[Target]) -> Result<Vec<Process>> {
    let mut meant: Vec<Process> = Vec::new();
    for target in targets {
        let found: Vec<_> = match *target {
            Target::All(engine) => state.processes.iter().filter(|process| process.engine == engine).cloned().collect(),
            Target::Node(engine, node) => {
                state.processes.iter().filter(|process| process.engine == engine && process.node == node).cloned().collect()
            }
            Target::Role(role) => vec![in_role(state, role)?],
        };
        ensure!(!found.is_empty(), "{target} was not started here; `cargo xtask engines status` lists what was");
        meant.extend(found);
    }
    Ok(meant)
}

fn in_role(state: &State, role: Role) -> Result<Process> {
    let running = |engine| state.processes.iter().filter(move |process| process.engine == engine && process.identity.is_running());
    let found = match role {
        Role::Controller => {
            let node = kafka::controller(running(Engine::Kafka).next().context("no Kafka runs")?)?;
            running(Engine::Kafka).find(|process| process.node == node)
        }
        Role::Master => running(Engine::Redis).find(|process| redis::is_master(process)),
        Role::Primary => running(Engine::Postgres).find(|process| postgres::is_primary(process)),
    };
    found.cloned().with_context(|| format!("no {role:?} runs"))
}
