//! The least that a durable server can do, to know how much of one connection's time is not ours: it reads a request, writes and syncs as much
//! as a message takes, and answers. No runtime, no framework, no state; a thread for each connection, for clients may open one ahead.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::FileExt as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use dunlin_client::Client;

use crate::disk::{FILE_BYTES, WRITE_BYTES};

/// What a send is answered.
const BODY: &str = r#"{"outcome":"accepted","conversation":"daaaaaaaaaaaaaaaaaaaaaaaaaa","client_id":"1","token":"daaaaaaaaaaaaaaaaaaaaaaaaaa.2199023255562","seq":2199023255562,"n":1,"created_at":"2026-01-01T00:00:00.000Z"}"#;

/// Tells where it listens, and serves until it is ended.
pub fn serve_bare(dir: &Path, tell: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let path = dir.join("bare");
    std::fs::write(&path, vec![0; FILE_BYTES])?;
    let file = File::options().write(true).open(&path)?;
    file.sync_all()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    tell(listener.local_addr()?);
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let (stream, file) = (stream?, &file);
            // Whoever leaves in the middle of a request is not missed.
            scope.spawn(move || _ = answer_all(&stream, file));
        }
        Ok(())
    })
}

fn answer_all(stream: &TcpStream, file: &File) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut from, mut to) = (BufReader::new(stream), stream);
    let answer =
        format!("HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len()).into_bytes();
    let (record, mut count) = ([b'x'; WRITE_BYTES], 0);
    while let Some(body_bytes) = head(&mut from)? {
        io::copy(&mut from.by_ref().take(body_bytes), &mut io::sink())?;
        file.write_all_at(&record, (count * WRITE_BYTES % (FILE_BYTES - WRITE_BYTES)) as u64)?;
        file.sync_data()?;
        to.write_all(&answer)?;
        count += 1;
    }
    Ok(())
}

/// How long the body is; none at the end.
fn head(from: &mut impl io::BufRead) -> io::Result<Option<u64>> {
    let mut body_bytes = 0;
    for line in from.lines() {
        let line = line?.to_ascii_lowercase();
        if let Some(length) = line.strip_prefix("content-length:") {
            body_bytes = length.trim().parse().map_err(io::Error::other)?;
        }
        if line.is_empty() {
            return Ok(Some(body_bytes));
        }
    }
    Ok(None)
}

/// Sends a second on one connection, one after the other.
pub async fn one_connection(url: &str, lasting: Duration) -> Result<f64> {
    let client = Client::new(url.parse().context("the bare server has an address")?, "key");
    let sending = async move {
        let (start, mut count) = (Instant::now(), 0u32);
        while start.elapsed() < lasting {
            client.send("someone", &count.to_string(), "Is the bicycle still there?").await.context("the bare server did not answer")?;
            count += 1;
        }
        Ok(f64::from(count) / start.elapsed().as_secs_f64())
    };
    // A task, as senders to the real one are: the connection is one, too, and may share its thread.
    tokio::spawn(sending).await.context("sending ended")?
}
