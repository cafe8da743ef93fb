//! Redis as a cluster: three masters, or three masters with a replica each.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{
    Engine, Process, Progress,
    ports::Ports,
    programs::{find_or_install, on_path},
    start::{Env, Program, Start, list, variable},
    wait,
};

const MASTERS: u32 = 3;

pub struct Redis {
    server: PathBuf,
    cli: PathBuf,
}

pub fn install(cache: &Path, progress: &Progress) -> Result<Redis> {
    let find = || Some(Redis { server: server(cache)?, cli: on_path("redis-cli")? });
    // The tools contain the server too, and their package starts no service.
    find_or_install("Redis", &["redis-tools"], find, progress)
}

/// One binary acts by its name as the server or as a tool that the package of the tools has.
fn server(cache: &Path) -> Option<PathBuf> {
    if let Some(server) = on_path("redis-server") {
        return Some(server);
    }
    let link = cache.join("redis-server");
    let target = on_path("redis-check-rdb")?;
    if fs::read_link(&link).ok().as_ref() != Some(&target) {
        let _ = fs::remove_file(&link);
        fs::create_dir_all(cache).and_then(|()| symlink(&target, &link)).ok()?;
    }
    Some(link)
}

impl Program for Redis {
    fn start(&self, start: &Start) -> Result<Env> {
        let nodes = start.nodes(Engine::Redis);
        let mut addresses = Vec::new();
        for node in 1..=nodes {
            let folder = start.node_folder(Engine::Redis, node)?;
            let port = start.port(Ports::take_for_redis)?;
            let address = format!("127.0.0.1:{port}");
            start.launch(Engine::Redis, node, address.clone(), &folder, &mut self.node(port))?;
            addresses.push(address);
        }
        start.wait_for(Engine::Redis, |process| ask(&process.address, "PING").map(drop))?;
        let mut create = Command::new(&self.cli);
        create.env("TERM", "dumb").args(["--cluster", "create"]).args(&addresses);
        create.args(["--cluster-replicas", &(nodes / MASTERS - 1).to_string(), "--cluster-yes"]);
        start.prepare(Engine::Redis, 1, &mut create)?;
        start.wait(Engine::Redis)?;
        Ok(vec![variable(Engine::Redis, list(&addresses, String::clone))])
    }
}

impl Redis {
    fn node(&self, port: u16) -> Command {
        let mut command = Command::new(&self.server);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000"]);
        command.args(["--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"]);
        command.args(["--appendonly", "no", "--save", "", "--maxmemory", "64mb", "--dir", "."]);
        command
    }
}

/// Its view of the cluster is whole, and a replica has its data: one that never had can't take over.
pub fn probe(process: &Process, nodes: u32) -> Result<()> {
    let cluster = ask(&process.address, "CLUSTER INFO")?;
    for expected in ["cluster_state:ok".to_owned(), "cluster_slots_ok:16384".to_owned(), format!("cluster_known_nodes:{nodes}")] {
        ensure!(has_line(&cluster, &expected), "`CLUSTER INFO` lacks {expected}");
    }
    let replication = ask(&process.address, "INFO replication")?;
    if has_line(&replication, "role:master") {
        let replicas = nodes / MASTERS - 1;
        return ensure_line(&replication, &format!("connected_slaves:{replicas}"));
    }
    ensure_line(&replication, "master_link_status:up")
}

pub fn is_master(process: &Process) -> bool {
    ask(&process.address, "INFO replication").is_ok_and(|info| has_line(&info, "role:master"))
}

fn ensure_line(info: &str, expected: &str) -> Result<()> {
    ensure!(has_line(info, expected), "`INFO replication` lacks {expected}");
    Ok(())
}

fn has_line(info: &str, line: &str) -> bool {
    info.lines().any(|other| other == line)
}

/// Sends a command without arguments that need quoting, and reads a simple or a bulk string.
fn ask(address: &str, command: &str) -> Result<String> {
    let mut stream = wait::connect(address)?;
    wait::send(&mut stream, format!("{command}\r\n").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    reader.read_line(&mut head).context("failed to receive an answer")?;
    let Some(length) = head.strip_prefix('$') else {
        ensure!(head.starts_with('+'), "`{command}` is answered with {}", head.trim());
        return Ok(head);
    };
    let length: u64 = length.trim().parse().with_context(|| format!("`{command}` is answered with {}", head.trim()))?;
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body).context("failed to receive an answer")?;
    Ok(body)
}
