//! The server over HTTP: senders and readers on connections of their own, and the checker. What they call may be anywhere; what it costs is known where it runs here.

mod bare;
mod check;
mod cpu;
mod lanes;
mod plot;
mod report;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use dunlin_client::{Client, protocol::TokenBody};
use dunlin_model::UserId;

pub use bare::{one_connection, serve_bare};
pub use check::{Verdict, check};
pub use cpu::{Cpu, listener};
pub use lanes::{Connection, What};
pub use plot::svg;
pub use report::{Engine, HttpReport, Read, Run, table};

use crate::{Ledger, Paced, People, Progress, closed, paced};

/// How many users are made at a time.
const MAKERS: usize = 16;

/// A server, and everyone who calls it.
pub struct Site {
    /// With a server key.
    pub host: Client,
    pub people: Arc<People>,
    tokens: std::collections::HashMap<UserId, String>,
    /// The server's process, if it runs here.
    pub process: Option<u32>,
}

impl Site {
    /// Makes everyone, and a token for each.
    pub async fn prepare(host: Client, people: Arc<People>, process: Option<u32>, progress: &Progress) -> Result<Arc<Site>> {
        let everyone: Vec<UserId> = people.everyone().cloned().collect();
        let mut tasks = Vec::new();
        for share in everyone.chunks(everyone.len().div_ceil(MAKERS).max(1)).map(<[UserId]>::to_vec) {
            let host = host.clone();
            tasks.push(tokio::spawn(async move {
                let mut tokens = Vec::with_capacity(share.len());
                for user in share {
                    let token = host.mint_token(user.as_str(), &TokenBody { ttl_s: Some(24 * 60 * 60) }).await?;
                    tokens.push((user, token.token));
                }
                Ok::<_, dunlin_client::Error>(tokens)
            }));
        }
        let mut tokens = std::collections::HashMap::new();
        for task in tasks {
            tokens.extend(task.await?.context("failed to make the users")?);
            progress.say(&format!("{} users", tokens.len()));
        }
        Ok(Arc::new(Site { host, people, tokens, process }))
    }

    fn token(&self, user: &UserId) -> &str {
        self.tokens.get(user).map_or("", |token| token)
    }

    /// Opens every conversation with its first message.
    pub async fn open(self: &Arc<Site>, ledger: &mut Ledger) -> Result<()> {
        const OPENERS: usize = 64;
        let mut shares = vec![Vec::new(); OPENERS];
        self.people.openings().into_iter().enumerate().for_each(|(number, pair)| shares[number % OPENERS].push(pair));
        let measured = Arc::new(lanes::Measured::default());
        let lanes = shares.into_iter().map(|pairs| Connection::new(self, ledger.lane(), &measured, Some(pairs))).collect();
        let driven = closed(lanes, None).await?;
        let failed: usize = driven.lanes.iter().map(|lane| lane.record.refused.len() + lane.record.unknown.len()).sum();
        driven.lanes.into_iter().for_each(|lane| ledger.keep(lane.record));
        ensure!(failed == 0, "{failed} first messages were not accepted");
        Ok(())
    }

    /// Each connection goes on as soon as it has its answer.
    pub async fn closed(self: &Arc<Site>, ledger: &mut Ledger, connections: usize, lasting: Duration) -> Result<Run> {
        let measured = Arc::new(lanes::Measured::default());
        let lanes = (0..connections).map(|_| Connection::new(self, ledger.lane(), &measured, None)).collect();
        let costs = self.costs();
        let driven = closed(lanes, Some(lasting)).await?;
        Ok(self.run(ledger, driven.lanes, driven.elapsed, &measured, costs, None))
    }

    /// Sends come due at even distances.
    pub async fn paced(self: &Arc<Site>, ledger: &mut Ledger, connections: usize, per_s: u32, lasting: Duration) -> Result<Run> {
        let measured = Arc::new(lanes::Measured::default());
        let lanes = (0..connections).map(|_| Connection::new(self, ledger.lane(), &measured, None)).collect();
        let costs = self.costs();
        let Paced { lanes, elapsed, late, undone } = paced(lanes, per_s, lasting).await?;
        Ok(self.run(ledger, lanes, elapsed, &measured, costs, Some((per_s, late, undone))))
    }

    fn run(
        &self,
        ledger: &mut Ledger,
        lanes: Vec<Connection>,
        elapsed: Duration,
        measured: &lanes::Measured,
        (server, generator): (Cpu, Cpu),
        pace: Option<(u32, crate::Summary, u64)>,
    ) -> Run {
        let (server, generator) = (server.since(self.process), generator.since(Some(std::process::id())));
        let connections = lanes.len();
        let (mut accepted, mut pending, mut failed) = (0, 0, 0);
        for lane in lanes {
            accepted += lane.record.acked();
            pending += lane.pending;
            failed += (lane.record.refused.len() + lane.record.unknown.len()) as u64;
            ledger.keep(lane.record);
        }
        let per_send = |cpu: Duration| cpu.as_secs_f64() * 1e6 / accepted.max(1) as f64;
        Run {
            connections,
            wanted_per_s: pace.map(|(per_s, ..)| per_s),
            per_s: accepted as f64 / elapsed.as_secs_f64(),
            pending,
            failed: failed + pace.map_or(0, |(.., undone)| undone),
            ack: measured.ack.summary(),
            visible: measured.visible.summary(),
            late: pace.map(|(_, late, _)| late),
            server_cpu_us: per_send(server),
            generator_cpu_us: per_send(generator),
        }
    }

    fn costs(&self) -> (Cpu, Cpu) {
        (Cpu::of(self.process), Cpu::of(Some(std::process::id())))
    }

    /// Reads at a fixed rate.
    pub async fn reads(self: &Arc<Site>, what: What, while_per_s: u32, lasting: Duration) -> Result<Read> {
        lanes::reads(self, what, while_per_s, lasting).await
    }

    /// What the server holds in memory, in MB; none if it runs elsewhere.
    pub fn memory(&self, phase: &str, begun: Instant) -> Option<crate::Memory> {
        self.process.map(|process| crate::Memory::of(&process.to_string(), phase, begun))
    }
}
