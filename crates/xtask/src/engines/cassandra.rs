//! Cassandra from its jars: one node, or three that each hold everything.

use std::{
    fs,
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    Engine, Process, Progress, fill, jars,
    ports::Ports,
    programs::{self, User, command_as},
    request::Jit,
    start::{Env, Program, Start, list, variable},
    wait::{self, Fields},
};

const NAME: &str = "cassandra-5.0.9";
pub const LOCK: &str = include_str!("../../engines/cassandra.lock");
const CONFIG: &str = include_str!("../../engines/cassandra.yaml");
const LOGBACK: &str = include_str!("../../engines/logback.xml");
const JVM_ARGS: &str = include_str!("../../engines/jvm17.args");
/// A write is answered after it is on disk, together with those of the same millisecond: a single node that is killed loses nothing.
const SYNC_IN_GROUPS: &str = "commitlog_sync: group\ncommitlog_sync_group_window: 1ms";
/// Cassandra's default, with which clusters run: what was answered is on disk within 10 s, and on other replicas before.
const SYNC_NOW_AND_THEN: &str = "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms";
/// Measures objects for Cassandra.
const AGENT: &str = "jamm-";
/// A third of the ring each; the first alone has all of it.
const TOKENS: [&str; 3] = ["-9223372036854775808", "-3074457345618258603", "3074457345618258602"];

pub struct Cassandra {
    java: PathBuf,
    jars: Vec<PathBuf>,
    /// Root would lock the whole heap into memory.
    user: Option<User>,
}

pub fn install(cache: &Path, progress: &Progress) -> Result<Cassandra> {
    let java = programs::java(progress)?;
    Ok(Cassandra { java, jars: jars::install(cache, NAME, LOCK, progress)?, user: User::instead_of_root(&["nobody"])? })
}

struct Node {
    number: u32,
    jmx_port: u16,
    folder: PathBuf,
}

impl Program for Cassandra {
    fn start(&self, start: &Start) -> Result<Env> {
        let hosts: Vec<_> = (1..=start.nodes(Engine::Cassandra)).map(|node| format!("127.0.0.{node}")).collect();
        let (storage_port, native_port) = (start.port(|ports| ports.take_on(&hosts))?, start.port(|ports| ports.take_on(&hosts))?);
        let jars = self.readable_jars(start)?;
        for ((number, host), token) in (1..).zip(&hosts).zip(TOKENS) {
            let jmx_port = start.port(Ports::take)?;
            let node = Node { number, jmx_port, folder: start.node_folder(Engine::Cassandra, number)? };
            programs::give(&node.folder, self.user)?;
            let values = [
                ("token", token),
                ("seeds", &hosts.join(",")),
                ("host", host),
                ("storage_port", &storage_port.to_string()),
                ("native_port", &native_port.to_string()),
                ("folder", &node.folder.display().to_string()),
                ("commit_log", if start.options.jit == Jit::Quick { SYNC_IN_GROUPS } else { SYNC_NOW_AND_THEN }),
            ];
            self.configure(&node, &values)?;
            let address = format!("{host}:{native_port}");
            start.launch(Engine::Cassandra, number, address, &node.folder, &mut self.command(start, &node, &jars)?)?;
        }
        start.wait(Engine::Cassandra)?;
        Ok(vec![variable(Engine::Cassandra, list(&hosts, |host| format!("{host}:{native_port}")))])
    }
}

impl Cassandra {
    /// Another user may not look into the home of root, so the jars get a second name beside the data.
    fn readable_jars(&self, start: &Start) -> Result<Vec<PathBuf>> {
        if self.user.is_none() {
            return Ok(self.jars.clone());
        }
        let folder = start.folder.join("cassandra-jars");
        programs::make_open_folder(&folder)?;
        let link = |jar: &PathBuf| {
            let link = folder.join(jar.file_name().context("a jar has a name")?);
            fs::hard_link(jar, &link).or_else(|_| fs::copy(jar, &link).map(drop)).context("failed to copy a jar")?;
            fs::set_permissions(&link, fs::Permissions::from_mode(0o644)).context("failed to open a jar to others")?;
            Ok(link)
        };
        self.jars.iter().map(link).collect()
    }

    fn configure(&self, node: &Node, values: &[(&str, &str)]) -> Result<()> {
        let rack = format!("dc=dc1\nrack=r{}\n", node.number);
        let files = [
            ("cassandra.yaml", fill(CONFIG, values)),
            ("rackdc.properties", rack),
            ("logback.xml", LOGBACK.into()),
            ("jvm.args", JVM_ARGS.into()),
        ];
        for (name, text) in files {
            let path = node.folder.join(name);
            fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
            programs::give(&path, self.user)?;
        }
        let tmp = node.folder.join("tmp");
        fs::create_dir(&tmp).with_context(|| format!("failed to make {}", tmp.display()))?;
        programs::give(&tmp, self.user)
    }

