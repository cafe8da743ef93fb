//! Three nodes, and the people who talk through them.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use dunlin_client::{Client, protocol::TokenBody};
use tempfile::TempDir;

use crate::{node::Node, profile::Place};

const NODES: usize = 3;
/// Of every second pair both write, of the others only one, and the other one reads.
pub const PAIRS: usize = 16;
/// How long a caller waits for an answer before it takes the outcome for unknown.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const LEAVE_LIMIT: Duration = Duration::from_secs(60);
/// It reads message by message.
const CHECK_LIMIT_S: &str = "600";

pub struct Site {
    pub nodes: Vec<Node>,
    pub pairs: Vec<[Person; 2]>,
    /// Who has nothing to do with the load.
    pub outsider: Person,
    /// The back end, at each node.
    pub hosts: Vec<Client>,
    place: Place,
    data: TempDir,
    logs: PathBuf,
}

/// Someone who calls whichever node answers.
#[derive(Clone)]
pub struct Person {
    pub name: String,
    pub token: String,
    /// One for each node.
    pub clients: Vec<Client>,
}

impl Site {
    /// `logs` is where what the nodes log goes.
    pub async fn start(logs: &Path) -> Site {
        let place = tokio::task::spawn_blocking(Place::of_cluster).await.unwrap();
        let data = tempfile::tempdir().unwrap();
        fs::create_dir_all(logs).unwrap();
        let nodes: Vec<_> = (0..NODES).map(|number| launch("127.0.0.1:0", number, &place, data.path(), logs)).collect();
        let key = nodes[0].key.clone().expect("the first start makes a key");
        let hosts: Vec<_> = nodes.iter().map(|node| client(node, &key)).collect();
        let mut pairs = Vec::new();
        for pair in 0..PAIRS {
            pairs.push([person(&hosts[0], &nodes, format!("ann-{pair}")).await, person(&hosts[0], &nodes, format!("bea-{pair}")).await]);
        }
        let outsider = person(&hosts[0], &nodes, "zoe".to_owned()).await;
        Site { nodes, pairs, outsider, hosts, place, data, logs: logs.to_owned() }
    }

    /// In place of one that was killed, at the same address.
    pub fn start_again(&mut self, number: usize) {
        let address = self.nodes[number].url.trim_start_matches("http://").to_owned();
        self.nodes[number] = launch(&address, number, &self.place, self.data.path(), &self.logs);
    }

    /// All nodes leave in good order, then `dunlin check` reads everything. What it says, if that is not that all is well.
    pub fn leave_and_check(&mut self) -> Result<(), String> {
        self.nodes.iter().for_each(|node| node.signal("-TERM"));
        let until = Instant::now() + LEAVE_LIMIT;
        for node in &mut self.nodes {
            let ended = loop {
                match node.process.try_wait().unwrap() {
                    Some(ended) => break ended,
                    None if Instant::now() > until => return Err("a node does not leave".to_owned()),
                    None => std::thread::sleep(Duration::from_millis(100)),
                }
            };
            if !ended.success() {
                return Err(format!("a node ended with {ended}"));
            }
        }
        let mut check = Command::new("timeout");
        check.args([CHECK_LIMIT_S, env!("CARGO_BIN_EXE_dunlin"), "check", "--data"]).arg(self.data.path());
        let checked = check.envs(self.place.environment.iter().cloned()).output().unwrap();
        let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
        println!("    dunlin check: {}", said.lines().next().unwrap_or_default());
        if checked.status.success() { Ok(()) } else { Err(said) }
    }
}

fn launch(address: &str, number: usize, place: &Place, data: &Path, logs: &Path) -> Node {
    let log = File::options().create(true).append(true).open(logs.join(format!("node-{number}.log"))).unwrap();
    Node::start_at(address, place, data, "warn", Stdio::from(log))
}

fn client(node: &Node, credentials: &str) -> Client {
    Client::new(node.url.parse().unwrap(), credentials).with_timeout(ANSWER_LIMIT)
}

async fn person(host: &Client, nodes: &[Node], name: String) -> Person {
    host.put_user(&name, &Default::default()).await.unwrap();
    let token = host.mint_token(&name, &TokenBody::default()).await.unwrap().token;
    Person { clients: nodes.iter().map(|node| client(node, &token)).collect(), name, token }
}
