//! Waiting for engines to answer, and the little of their protocols' plumbing that probes share.

use std::{
    io::{Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, Result, ensure};

use super::process::Process;

/// How long one probe may wait for one answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(100);
/// No probe asks for anything that has a longer answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Waits until `probe` is content with every process once. Ends early if one of them ends, or if `go_on` says so, which is
/// asked at every turn.
pub fn until(
    processes: &[Process],
    limit: Duration,
    mut go_on: impl FnMut() -> bool,
    probe: impl Fn(&Process) -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    let mut silent: Vec<&Process> = processes.iter().collect();
    loop {
        if let Some(process) = processes.iter().find(|process| !process.identity.is_running()) {
            return Err(process.last_words().context(format!("{} has ended", process.title())));
        }
        let mut reason: Option<(&Process, Error)> = None;
        silent.retain(|process| match probe(process) {
            Ok(()) => false,
            Err(error) => {
                reason.get_or_insert((process, error));
                true
            }
        });
        let Some((process, error)) = reason else { return Ok(()) };
        if start.elapsed() > limit {
            let what = format!("{} is not ready after {} s: {error:#}", process.title(), limit.as_secs());
            return Err(process.last_words().context(what));
        }
        ensure!(go_on(), "no longer waited for");
        thread::sleep(POLL);
    }
}

/// One probe, now, of one among all that run.
pub fn probe(process: &Process, all: &[Process]) -> Result<()> {
    let nodes = all.iter().filter(|other| other.engine == process.engine).count();
    process.engine.probe(process, nodes.try_into().context("too many nodes")?)
}

pub fn connect(address: &str) -> Result<TcpStream> {
    let resolved = address.to_socket_addrs().with_context(|| format!("failed to resolve {address}"))?.next();
    let resolved = resolved.with_context(|| format!("{address} resolves to nothing"))?;
    let stream = TcpStream::connect_timeout(&resolved, ANSWER_LIMIT).with_context(|| format!("failed to connect to {address}"))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    Ok(stream)
}

pub fn send(stream: &mut TcpStream, bytes: &[u8]) -> Result<()> {
    stream.write_all(bytes).context("failed to send a request")
}

pub fn receive(stream: &mut TcpStream, length: usize) -> Result<Vec<u8>> {
    ensure!(length <= ANSWER_BYTES_MAX, "an answer of {length} bytes is none");
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).context("failed to receive an answer")?;
    Ok(bytes)
}

/// Reads big-endian fields off the front of an answer.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(length).context("an answer ends too early")?;
        self.0 = rest;
        Ok(field)
    }

    pub fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.bytes(2)?.try_into()?))
    }

    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.bytes(4)?.try_into()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order_and_not_beyond_the_end() {
        let mut fields = Fields(&[0, 1, 0, 0, 1, 0, 7]);
        assert_eq!(fields.i16().unwrap(), 1);
        assert_eq!(fields.i32().unwrap(), 256);
        assert!(fields.i16().is_err());
        assert_eq!(fields.bytes(1).unwrap(), [7]);
    }
}