    fn command(&self, start: &Start, node: &Node, jars: &[PathBuf]) -> Result<Command> {
        let folder = node.folder.display();
        let is_agent = |jar: &&PathBuf| jar.file_name().is_some_and(|name| name.to_string_lossy().starts_with(AGENT));
        let agent = jars.iter().find(is_agent).context("the lock list of Cassandra has no jamm")?;
        // Alone, there is nobody to hear of.
        let ring_delay_ms = if start.nodes(Engine::Cassandra) == 1 { 0 } else { 2000 };
        let mut command = command_as(self.user, &self.java);
        let heap = if start.options.jit == Jit::Quick { "384m" } else { "1g" };
        command.args([format!("-Xms{heap}"), format!("-Xmx{heap}")]);
        command.args(["-Xss256k", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m", "-XX:+ExitOnOutOfMemoryError"]);
        if start.options.jit == Jit::Quick {
            command.arg("-XX:TieredStopAtLevel=1");
        }
        command.args(["-XX:+PerfDisableSharedMem", "-Djdk.attach.allowAttachSelf=true", "-Djava.net.preferIPv4Stack=true"]);
        command.args([format!("-javaagent:{}", agent.display()), format!("@{folder}/jvm.args")]);
        command.args([
            format!("-Djava.io.tmpdir={folder}/tmp"),
            format!("-Djna.tmpdir={folder}/tmp"),
            format!("-Dcassandra.config=file://{folder}/cassandra.yaml"),
            format!("-Dcassandra.storagedir={folder}"),
            format!("-Dcassandra-rackdc.properties=file://{folder}/rackdc.properties"),
            format!("-Dlogback.configurationFile=file:{folder}/logback.xml"),
            format!("-Dcassandra.logdir={folder}"),
            format!("-Dcassandra.jmx.local.port={}", node.jmx_port),
            format!("-Dcassandra.ring_delay_ms={ring_delay_ms}"),
        ]);
        command.args(["-Dcassandra-foreground=yes", "-Dcassandra.skip_wait_for_gossip_to_settle=0"]);
        // The second is what Cassandra would measure by itself, which takes it more than a second.
        command.args(["-Dcassandra.superuser_setup_delay_ms=0", "-Dcassandra.memtable.row_overhead_size=125"]);
        command.arg("-cp").arg(std::env::join_paths(jars).context("a path of the jars holds a colon")?);
        command.arg("org.apache.cassandra.service.CassandraDaemon").env("HOME", &node.folder);
        Ok(command)
    }
}

/// It speaks CQL, and all its peers have the schema that it has.
pub fn probe(process: &Process, nodes: u32) -> Result<()> {
    let mut stream = wait::connect(&process.address)?;
    let (opcode, _) = exchange(&mut stream, STARTUP, b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0")?;
    ensure!(opcode == READY, "the handshake is answered with {opcode:#x}");
    if nodes > 1 {
        let schema: String =
            last_value::<16>(&mut stream, "SELECT schema_version FROM system.local")?.iter().map(|byte| format!("{byte:02x}")).collect();
        let uuid = [&schema[..8], &schema[8..12], &schema[12..16], &schema[16..20], &schema[20..]].join("-");
        let sql = format!("SELECT count(*) FROM system.peers_v2 WHERE schema_version = {uuid} ALLOW FILTERING");
        let peers = u64::from_be_bytes(last_value(&mut stream, &sql)?);
        ensure!(peers == u64::from(nodes - 1), "it agrees with {peers} peers");
    }
    Ok(())
}

const STARTUP: u8 = 0x01;
const READY: u8 = 0x02;
const QUERY: u8 = 0x07;
const RESULT: u8 = 0x08;

/// The last N bytes of an answer: the last column of its last row, if that has this length.
fn last_value<const N: usize>(stream: &mut TcpStream, query: &str) -> Result<[u8; N]> {
    // The text, consistency ONE, no flags.
    let body = [&u32::try_from(query.len())?.to_be_bytes(), query.as_bytes(), b"\0\x01\0"].concat();
    let (opcode, answer) = exchange(stream, QUERY, &body)?;
    match (opcode, answer.last_chunk()) {
        (RESULT, Some(value)) => Ok(*value),
        _ => bail!("`{query}` is answered with {opcode:#x}"),
    }
}

/// One request of version 4 of the native protocol, and its answer.
fn exchange(stream: &mut TcpStream, opcode: u8, body: &[u8]) -> Result<(u8, Vec<u8>)> {
    wait::send(stream, &[&[0x04, 0, 0, 0, opcode], u32::try_from(body.len())?.to_be_bytes().as_slice(), body].concat())?;
    let head = wait::receive(stream, 9)?;
    let length = Fields(&head[5..]).i32()?;
    Ok((head[4], wait::receive(stream, usize::try_from(length).context("an answer has no length")?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_has_no_unfilled_place() {
        let names = ["token", "seeds", "host", "storage_port", "native_port", "folder", "commit_log"];
        assert!(!fill(CONFIG, &names.map(|name| (name, "x"))).contains("{{"));
    }
}
