//! Commands, and servers that start and stop.

use std::process::Command;

use crate::{people::code, repeating::curl, server::Server};

fn dunlin(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_dunlin")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn developers_mode_has_people_who_talk_and_tokens_for_anyone() {
    let server = Server::with(&["--dev"], &[]);
    let ask = |user: &str, host: &str| {
        let body = format!("{{\"user\": \"{user}\"}}");
        curl(&server, "/dev/token", &["-H", "Content-Type: application/json", "-H", host, "-d", &body])
    };
    let (status, _, answer) = ask("alice", "X-Y: z");
    assert_eq!(status, 200, "{answer}");
    let token = serde_json::from_str::<serde_json::Value>(&answer).unwrap()["token"].as_str().unwrap().to_owned();
    let alice = server.client(&token);
    let inbox = alice.inbox().get().await.unwrap().data;
    assert!(inbox.len() >= 5 && alice.unread().await.unwrap().messages > 5, "{}", inbox.len());
    let longest = alice.history(&inbox.iter().find(|one| one.other.as_deref() == Some("bob")).unwrap().id).limit(200).get().await.unwrap();
    assert!(longest.data.len() > 50 && longest.data.iter().any(|message| !message.reactions.is_empty()));
    let (status, _, _) = ask("someone.new", "X-Y: z");
    assert_eq!(status, 200);
    alice.send("someone.new", "1", "hello").await.unwrap();
    assert_eq!(ask("alice", "Host: evil.example").0, 403, "a page that has its name point here gets nothing");
    assert_eq!(ask("no one", "X-Y: z").0, 422);
}

#[test]
fn developers_mode_listens_on_loopback_only_and_is_off_by_default() {
    let dir = tempfile::tempdir().unwrap();
    let (ok, _, why) = dunlin(&["serve", "--dev", "--listen", "0.0.0.0:0", "--data", dir.path().join("d").to_str().unwrap()]);
    assert!(!ok && why.contains("loopback only"), "{why}");
    assert!(!dir.path().join("d").exists(), "nothing was written");
    let server = Server::shared();
    assert_eq!(curl(&server, "/dev/token", &["-H", "Content-Type: application/json", "-d", "{\"user\": \"alice\"}"]).0, 404);
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_stop_and_the_key_is_made_once() {
    let mut server = Server::start();
    let (ann, bea) = server.two().await;
    ann.sends(&bea, "hello").await;
    assert!(Command::new("kill").arg(server.id().to_string()).status().unwrap().success());
    assert!(server.wait().success(), "SIGTERM is a clean end");
    let checked = server.run(&["check"]);
    assert!(checked.status.success(), "{checked:?}");
    let key = server.run(&["key", "list"]);
    assert_eq!(String::from_utf8(key.stdout).unwrap().lines().count(), 2, "a heading and one key");
}

#[test]
fn a_wrong_configuration_is_told_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("dunlin.toml"));
    std::fs::write(&file, "[server]\nlisten = \"127.0.0.1:0\"\nbody_byte_max = 5\n").unwrap();
    let (data, file) = (data.to_str().unwrap(), file.to_str().unwrap());
    for arguments in
        [&["serve", "--config", file, "--data", data][..], &["config", "check", "--config", file], &["token", "ann", "--config", file]]
    {
        let (ok, _, why) = dunlin(arguments);
        assert!(!ok && why.contains("there is no key server.body_byte_max; did you mean body_bytes_max?"), "{why}");
    }
    assert!(!dir.path().join("data").exists());
    let (ok, printed, _) = dunlin(&["config", "print"]);
    assert!(ok && printed == dunlin::config::DEFAULT);
    std::fs::write(dir.path().join("dunlin.toml"), "[limits]\nuser_per_s = 7\n").unwrap();
    let (_, printed, _) = dunlin(&["config", "print", "--config", file]);
    assert!(printed.contains("user_per_s = 7") && printed.contains("user_burst = 200"), "{printed}");
    assert!(dunlin(&["config", "check", "--config", file]).0);
}

#[test]
fn passwords_are_read_from_files_and_never_printed() {
    let dir = tempfile::tempdir().unwrap();
    let (secret, file) = (dir.path().join("secret"), dir.path().join("dunlin.toml"));
    std::fs::write(&secret, "hunter2").unwrap();
    let sections = ["kafka", "cassandra", "redis"].map(|section| format!("[{section}]\nuser = \"ann\"\npassword_file = {secret:?}\n"));
    std::fs::write(&file, format!("{}[engines]\nbus = \"redis\"\n", sections.concat())).unwrap();
    let (ok, printed, _) = dunlin(&["config", "print", "--config", file.to_str().unwrap()]);
    assert!(ok && printed.matches(secret.to_str().unwrap()).count() == 3 && !printed.contains("hunter2"), "{printed}");
    std::fs::write(&file, "[redis]\nnodes = [\"redis://ann:hunter2@127.0.0.1:1\"]").unwrap();
    for command in ["print", "check"] {
        let (ok, printed, why) = dunlin(&["config", command, "--config", file.to_str().unwrap()]);
        assert!(!ok && why.contains("redis.password_file") && !(printed + &why).contains("hunter2"), "{why}");
    }
}

#[tokio::test]
async fn tokens_of_the_command_line_last_as_long_as_was_said() {
    let server = Server::shared();
    let token = |arguments: &[&str]| String::from_utf8(server.run(&[&["token"], arguments].concat()).stdout).unwrap().trim().to_owned();
    assert!(server.client(&token(&["ann", "--ttl", "15m"])).me().await.is_ok());
    for wrong in [&["ann", "--ttl", "1w"][..], &["ann", "--ttl", "0"], &["not a user"]] {
        assert!(!server.run(&[&["token"], wrong].concat()).status.success(), "{wrong:?}");
    }
    let (ok, _, why) = dunlin(&["token", "ann", "--data", "/nowhere"]);
    assert!(!ok && why.contains("`dunlin serve` makes one"), "{why}");
    assert_eq!(code(server.client("").me().await), "unauthenticated");
}
