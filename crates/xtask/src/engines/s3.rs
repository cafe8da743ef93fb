//! An S3 server: versitygw, compiled from Go's module proxy, which checks what it downloads against Go's checksum database.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{
    Engine, Process, Progress, lock,
    ports::Ports,
    programs::{self, on_path},
    start::{Env, Program, Start, variable},
    wait,
};

const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw";
const VERSION: &str = "v1.8.0";
/// For a server on the loopback that is gone after the tests.
const ACCESS_KEY: &str = "test";
const SECRET_KEY: &str = "testtest";
const BUCKET: &str = "dunlin-test";

pub struct S3 {
    program: PathBuf,
}

pub fn install(cache: &Path, progress: &Progress) -> Result<S3> {
    let folder = cache.join(format!("versitygw-{VERSION}"));
    let program = folder.join("versitygw");
    fs::create_dir_all(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
    let _lock = lock(&folder.join("lock"))?;
    if !program.is_file() {
        let go =
            on_path("go").context("Go is missing, which compiles the S3 server: https://go.dev/dl (Debian 12 has one that is too old)")?;
        progress.say(&format!("s3: compiling versitygw {VERSION} into {}; this takes some minutes, once", folder.display()));
        // Compiled beside and renamed: a program that is there is whole.
        let beside = folder.join("new");
        // Without inlining it compiles in two thirds of the time, and nobody measures it.
        let args = ["install", "-gcflags=all=-l", &format!("{MODULE}@{VERSION}")];
        programs::succeed(Command::new(go).args(args).env("GOBIN", &beside))?;
        fs::rename(beside.join("versitygw"), &program).context("failed to rename versitygw")?;
        let _ = fs::remove_dir(beside);
    }
    Ok(S3 { program })
}

impl Program for S3 {
    fn start(&self, start: &Start) -> Result<Env> {
        let folder = start.node_folder(Engine::S3, 1)?;
        let data = folder.join("data");
        // Its buckets are folders.
        let bucket = data.join(BUCKET);
        fs::create_dir_all(&bucket).with_context(|| format!("failed to make {}", bucket.display()))?;
        let address = format!("127.0.0.1:{}", start.port(Ports::take)?);
        let mut command = Command::new(&self.program);
        command.args(["--port", &address, "posix"]).arg(&data);
        command.env("ROOT_ACCESS_KEY", ACCESS_KEY).env("ROOT_SECRET_KEY", SECRET_KEY);
        start.launch(Engine::S3, 1, address.clone(), &folder, &mut command)?;
        start.wait(Engine::S3)?;
        Ok(vec![
            variable(Engine::S3, format!("http://{address}")),
            ("DUNLIN_TEST_S3_ACCESS_KEY".to_owned(), ACCESS_KEY.to_owned()),
            ("DUNLIN_TEST_S3_SECRET_KEY".to_owned(), SECRET_KEY.to_owned()),
            ("DUNLIN_TEST_S3_BUCKET".to_owned(), BUCKET.to_owned()),
        ])
    }
}

/// Any answer in HTTP will do: without a signature it is a refusal.
pub fn probe(process: &Process) -> Result<()> {
    let mut stream = wait::connect(&process.address)?;
    wait::send(&mut stream, format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", process.address).as_bytes())?;
    let answer = wait::receive(&mut stream, 8)?;
    ensure!(answer == *b"HTTP/1.1", "the answer is not HTTP");
    Ok(())
}
