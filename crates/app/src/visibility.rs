//! Archives, activates or deletes a conversation for the caller.

use dunlin_model::{Body, ConversationId, UserId, Visibility, VisibilityChange};

use crate::{App, AppError, Changed};

impl App {
    pub async fn set_visibility(
        &self,
        caller: &UserId,
        conversation: ConversationId,
        change: VisibilityChange,
    ) -> Result<Changed, AppError> {
        self.member(caller, conversation).await?;
        self.change(caller, conversation, Body::Visibility(Visibility { conversation, change })).await
    }
}
