//! What can be done with a message that the caller can see: edit, delete, react.

use dunlin_model::{Body, Content, ConversationId, Delete, Edit, Emoji, Hide, React, Seq, UserId};

use crate::{App, AppError, Changed};

impl App {
    pub async fn edit(&self, caller: &UserId, conversation: ConversationId, target: Seq, content: Content) -> Result<Changed, AppError> {
        self.visible_message(caller, conversation, target).await?;
        self.change(caller, conversation, Body::Edit(Edit { conversation, target, content })).await
    }

    pub async fn delete_for_everyone(&self, caller: &UserId, conversation: ConversationId, target: Seq) -> Result<Changed, AppError> {
        self.visible_message(caller, conversation, target).await?;
        self.change(caller, conversation, Body::Delete(Delete { conversation, target })).await
    }

    pub async fn delete_for_me(&self, caller: &UserId, conversation: ConversationId, target: Seq) -> Result<Changed, AppError> {
        self.member(caller, conversation).await?;
        self.change(caller, conversation, Body::Hide(Hide { conversation, target })).await
    }

    pub async fn react(
        &self,
        caller: &UserId,
        conversation: ConversationId,
        target: Seq,
        emoji: Emoji,
        on: bool,
    ) -> Result<Changed, AppError> {
        self.visible_message(caller, conversation, target).await?;
        self.change(caller, conversation, Body::React(React { conversation, target, emoji, on })).await
    }
}
