//! A `dunlin serve` of a cluster, for tests that start several or start it again.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::profile::Place;

#[allow(dead_code, reason = "each test uses some of it")]
pub struct Node {
    pub process: Child,
    pub url: String,
    /// Shown at the first start only.
    pub key: Option<String>,
}

impl Node {
    #[allow(dead_code, reason = "each test uses some of it")]
    pub fn start(place: &Place, data: &Path) -> Node {
        Node::start_at("127.0.0.1:0", place, data, "error", Stdio::inherit())
    }

    /// What it logs, from a level on, goes to `log`.
    pub fn start_at(address: &str, place: &Place, data: &Path, level: &str, log: Stdio) -> Node {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
        command.args(["serve", "--listen", address, "--data"]).arg(data).envs(place.environment.iter().cloned());
        command.env("DUNLIN_LOG", level).env("DUNLIN_LIMITS_USER_PER_S", "0");
        let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let (mut url, mut key) = (None, None);
        for line in BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap) {
            url = url.or(line.split_once(" on http://").map(|(_, address)| format!("http://{address}")));
            key = key.or(line.trim().starts_with("dk_").then(|| line.trim().to_owned()));
            if line.contains("/v1/conversations") {
                break;
            }
        }
        Node { process, url: url.expect("it says where it is"), key }
    }

    #[allow(dead_code, reason = "each test uses some of it")]
    pub fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
