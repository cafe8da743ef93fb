//! `dunlin unpark`

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use dunlin::{engine::Engine, life};
use dunlin_app::unpark;
use dunlin_embedded::RandomIds;
use dunlin_model::{Event, LogKey, RULES, Seq};
use dunlin_ports::{EventLog, MessageStore, Parked};

use super::{Configured, caught_up, runtime};

/// How long the nodes of a cluster may take to project it.
const PROJECTED_WAIT: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
const PARKED_MAX: usize = 10_000;

#[derive(Args)]
pub struct Unpark {
    #[command(flatten)]
    configured: Configured,
    /// Log keys, as /readyz and the logs name them; none: list those that are parked
    #[arg(value_name = "KEY")]
    keys: Vec<LogKey>,
    /// Everything that is parked
    #[arg(long, conflicts_with = "keys")]
    all: bool,
    /// An event of the key that no version can read, as the log names it: what happened stays without it
    #[arg(long, value_name = "EVENT", value_parser = event, requires = "keys", conflicts_with = "all")]
    leave_out: Option<Seq>,
}

impl Unpark {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (config, _) = self.configured.load(Vec::new())?;
        runtime()?.block_on(async {
            if config.is_embedded() {
                let (data, options) = self.configured.existing()?;
                let engine = Engine::open(&data, options)?;
                caught_up(&engine).await?;
                return self.on(&*engine.app.log, &*engine.app.store).await;
            }
            let (store, log) = life::open(&config).await?;
            self.on(&log, &store).await
        })
    }

    async fn on(&self, log: &dyn EventLog, store: &dyn MessageStore) -> anyhow::Result<ExitCode> {
        let parked = parked(store).await?;
        let keys: Vec<LogKey> = if self.all { parked.iter().map(|parked| parked.key).collect() } else { self.keys.clone() };
        if keys.is_empty() {
            parked.iter().for_each(|parked| println!("{}{}", parked.key, waiting_from(parked)));
            println!("parked log keys: {}", parked.len());
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(key) = keys.iter().find(|key| parked.iter().all(|parked| parked.key != **key)) {
            bail!("{key} is not parked");
        }
        if let Some(seq) = self.leave_out {
            ensure!(keys.len() == 1, "name the one log key whose event is to be left out");
            ensure_unreadable(store, &keys[0], seq).await?;
        }
        for key in &keys {
            let seq = unpark(log, &RandomIds, *key, self.leave_out).await.with_context(|| format!("failed to unpark {key}"))?;
            let partition = key.partition(log.partitions());
            let begun = Instant::now();
            while store.checkpoint(partition).await?.is_none_or(|checkpoint| checkpoint.seq < seq) {
                ensure!(
                    begun.elapsed() < PROJECTED_WAIT,
                    "{key} is unparked as soon as a node projects its partition; none does at present"
                );
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
        let left: Vec<Parked> = self::parked(store).await?.into_iter().filter(|parked| keys.contains(&parked.key)).collect();
        for parked in &left {
            println!(
                "{} stays parked{}: this version can't judge that event, or more wait than are replayed at once. If no version wrote it, \
                 leave it out: --leave-out",
                parked.key,
                waiting_from(parked)
            );
        }
        println!("unparked {} of {} log keys", keys.len() - left.len(), keys.len());
        Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn event(text: &str) -> Result<Seq, &'static str> {
    text.parse().ok().and_then(Seq::from_u64).ok_or("not the number of an event")
}

/// What can be read is judged, whoever wants it gone.
async fn ensure_unreadable(store: &dyn MessageStore, key: &LogKey, seq: Seq) -> anyhow::Result<()> {
    let rows = store.parked_rows(key, seq, 1).await.context("failed to read what is parked")?;
    let Some(row) = rows.into_iter().find(|row| row.at == seq) else { bail!("no event {seq} is parked under {key}") };
    let can_be_judged = Event::decode(&row.bytes).is_ok_and(|event| event.rules <= RULES);
    ensure!(!can_be_judged, "event {seq} can be judged by this version: unpark {key} without leaving anything out");
    Ok(())
}

async fn parked(store: &dyn MessageStore) -> anyhow::Result<Vec<Parked>> {
    let parked = store.parked(PARKED_MAX).await.context("failed to read what is parked")?;
    Ok(parked.into_iter().filter(|parked| parked.first.is_some()).collect())
}

fn waiting_from(parked: &Parked) -> String {
    let first = parked.first.map(|first| format!(" from event {first} on")).unwrap_or_default();
    if parked.key.is_of_strangers() { first + ", written by nobody of ours: to unpark it is to forget it" } else { first }
}
