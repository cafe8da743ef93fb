//! Opens a direct conversation, or finds it open.

use dunlin_model::{Body, ConversationId, Opening, Pair, UserId};

use crate::{App, AppError, Changed, SendToken};

impl App {
    pub async fn open_direct(&self, caller: &UserId, other: &UserId) -> Result<Changed, AppError> {
        let pair = Pair::new(caller.clone(), other.clone());
        let conversation = ConversationId::direct(&pair);
        match self.store.head(conversation).await? {
            None => self.must_exist(&[caller.clone(), other.clone()]).await?,
            Some(head) if self.store.inbox_row(caller, conversation).await?.is_some_and(|row| row.tip.is_some()) => {
                return Ok(Changed { token: SendToken { conversation, seq: head.applied }, settled: true });
            }
            Some(_) => {}
        }
        self.change(caller, conversation, Body::Open(Opening::Direct(pair))).await
    }
}
