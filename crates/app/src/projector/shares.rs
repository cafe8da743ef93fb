//! Projects whatever partitions are this node's, as nodes come and go.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dunlin_model::Partition;
use dunlin_ports::StoreError;
use tokio::{sync::watch, task::JoinSet};
use tracing::{info, warn};

use super::{Progress, Projector};

/// How long a partition whose projection stopped is left alone, and a share that could not be had.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// How long a node that stops waits for what it is projecting.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// How far this node's partitions have come.
#[derive(Default)]
pub struct Shares {
    /// A projection runs for as long as its receiver is here.
    running: Mutex<BTreeMap<Partition, watch::Receiver<Progress>>>,
    trouble: Mutex<Option<String>>,
}

impl Shares {
    /// In the order of partitions.
    pub fn progress(&self) -> Vec<(Partition, Progress)> {
        self.running().iter().map(|(partition, progress)| (*partition, progress.borrow().clone())).collect()
    }

    /// Why this node has no share, while it has none for a reason.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<Partition, watch::Receiver<Progress>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}

impl Projector {
    /// Runs until `stop` is true or gone; then leaves what it has to the other nodes.
    pub async fn run_shares(&self, shares: &Shares, mut stop: watch::Receiver<bool>) {
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                Err(error) = self.keep_share(shares, &mut tasks) => {
                    warn!(%error, "this node has no share of the log's partitions");
                    shares.set_trouble(Some(error.to_string()));
                }
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                () = tokio::time::sleep(AGAIN_AFTER) => {}
            }
        }
        shares.running().clear();
        let drained = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
            warn!("a projection did not end in time; another node goes on from its checkpoint");
        }
    }

    /// Ends only with an error.
    async fn keep_share(&self, shares: &Shares, tasks: &mut JoinSet<()>) -> Result<Infallible, StoreError> {
        let mut share = self.log.join().await?;
        loop {
            let mine = share.next().await?;
            shares.set_trouble(None);
            info!(partitions = mine.len(), "this node's share of the log");
            let mut running = shares.running();
            // Who loses a partition forgets what it remembers of it: another may project it meanwhile.
            running.retain(|partition, _| mine.contains(partition));
            for partition in mine {
                running.entry(partition).or_insert_with(|| {
                    let (progress, told) = watch::channel(Progress::default());
                    let projector = self.clone();
                    tasks.spawn(async move { projector.keep_projecting(partition, progress).await });
                    told
                });
            }
            drop(running);
            while tasks.try_join_next().is_some() {}
        }
    }

    /// What stopped it may be mended while this node runs.
    async fn keep_projecting(&self, partition: Partition, progress: watch::Sender<Progress>) {
        while self.run(partition, progress.clone()).await.is_err() {
            tokio::select! {
                () = progress.closed() => return,
                () = tokio::time::sleep(AGAIN_AFTER) => {}
            }
        }
    }
}
