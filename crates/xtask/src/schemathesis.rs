//! `cargo xtask schemathesis`: a server is called with what its own document makes up, right and wrong.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{
    needs::{self, Need},
    workspace::cargo,
};

const VERSION: &str = "4.32.5";
/// What a document can't say: which ids exist, that two fields exclude each other, that a cursor is one of ours. So right requests by its letter may be refused.
const EXCLUDED_CHECKS: &str = "positive_data_acceptance";

/// A body that is too large is refused as such, whatever else is wrong with it.
const CONFIGURATION: &str = "[checks.negative_data_rejection]\nexpected-statuses = [400, 401, 403, 404, 405, 409, 413, 415, 422]\n";

pub fn run(root: &Path, examples: u32) -> Result<()> {
    needs::check(root, &[Need::Toolchain, Need::CCompiler, Need::Python])?;
    let place = root.join("target/schemathesis");
    let program = place.join("bin/st");
    if !installed(&program) {
        eprintln!("==> installing schemathesis {VERSION} into {}", place.display());
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
        succeed(Command::new(place.join("bin/pip")).args(["install", "--quiet", &format!("schemathesis=={VERSION}")]))?;
    }
    eprintln!("==> building");
    succeed(cargo().args(["build", "--locked", "-p", "dunlin"]).current_dir(root))?;

    let data = place.join("data");
    if data.exists() {
        std::fs::remove_dir_all(&data).context("failed to remove the folder of the last run")?;
    }
    std::fs::write(place.join("schemathesis.toml"), CONFIGURATION).context("failed to write schemathesis.toml")?;
    let mut server = Server::start(&root.join("target/debug/dunlin"), &data)?;
    eprintln!("==> schemathesis on {}", server.url);
    let mut command = Command::new(program);
    command.args(["run", &format!("{}/openapi.json", server.url), "--checks", "all", "--exclude-checks", EXCLUDED_CHECKS]);
    command.args(["--max-examples", &examples.to_string(), "--suppress-health-check", "all"]);
    // A server key that acts for someone reaches every operation.
    command.args(["-H", &format!("Authorization: Bearer {}", server.key), "-H", "Dunlin-User: alice"]);
    let outcome = succeed(command.current_dir(&place));
    ensure!(server.process.try_wait()?.is_none(), "the server has ended");
    outcome
}

fn installed(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(VERSION))
}

fn succeed(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("failed to start {name}"))?;
    ensure!(status.success(), "{name} ended with {status}");
    Ok(())
}

struct Server {
    process: Child,
    url: String,
    key: String,
}

impl Server {
    fn start(program: &Path, data: &Path) -> Result<Server> {
        let mut command = Command::new(program);
        command.args(["serve", "--dev", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        command.envs([("DUNLIN_LIMITS_USER_PER_S", "0"), ("DUNLIN_LIMITS_KEY_PER_S", "0"), ("DUNLIN_LOG", "error")]);
        let mut process = command.stdout(Stdio::piped()).spawn().context("failed to start the server")?;
        let (mut url, mut key) = (None, None);
        for line in BufReader::new(process.stdout.take().context("the server has an output")?).lines() {
            let line = line.context("the server has ended")?;
            url = url.or(line.split_once(" on http://").map(|(_, address)| format!("http://{address}")));
            key = key.or(line.trim().starts_with("dk_").then(|| line.trim().to_owned()));
            if url.is_some() && key.is_some() {
                break;
            }
        }
        Ok(Server { process, url: url.context("the server did not start")?, key: key.context("the server made no key")? })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
