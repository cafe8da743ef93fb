//! Opens a direct conversation, or finds it open.

use dunlin_model::{Body, ConversationId, Opening, Pair, UserId};

use crate::{App, AppError, Changed};

impl App {
    pub async fn open_direct(&self, caller: &UserId, other: &UserId) -> Result<Changed, AppError> {
        let pair = Pair::new(caller.clone(), other.clone());
        let conversation = ConversationId::direct(&pair);
        if self.store.head(conversation).await?.is_none() {
            self.must_exist(&[caller.clone(), other.clone()]).await?;
        }
        self.change(caller, conversation, Body::Open(Opening::Direct(pair))).await
    }
}
