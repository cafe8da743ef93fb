//! The server as a process.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

#[test]
fn a_request_that_never_ends_does_not_keep_the_server_from_stopping() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
    let command = command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(dir.path().join("data"));
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().trim();
    let mut request = TcpStream::connect(address).unwrap();
    request.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n").unwrap();
    thread::sleep(Duration::from_millis(200)); // The server has taken it.
    assert!(Command::new("kill").arg(server.id().to_string()).status().unwrap().success());
    let hung = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = server.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > hung {
            server.kill().unwrap();
            panic!("the server does not stop");
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
}
