//! Read and delivered marks. Both only ever rise: an offline device's older mark changes nothing.

use dunlin_model::{Body, ConversationId, Head, Mark, Read, Rejection, Seq, UserId};
use dunlin_ports::{Order, SeqRange};

use crate::{App, AppError, Changed, SendToken};

impl App {
    /// The caller has read everything up to a message.
    pub async fn mark_read(&self, caller: &UserId, conversation: ConversationId, up_to: Seq) -> Result<Changed, AppError> {
        let head = self.member(caller, conversation).await?;
        let up_to = self.mark_at(&head, conversation, up_to).await?;
        let already =
            self.store.members(conversation, None, 2).await?.into_iter().any(|row| row.user == *caller && row.read.seq >= up_to.seq);
        if already {
            return Ok(Changed { token: SendToken { conversation, seq: head.applied }, settled: true });
        }
        self.change(caller, conversation, Body::Read(Read { conversation, up_to })).await
    }

    /// A device of the caller has everything up to a message.
    pub async fn mark_delivered(&self, caller: &UserId, conversation: ConversationId, up_to: Seq) -> Result<(), AppError> {
        let head = self.member(caller, conversation).await?;
        let up_to = self.mark_at(&head, conversation, up_to).await?;
        Ok(self.store.mark_delivered(conversation, caller, up_to).await?)
    }

    /// The last message at or below a seq. Beyond the conversation's last event there is nothing to mark.
    async fn mark_at(&self, head: &Head, conversation: ConversationId, up_to: Seq) -> Result<Mark, AppError> {
        if up_to > head.applied {
            return Err(Rejection::BeyondHead.into());
        }
        let range = SeqRange { after: head.born.previous(), before: up_to.next() };
        let row = self.store.messages(conversation, range, Order::NewestFirst, 1).await?.pop().ok_or(AppError::NoMessage)?;
        Ok(Mark { n: row.n, seq: row.seq })
    }
}
