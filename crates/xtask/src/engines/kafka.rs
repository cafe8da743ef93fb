//! Kafka from its jars: one broker, or three of which two must have what is acknowledged.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{
    Engine, Process, Progress, fill, jars,
    ports::Ports,
    programs,
    request::Jit,
    start::{Env, Program, Start, list, variable},
    wait::{self, Fields},
};

const NAME: &str = "kafka-4.3.1";
pub const LOCK: &str = include_str!("../../engines/kafka.lock");
const CONFIG: &str = include_str!("../../engines/server.properties");
/// Any would do, as long as all brokers have the same.
const CLUSTER_ID: &str = "AAAAAAAAAAAAAAAAAAAAAQ";
/// Who may come in by the door that asks, by SCRAM; for PLAIN the configuration says the same.
const SCRAM_USER: &str = "SCRAM-SHA-256=[name=dunlin,password=\"open sesame\"]";

pub struct Kafka {
    java: PathBuf,
    jars: Vec<PathBuf>,
}

pub fn install(cache: &Path, progress: &Progress) -> Result<Kafka> {
    Ok(Kafka { java: programs::java(progress)?, jars: jars::install(cache, NAME, LOCK, progress)? })
}

/// A broker that is a controller too.
struct Node {
    number: u32,
    port: u16,
    sasl_port: u16,
    controller_port: u16,
    folder: PathBuf,
}

impl Program for Kafka {
    fn start(&self, start: &Start) -> Result<Env> {
        let mut nodes = Vec::new();
        for number in 1..=start.nodes(Engine::Kafka) {
            let (port, sasl_port, controller_port) = (start.port(Ports::take)?, start.port(Ports::take)?, start.port(Ports::take)?);
            nodes.push(Node { number, port, sasl_port, controller_port, folder: start.node_folder(Engine::Kafka, number)? });
        }
        for node in &nodes {
            let path = node.folder.join("server.properties");
            fs::write(&path, config(node, &nodes)).with_context(|| format!("failed to write {}", path.display()))?;
            let mut format = self.command(start, node)?;
            format.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "--add-scram", SCRAM_USER, "-c"]).arg(&path);
            start.prepare(Engine::Kafka, node.number, &mut format)?;
        }
        for node in &nodes {
            let mut broker = self.command(start, node)?;
            broker.arg("kafka.Kafka").arg(node.folder.join("server.properties"));
            start.launch(Engine::Kafka, node.number, address(node), &node.folder, &mut broker)?;
        }
        start.wait(Engine::Kafka)?;
        let sasl = list(&nodes, |node| format!("127.0.0.1:{}", node.sasl_port));
        Ok(vec![variable(Engine::Kafka, list(&nodes, address)), ("DUNLIN_TEST_KAFKA_SASL".to_owned(), sasl)])
    }
}

impl Kafka {
    fn command(&self, start: &Start, node: &Node) -> Result<Command> {
        let mut command = Command::new(&self.java);
        command.args(["-Xms256m", "-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:+PerfDisableSharedMem", "-XX:+ExitOnOutOfMemoryError"]);
        if start.options.jit == Jit::Quick {
            command.arg("-XX:TieredStopAtLevel=1");
        }
        command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn").arg(format!("-Djava.io.tmpdir={}", node.folder.display()));
        command.arg("-cp").arg(std::env::join_paths(&self.jars).context("a path of the jars holds a colon")?);
        command.current_dir(&node.folder);
        Ok(command)
    }
}

fn config(node: &Node, all: &[Node]) -> String {
    let voters = list(all, |node| format!("{}@127.0.0.1:{}", node.number, node.controller_port));
    let values = [
        ("node", node.number.to_string()),
        ("voters", voters),
        ("port", node.port.to_string()),
        ("sasl_port", node.sasl_port.to_string()),
        ("controller_port", node.controller_port.to_string()),
        ("folder", node.folder.display().to_string()),
        ("replicas", all.len().to_string()),
        ("in_sync", all.len().div_ceil(2).to_string()),
    ];
    fill(CONFIG, &values.each_ref().map(|(name, value)| (*name, value.as_str())))
}

fn address(node: &Node) -> String {
    format!("127.0.0.1:{}", node.port)
}

/// It answers, and knows all brokers and a controller.
pub fn probe(process: &Process, nodes: u32) -> Result<()> {
    let mut stream = wait::connect(&process.address)?;
    let versions = exchange(&mut stream, API_VERSIONS, 0, &[])?;
    let error = Fields(&versions).i16()?;
    ensure!(error == 0, "the first request is answered with error {error}");
    // No topics, and none to be made.
    let (brokers, controller) = read_metadata(&exchange(&mut stream, METADATA, 7, &[0, 0, 0, 0, 0])?)?;
    ensure!(i64::from(brokers) == i64::from(nodes), "it knows {brokers} brokers");
    ensure!(controller >= 0, "it knows no controller");
    Ok(())
}

