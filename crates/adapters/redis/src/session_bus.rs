//! The bus between nodes: a sharded channel for each node.
//!
//! Frames to one node form a lane: they are numbered and queued under one lock, and one task at a time hands over all that wait, in
//! order. So a slow shard holds up the nodes whose channels it has, and nobody else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use dunlin_model::NodeId;
use dunlin_ports::{Inbound, Notice, StoreError};
use tokio::{sync::oneshot, time::timeout};

use crate::{Cluster, error, listener, wire};

/// How many frames wait in a lane. What comes when that many wait is lost, and noticed by the gap in the numbers.
const LANE_FRAMES_MAX: usize = 1024;

/// Publishes in the name of one node.
pub struct SessionBus {
    publisher: Arc<Publisher>,
}

struct Publisher {
    cluster: Cluster,
    node: NodeId,
    /// One entry for each node that was ever published to: they are small, and nodes are few.
    lanes: Mutex<HashMap<NodeId, Lane>>,
}

#[derive(Default)]
struct Lane {
    last_number: u64,
    waiting: Vec<Waiting>,
    /// Whether a task hands over what waits.
    is_served: bool,
}

struct Waiting {
    number: u64,
    notices: Vec<Notice>,
    told: oneshot::Sender<Result<(), StoreError>>,
}

impl SessionBus {
    /// A bus is one incarnation: its numbers begin at 1, so `node` must not have published before.
    pub fn new(cluster: Cluster, node: NodeId) -> SessionBus {
        SessionBus { publisher: Arc::new(Publisher { cluster, node, lanes: Mutex::default() }) }
    }
}

#[async_trait]
impl dunlin_ports::SessionBus for SessionBus {
    async fn publish(&self, to: NodeId, notices: Vec<Notice>) -> Result<(), StoreError> {
        let sent = self.publisher.queue(to, notices)?;
        let told = timeout(self.publisher.cluster.call_timeout(), sent).await.map_err(|_| error::timed_out())?;
        told.unwrap_or_else(|_| Err(StoreError::Unavailable("the bus has ended".to_owned())))
    }

    async fn listen(&self, node: NodeId) -> Result<Box<dyn Inbound>, StoreError> {
        let cluster = &self.publisher.cluster;
        Ok(Box::new(listener::listen(cluster.clone(), node, channel(cluster, node)).await?))
    }
}

impl Publisher {
    /// Whatever becomes of it, the frame has used up its number: a loss is a gap.
    fn queue(self: &Arc<Self>, to: NodeId, notices: Vec<Notice>) -> Result<oneshot::Receiver<Result<(), StoreError>>, StoreError> {
        let (told, sent) = oneshot::channel();
        let mut lanes = self.lanes();
        let lane = lanes.entry(to).or_default();
        lane.last_number += 1;
        if lane.waiting.len() >= LANE_FRAMES_MAX {
            return Err(StoreError::Unavailable("too many frames wait for Redis".to_owned()));
        }
        lane.waiting.push(Waiting { number: lane.last_number, notices, told });
        if !lane.is_served {
            lane.is_served = true;
            tokio::spawn(Arc::clone(self).serve(to));
        }
        Ok(sent)
    }

    /// Hands over what waits until nothing does.
    async fn serve(self: Arc<Self>, to: NodeId) {
        let channel = channel(&self.cluster, to);
        while let Some(waiting) = self.take(to) {
            let mut pipeline = redis::pipe();
            for frame in &waiting {
                pipeline.cmd("SPUBLISH").arg(&channel).arg(wire::frame(self.node, frame.number, &frame.notices)).ignore();
            }
            let sent = self.cluster.call(|mut connection| async move { pipeline.exec_async(&mut connection).await }).await;
            for frame in waiting {
                // Whoever published may have left.
                let _ = frame.told.send(sent.clone());
            }
        }
    }

    fn take(&self, to: NodeId) -> Option<Vec<Waiting>> {
        let mut lanes = self.lanes();
        let lane = lanes.entry(to).or_default();
        lane.is_served = !lane.waiting.is_empty();
        lane.is_served.then(|| std::mem::take(&mut lane.waiting))
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<NodeId, Lane>> {
        // A lane is changed in single steps, each of which leaves it whole.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is in braces chooses the slot.
fn channel(cluster: &Cluster, node: NodeId) -> String {
    format!("{}node:{{{node}}}", cluster.prefix())
}
