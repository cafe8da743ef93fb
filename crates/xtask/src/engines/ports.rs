//! Free ports on the loopback.

use std::net::TcpListener;

use anyhow::{Result, bail};

/// Below what Linux hands out to outgoing connections (32768 on), also for Redis, which takes a second port 10000 above.
const FIRST: u16 = 10_000;
const LAST: u16 = 21_999;
const REDIS_BUS: u16 = 10_000;

/// Hands out each port once. They are not held: another program may be quicker, but begins elsewhere in the range.
pub struct Ports {
    next: u16,
    left: u16,
}

impl Ports {
    pub fn new() -> Ports {
        let start = u16::try_from(std::process::id() * 37 % u32::from(LAST - FIRST)).unwrap_or_default();
        Ports { next: FIRST + start, left: LAST - FIRST }
    }

    pub fn take(&mut self) -> Result<u16> {
        self.take_where(|port| is_free("127.0.0.1", port))
    }

    /// One port that is free at every one of these hosts.
    pub fn take_on(&mut self, hosts: &[String]) -> Result<u16> {
        self.take_where(|port| hosts.iter().all(|host| is_free(host, port)))
    }

    /// A port for Redis, whose bus is free too.
    pub fn take_for_redis(&mut self) -> Result<u16> {
        self.take_where(|port| is_free("127.0.0.1", port) && is_free("127.0.0.1", port + REDIS_BUS))
    }

    fn take_where(&mut self, is_good: impl Fn(u16) -> bool) -> Result<u16> {
        while self.left > 0 {
            let port = self.next;
            self.next = if port == LAST { FIRST } else { port + 1 };
            self.left -= 1;
            if is_good(port) {
                return Ok(port);
            }
        }
        bail!("no port from {FIRST} to {LAST} is free")
    }
}

fn is_free(host: &str, port: u16) -> bool {
    TcpListener::bind((host, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_handed_out_once() {
        let mut ports = Ports::new();
        let first = ports.take().unwrap();
        assert_ne!(first, ports.take_for_redis().unwrap());
    }

    /// The port is bound once and stays so: one that was let go may still be held, for a moment, by a process that another test begins.
    #[test]
    fn a_port_that_is_taken_is_not_handed_out() {
        let (taken, port) = (Ports::new().next..=LAST).find_map(|port| Some((TcpListener::bind(("127.0.0.1", port)).ok()?, port))).unwrap();
        let mut ports = Ports { next: port, left: 10 };
        assert_ne!(ports.take_on(&["127.0.0.1".to_owned(), "127.0.0.2".to_owned()]).unwrap(), port);
        drop(taken);
    }

    #[test]
    fn the_search_ends() {
        let mut ports = Ports { next: LAST, left: 3 };
        assert!(ports.take_where(|_| false).is_err());
    }
}
