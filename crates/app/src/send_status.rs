//! What became of an event, from the stores alone.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, Instant},
};

use dunlin_model::{Accepted, ConversationId, Outcome, Seq, UserId};
use dunlin_ports::{MessageStore, StoreError};

use crate::{App, AppError};

/// How long a read waits for what it must see.
const AT_LEAST_WAIT: Duration = Duration::from_secs(2);
const AT_LEAST_LOOK_EVERY: Duration = Duration::from_millis(10);

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
    if head.as_ref().is_some_and(|head| head.applied < seq) {
        return Ok(None); // What the event writes may be there in part.
    }
    if let Some(row) = store.outcome(conversation, seq).await? {
        return Ok(Some(row.outcome));
    }
    if let Some(row) = store.message(conversation, seq).await? {
        return Ok(Some(Outcome::Accepted(Accepted { seq, n: row.n, created_at: row.created_at })));
    }
    Ok(head.filter(|head| head.applied >= seq).map(|_| Outcome::Done(seq)))
}

impl App {
    /// What became of a send; `None` while that is not known. Told to its sender (none for the system), and of what took effect to the members.
    pub async fn send_status(&self, caller: Option<&UserId>, token: SendToken) -> Result<Option<Outcome>, AppError> {
        let SendToken { conversation, seq } = token;
        // Before the rows: what is projected by now has written its own.
        let projected = self.is_projected(token).await?;
        if let Some(row) = self.store.outcome(conversation, seq).await? {
            return if row.actor.as_ref() == caller { Ok(Some(row.outcome)) } else { Err(AppError::NoConversation) };
        }
        if self.store.message(conversation, seq).await?.is_some_and(|message| message.sender.as_ref() == caller) {
            return Ok(outcome_of(&*self.store, conversation, seq).await?);
        }
        match self.store.head(conversation).await? {
            Some(head) if caller.is_some_and(|caller| head.is_member(caller)) => Ok(outcome_of(&*self.store, conversation, seq).await?),
            Some(head) if head.applied >= seq => Err(AppError::NoConversation),
            _ if projected => Err(AppError::NoConversation),
            // As yet there may be no conversation to be a member of.
            _ => Ok(None),
        }
    }

    /// Waits for a read to be able to see what an earlier write did.
    pub async fn at_least(&self, token: SendToken) -> Result<(), AppError> {
        let until = Instant::now() + AT_LEAST_WAIT;
        while !self.is_visible(token).await? {
            if Instant::now() >= until {
                return Err(AppError::NotYet);
            }
            tokio::time::sleep(AT_LEAST_LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Whether all that an event does can be read: its head has passed it, or there is none that could.
    async fn is_visible(&self, token: SendToken) -> Result<bool, AppError> {
        let SendToken { conversation, seq } = token;
        match self.store.head(conversation).await? {
            Some(head) if head.applied >= seq => Ok(true),
            Some(_) => self.is_projected(token).await,
            None => Ok(self.store.outcome(conversation, seq).await?.is_some() || self.is_projected(token).await?),
        }
    }

    async fn is_projected(&self, token: SendToken) -> Result<bool, AppError> {
        let partition = token.conversation.log_key().partition(self.log.partitions());
        let checkpoint = self.store.checkpoint(partition).await?;
        Ok(checkpoint.is_some_and(|checkpoint| checkpoint.seq >= token.seq))
    }
}
