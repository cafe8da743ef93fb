//! What became of an event. Every acknowledged event ends in exactly one outcome.

use minicbor::{Decode, Encode};

use crate::{Millis, N, Seq, UserId};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Outcome {
    /// A message that is stored.
    #[n(0)]
    Accepted(#[n(0)] Accepted),
    /// The same message as an earlier one, whose place it tells.
    #[n(1)]
    Duplicate(#[n(0)] Accepted),
    #[n(2)]
    Rejected(#[n(0)] Rejection),
    /// Anything else than a message that took effect.
    #[n(3)]
    Done(#[n(0)] Seq),
}

/// What became of an event, and whose event it was: nobody else is told.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct OutcomeRow {
    #[n(0)]
    pub outcome: Outcome,
    #[n(1)]
    pub actor: Option<UserId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Accepted {
    #[n(0)]
    pub seq: Seq,
    #[n(1)]
    pub n: N,
    #[n(2)]
    pub created_at: Millis,
}

/// Why an event changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode, thiserror::Error)]
#[cbor(index_only)]
pub enum Rejection {
    #[error("there is no such conversation")]
    #[n(0)]
    NoConversation,
    #[error("one of the two has blocked the other")]
    #[n(1)]
    Blocked,
    #[error("client_id was used for another message")]
    #[n(2)]
    ClientIdReused,
    #[error("there is no such message")]
    #[n(3)]
    NoMessage,
    #[error("only its sender may change a message")]
    #[n(4)]
    NotSender,
    #[error("the message was deleted")]
    #[n(5)]
    MessageDeleted,
    #[error("the mark lies beyond the conversation's last message")]
    #[n(6)]
    BeyondHead,
    #[error("the event does not fit its conversation")]
    #[n(7)]
    Mismatch,
}
