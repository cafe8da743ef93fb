//! Copies what was decided in the log about blocks into the directory, where operators look at them beside the users (rule R14). A reader of
//! the log of its own, far behind the projector if need be: a directory that is away delays copies, never messages.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use dunlin_model::{Body, Event, LogKey, Offset, Partition, Seq};
use dunlin_ports::{Directory, EventLog, MessageStore, StoreError, Wanted};
use tracing::{debug, warn};

use crate::Shares;

const EVERY: Duration = Duration::from_secs(10);
const RECORDS_MAX: usize = 1_000;

#[derive(Clone)]
pub struct Copies {
    pub log: Arc<dyn EventLog>,
    pub store: Arc<dyn MessageStore>,
    pub directory: Arc<dyn Directory>,
}

impl Copies {
    /// For this node's partitions, until it is dropped.
    pub async fn keep(&self, shares: &Shares) {
        loop {
            tokio::time::sleep(EVERY).await;
            for (partition, progress) in shares.progress() {
                if let Err(error) = self.bring_forward(partition, progress.next).await {
                    debug!(partition = partition.0, %error, "blocks are not copied for the moment");
                }
            }
        }
    }

    /// Copies what the events before `projected` have come to.
    pub async fn bring_forward(&self, partition: Partition, projected: Offset) -> Result<(), StoreError> {
        let begins = self.log.begins(partition);
        let copied = self.directory.copied_up_to(partition).await?.map(Seq::next);
        let mut next = copied.filter(|next| *next > begins).unwrap_or(begins);
        if next.offset() >= projected {
            return Ok(());
        }
        let mut tail = match self.log.tail(partition, next.offset()).await {
            Err(StoreError::Corrupt(why)) => {
                warn!(partition = partition.0, why, "the log no longer has all blocks that were not copied yet; going on after them");
                return self.directory.set_copied_up_to(partition, Seq::new(begins.epoch(), projected).previous()).await;
            }
            tail => tail?,
        };
        while next.offset() < projected {
            let records = tail.next(RECORDS_MAX).await?;
            let read = records.iter().take_while(|record| record.position.offset < projected);
            let pairs: BTreeSet<LogKey> = read.clone().filter_map(|record| blocked_in(&Event::decode(&record.bytes).ok()?)).collect();
            self.copy(pairs).await?;
            let Some(last) = read.last() else { break };
            self.directory.set_copied_up_to(partition, last.position.seq).await?;
            next = last.position.seq.next();
        }
        Ok(())
    }

    /// As they stand by now: later than the event will do, for the later copy stands.
    async fn copy(&self, pairs: BTreeSet<LogKey>) -> Result<(), StoreError> {
        if pairs.is_empty() {
            return Ok(());
        }
        let wanted = Wanted { blocks: pairs.into_iter().map(|pair| (pair, Seq::MAX)).collect(), ..Wanted::default() };
        for block in self.store.known(&wanted).await?.blocks.iter().flatten() {
            self.directory.copy_block(block).await?;
        }
        Ok(())
    }
}

/// The pair whose blocks an event may have changed; an unpark event brings back what was set aside before it.
fn blocked_in(event: &Event) -> Option<LogKey> {
    matches!(event.body, Body::Block(_) | Body::Unpark(..)).then_some(event.key)
}
