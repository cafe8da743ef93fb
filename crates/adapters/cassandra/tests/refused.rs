//! A Cassandra that asks for a password: what it says to a wrong one is told as such. Something like Cassandra stands in for it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

use dunlin_cassandra::{ConnectError, Messages, Options};

const PASSWORD: &str = "s3cret-w0rd";

/// Frames of the native protocol: version, flags, stream, opcode, length, body.
const ERROR: u8 = 0x00;
const AUTHENTICATE: u8 = 0x03;
const SUPPORTED: u8 = 0x06;
const OPTIONS: u8 = 0x05;
const STARTUP: u8 = 0x01;
const BAD_CREDENTIALS: u32 = 0x0100;

fn cassandra() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || while answer(&stream).is_some() {});
        }
    });
    address
}

fn answer(mut stream: &TcpStream) -> Option<()> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let mut body = vec![0; u32::from_be_bytes(*head[5..].first_chunk()?) as usize];
    stream.read_exact(&mut body).ok()?;
    let text = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    let (opcode, body) = match head[4] {
        OPTIONS => (SUPPORTED, vec![0, 0]),
        STARTUP => (AUTHENTICATE, text("org.apache.cassandra.auth.PasswordAuthenticator")),
        _ => (ERROR, [BAD_CREDENTIALS.to_be_bytes().to_vec(), text("Provided username ann and/or password are incorrect")].concat()),
    };
    let frame = [&[0x84, 0, head[2], head[3], opcode][..], &(body.len() as u32).to_be_bytes(), &body].concat();
    stream.write_all(&frame).ok()
}

async fn refusal(user: &str) -> String {
    let options = Options { nodes: vec![cassandra()], user: user.into(), password: PASSWORD.into(), ..Options::default() };
    let error = Messages::open(options).await.err().expect("a refusal");
    assert!(matches!(error, ConnectError::NotLetIn { .. }), "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_wrong_password_is_told_without_it() {
    let told = refusal("ann").await;
    assert!(told.contains("does not let us in: Provided username ann and/or password are incorrect"), "{told}");
    assert!(told.contains("cassandra.password_file") && !told.contains(PASSWORD), "{told}");
}

#[tokio::test]
async fn a_password_that_was_not_given_is_asked_for() {
    let told = refusal("").await;
    assert!(told.contains("does not let us in: it asks for a user and a password"), "{told}");
}
