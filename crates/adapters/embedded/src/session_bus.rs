//! The bus within one process: frames are handed over as they are.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use dunlin_model::NodeId;
use dunlin_ports::{Frame, Inbound, Notice, StoreError};
use tokio::sync::mpsc;

/// How many frames wait for a listener. What comes when that many wait is dropped, and noticed by the gap in the numbers.
const FRAMES_MAX: usize = 1024;

/// Publishes in the name of one node.
pub struct SessionBus {
    publisher: NodeId,
    /// One entry for each node that was ever listened for or published to: all of them are of this process.
    targets: Mutex<HashMap<NodeId, Target>>,
}

#[derive(Default)]
struct Target {
    last_number: u64,
    listener: Option<mpsc::Sender<Frame>>,
}

impl SessionBus {
    pub fn new(publisher: NodeId) -> SessionBus {
        SessionBus { publisher, targets: Mutex::default() }
    }

    /// The lock is held while a frame is numbered and handed over: this is what keeps frames in order.
    fn with_target<T>(&self, node: NodeId, act: impl FnOnce(&mut Target) -> T) -> T {
        // A target is changed in single steps, each of which leaves it whole.
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        act(targets.entry(node).or_default())
    }
}

#[async_trait]
impl dunlin_ports::SessionBus for SessionBus {
    async fn publish(&self, to: NodeId, notices: Vec<Notice>) -> Result<(), StoreError> {
        self.with_target(to, |target| {
            target.last_number += 1;
            let frame = Frame { publisher: self.publisher, number: target.last_number, notices };
            if let Some(listener) = &target.listener {
                // A full queue and a listener that is gone are losses, which its number tells.
                let _ = listener.try_send(frame);
            }
        });
        Ok(())
    }

    async fn listen(&self, node: NodeId) -> Result<Box<dyn Inbound>, StoreError> {
        let (sender, frames) = mpsc::channel(FRAMES_MAX);
        // The listener before it gets what waits for it, then the end.
        self.with_target(node, |target| target.listener = Some(sender));
        Ok(Box::new(Frames(frames)))
    }
}

struct Frames(mpsc::Receiver<Frame>);

#[async_trait]
impl Inbound for Frames {
    async fn next(&mut self) -> Option<Frame> {
        self.0.recv().await
    }
}

#[cfg(test)]
mod tests {
    use dunlin_ports::SessionBus as _;

    use super::*;

    #[tokio::test]
    async fn a_full_queue_drops_frames_but_counts_them() {
        let (me, bus) = (NodeId(1), SessionBus::new(NodeId(1)));
        let mut inbound = bus.listen(me).await.unwrap();
        for _ in 0..FRAMES_MAX + 10 {
            bus.publish(me, vec![]).await.unwrap();
        }
        for number in 1..=FRAMES_MAX as u64 {
            assert_eq!(inbound.next().await.unwrap().number, number);
        }
        bus.publish(me, vec![]).await.unwrap();
        assert_eq!(inbound.next().await, Some(Frame { publisher: me, number: FRAMES_MAX as u64 + 11, notices: vec![] }));
    }
}
