//! How nodes tell each other what their clients wait for. Best effort: what is lost is noticed, and read again from the stores.

use async_trait::async_trait;
use dunlin_model::{NodeId, Outcome, RequestId};

use crate::StoreError;

/// Carries frames from any node to one node.
///
/// - Frames of one publisher to one node arrive in order, numbered 1, 2, 3 … for as long as that publisher lives.
/// - **A loss is noticed**: whoever receives a number that does not follow the one before it has missed something. A publisher sends an
///   empty frame now and then, so that a loss at the end shows too.
/// - Nobody listening is not an error: the frame is gone.
#[async_trait]
pub trait SessionBus: Send + Sync {
    async fn publish(&self, to: NodeId, notices: Vec<Notice>) -> Result<(), StoreError>;

    /// Everything published to `node` from now on. One listener a node: a second takes over from the first.
    async fn listen(&self, node: NodeId) -> Result<Box<dyn Inbound>, StoreError>;
}

#[async_trait]
pub trait Inbound: Send {
    /// Waits for the next frame; `None` once another listener has taken over.
    async fn next(&mut self) -> Option<Frame>;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Who numbered it.
    pub publisher: NodeId,
    pub number: u64,
    pub notices: Vec<Notice>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// What became of an event that a request of the receiving node appended.
    Outcome { request: RequestId, outcome: Outcome },
}
