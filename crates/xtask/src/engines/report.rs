//! What runs, and what it says.

use anyhow::{Context, Result, bail, ensure};

use super::{Engine, Place, Process, State, given, process::tail, wait};

/// A line for each process. Fails if one of them does not answer.
pub fn status(place: &Place) -> Result<()> {
    let Some(state) = State::load(place)? else {
        println!("no engines are up");
        return Ok(());
    };
    let ready = if state.ready { "" } else { ", not ready" };
    println!("{}{ready}\n{}", state.options, row(["engine", "node", "address", "pid", "health", "RSS", "folder"]));
    let mut reasons = Vec::new();
    for process in &state.processes {
        let health = match health(process, &state) {
            Ok(()) => "healthy",
            Err(reason) => {
                reasons.push(format!("{}: {reason:#}", process.title()));
                "NOT HEALTHY"
            }
        };
        println!("{}", line(process, health));
    }
    for engine in Engine::ALL.into_iter().filter(|engine| engine.nodes(state.options) > 0) {
        if let Some((_, value)) = state.env.iter().find(|(key, _)| *key == given::variable(engine))
            && state.processes.iter().all(|process| process.engine != engine)
        {
            println!("{}", row([engine.name(), "-", &given::first_address(engine, value), "-", "given", "-", "-"]));
        }
    }
    ensure!(reasons.is_empty(), "{}", reasons.join("\n"));
    Ok(())
}

fn health(process: &Process, state: &State) -> Result<()> {
    if !process.identity.is_running() {
        bail!("pid {} has ended", process.identity.pid);
    }
    wait::probe(process, &state.processes)
}

fn line(process: &Process, health: &str) -> String {
    let is_running = process.identity.is_running();
    let rss = process.identity.rss_bytes().filter(|_| is_running).map_or("-".to_owned(), |bytes| format!("{} MB", bytes / 1_000_000));
    let (node, pid) = (process.node.to_string(), process.identity.pid.to_string());
    row([process.engine.name(), &node, &process.address, &pid, health, &rss, &process.folder.display().to_string()])
}

fn row([engine, node, address, pid, health, rss, folder]: [&str; 7]) -> String {
    format!("{engine:<10}{node:<6}{address:<18}{pid:<9}{health:<13}{rss:<8}{folder}")
}

/// The end of each log, also of engines that run no longer.
pub fn logs(place: &Place, engine: Option<Engine>) -> Result<()> {
    let folder = place.logs();
    let mut paths: Vec<_> = match std::fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error).with_context(|| format!("failed to read {}", folder.display())),
    };
    paths.retain(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        engine.is_none_or(|engine| name.rsplit_once('-').is_some_and(|(prefix, _)| prefix == engine.name()))
    });
    paths.sort();
    if paths.is_empty() {
        println!("there are no logs");
    }
    for path in paths {
        println!("==> {}\n{}", path.display(), tail(&path));
    }
    Ok(())
}
