//! What became of an event, from the stores alone.

use std::{fmt, str::FromStr};

use dunlin_model::{Accepted, ConversationId, Outcome, Seq, UserId};
use dunlin_ports::{MessageStore, StoreError};

use crate::{App, AppError};

/// Names an appended event: where to ask for its outcome, and what a read can wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendToken {
    pub conversation: ConversationId,
    pub seq: Seq,
}

impl fmt::Display for SendToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.conversation, self.seq)
    }
}

impl FromStr for SendToken {
    type Err = AppError;

    fn from_str(text: &str) -> Result<SendToken, AppError> {
        let (conversation, seq) = text.split_once('.').ok_or(AppError::InvalidCursor)?;
        let conversation = conversation.parse().map_err(|_| AppError::InvalidCursor)?;
        let seq = seq.parse().ok().and_then(Seq::from_u64).ok_or(AppError::InvalidCursor)?;
        Ok(SendToken { conversation, seq })
    }
}

/// `None` while it is not projected.
pub async fn outcome_of(store: &dyn MessageStore, conversation: ConversationId, seq: Seq) -> Result<Option<Outcome>, StoreError> {
    // The head first: once it has passed the event, everything that the event wrote is there.
    let head = store.head(conversation).await?;
    if let Some(outcome) = store.outcome(conversation, seq).await? {
        return Ok(Some(outcome));
    }
    if let Some(row) = store.message(conversation, seq).await? {
        return Ok(Some(Outcome::Accepted(Accepted { seq, n: row.n, created_at: row.created_at })));
    }
    Ok(head.filter(|head| head.applied >= seq).map(|_| Outcome::Done(seq)))
}

impl App {
    /// What became of a send, for a member of its conversation or for whoever was refused one.
    pub async fn send_status(&self, caller: &UserId, token: SendToken) -> Result<Option<Outcome>, AppError> {
        let member = self.store.head(token.conversation).await?.is_some_and(|head| head.is_member(caller));
        match outcome_of(&*self.store, token.conversation, token.seq).await? {
            Some(outcome @ Outcome::Rejected(_)) => Ok(Some(outcome)),
            outcome if member => Ok(outcome),
            _ => Err(AppError::NoConversation),
        }
    }
}
