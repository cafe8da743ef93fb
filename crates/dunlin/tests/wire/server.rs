//! A `dunlin serve` for tests: one that they share, or one of a test's own.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, Weak},
};

use dunlin_client::Client;
use tempfile::TempDir;

use crate::profile::Place;

pub struct Server {
    process: Child,
    dir: TempDir,
    place: Option<Place>,
    pub url: String,
    /// The key that the first start made.
    pub key: String,
}

impl Server {
    /// For tests whose users are their own: making the tables of a cluster lasts longer than all of them. It ends with the last test that holds it.
    pub fn shared() -> Arc<Server> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        // Whoever panicked there has left no half of it.
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Server::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    pub fn start() -> Server {
        Server::with(&[], &[])
    }

    pub fn with(arguments: &[&str], environment: &[(&str, &str)]) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(dir.path().join("data")).args(arguments);
        let place = Place::make();
        command.envs(place.iter().flat_map(|place| place.environment.iter().cloned()));
        command.envs(environment.iter().copied()).env("DUNLIN_LOG", "warn");
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let (mut url, mut key) = (None, None);
        for line in BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap) {
            if let Some((_, found)) = line.split_once(" on http://") {
                url = Some(format!("http://{found}"));
            }
            key = key.or(line.trim().strip_prefix("dk_").map(|rest| format!("dk_{rest}")));
            // The last line that it says.
            if line.contains("/v1/conversations") {
                break;
            }
        }
        Server { process, dir, place, url: url.expect("the server says where it is"), key: key.expect("the first start makes a key") }
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// With a token or a key.
    pub fn client(&self, credentials: &str) -> Client {
        Client::new(self.url.parse().unwrap(), credentials)
    }

    /// The back end.
    pub fn host(&self) -> Client {
        self.client(&self.key)
    }

    /// Another command on the same folder.
    pub fn run(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
        command.envs(self.place.iter().flat_map(|place| place.environment.iter().cloned())).env("DUNLIN_LOG", "warn");
        command.args(arguments).arg("--data").arg(self.data()).output().unwrap()
    }

    /// The header with a token that the command line made.
    pub fn authorization(&self, user: &str) -> String {
        format!("Authorization: Bearer {}", String::from_utf8(self.run(&["token", user]).stdout).unwrap().trim())
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.process.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