/// Which node is the active controller. (Metadata would not tell: there brokers name any of them.)
pub fn controller(process: &Process) -> Result<u32> {
    let mut stream = wait::connect(&process.address)?;
    read_quorum(&exchange(&mut stream, DESCRIBE_QUORUM, 0, OF_METADATA)?)?.try_into().context("there is no controller")
}

const API_VERSIONS: i16 = 18;
const DESCRIBE_QUORUM: i16 = 55;
/// No tags; one topic, of this name; one partition, the first; no tags, three times.
const OF_METADATA: &[u8] = b"\0\x02\x13__cluster_metadata\x02\0\0\0\0\0\0\0";

const METADATA: i16 = 3;
/// Comes back with the answer; each connection has but one request under way.
const CORRELATION: i32 = 1;

/// How many brokers there are, and which one is the controller, from an answer of version 7.
fn read_metadata(answer: &[u8]) -> Result<(i32, i32)> {
    let mut fields = Fields(answer);
    let _throttle_ms = fields.i32()?;
    let brokers = fields.i32()?;
    for _ in 0..brokers {
        let _node = fields.i32()?;
        skip_text(&mut fields)?;
        let _port = fields.i32()?;
        skip_text(&mut fields)?;
    }
    skip_text(&mut fields)?;
    Ok((brokers, fields.i32()?))
}

/// The leader of the only partition, from an answer of version 0.
fn read_quorum(answer: &[u8]) -> Result<i32> {
    let mut fields = Fields(answer);
    let _no_tags = fields.bytes(1)?;
    let error = fields.i16()?;
    ensure!(error == 0, "the question for the controller is answered with error {error}");
    let _one_topic = fields.bytes(1)?;
    let name_length = fields.bytes(1)?[0];
    fields.bytes(usize::from(name_length.saturating_sub(1)))?;
    let _one_partition = fields.bytes(1)?;
    let _partition = fields.i32()?;
    let error = fields.i16()?;
    ensure!(error == 0, "the question for the controller is answered with error {error}");
    fields.i32()
}

/// -1 stands for no text.
fn skip_text(fields: &mut Fields) -> Result<()> {
    let length = fields.i16()?;
    fields.bytes(usize::try_from(length).unwrap_or(0)).map(drop)
}

fn exchange(stream: &mut TcpStream, api: i16, version: i16, body: &[u8]) -> Result<Vec<u8>> {
    let no_client_id = (-1i16).to_be_bytes();
    let request = [&api.to_be_bytes(), &version.to_be_bytes(), CORRELATION.to_be_bytes().as_slice(), &no_client_id, body].concat();
    wait::send(stream, &[u32::try_from(request.len())?.to_be_bytes().as_slice(), &request].concat())?;
    let length = usize::try_from(Fields(&wait::receive(stream, 4)?).i32()?).context("an answer has no length")?;
    let mut answer = wait::receive(stream, length)?;
    ensure!(Fields(&answer).i32()? == CORRELATION, "an answer belongs to another request");
    Ok(answer.split_off(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u32) -> Node {
        Node { number, port: 1, sasl_port: 3, controller_port: 2, folder: "/f".into() }
    }

    #[test]
    fn acknowledged_is_what_a_majority_has() {
        let one = config(&node(1), &[node(1)]);
        assert!(one.contains("\nmin.insync.replicas=1\n") && one.contains("\ndefault.replication.factor=1\n"), "{one}");
        let three = config(&node(2), &[node(1), node(2), node(3)]);
        assert!(three.contains("\nmin.insync.replicas=2\n") && three.contains("\ndefault.replication.factor=3\n"), "{three}");
        assert!(three.contains("=1@127.0.0.1:2,2@127.0.0.1:2,3@127.0.0.1:2\n"), "{three}");
        assert!(!three.contains("{{"), "{three}");
    }

    #[test]
    fn the_active_controller_is_read_from_the_quorum() {
        let answer = b"\0\0\0\x02\x03ab\x02\0\0\0\0\0\0\0\0\0\x03\0\0\0\x09".as_slice();
        assert_eq!(read_quorum(answer).unwrap(), 3);
        assert!(read_quorum(b"\0\0\x29").unwrap_err().to_string().contains("41"));
        assert!(read_quorum(&answer[..12]).is_err());
    }

    #[test]
    fn brokers_and_the_controller_are_read_from_metadata() {
        let broker = b"\0\0\0\x01\0\x01a\0\0\0\x09\xff\xff".as_slice();
        let answer = [b"\0\0\0\0\0\0\0\x02".as_slice(), broker, broker, b"\0\x02id\0\0\0\x07\0\0\0\0"].concat();
        assert_eq!(read_metadata(&answer).unwrap(), (2, 7));
        assert!(read_metadata(&answer[..20]).is_err());
    }
}
