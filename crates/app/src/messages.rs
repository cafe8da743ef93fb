//! What can be done with a message that the caller can see: edit, delete, react.

use dunlin_model::{Body, Content, ConversationId, Delete, Edit, Emoji, Hide, React, Seq, UserId, limits};
use dunlin_ports::SeqRange;

use crate::{App, AppError, Changed, history::REACTIONS_MAX};

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
        if on {
            self.has_room_for_reaction(caller, conversation, target, &emoji).await?;
        }
        self.change(caller, conversation, Body::React(React { conversation, target, emoji, on })).await
    }

    /// Keeps a page of history bounded. Two at once may both find the last place: harmless, for pages have room for more.
    async fn has_room_for_reaction(
        &self,
        caller: &UserId,
        conversation: ConversationId,
        target: Seq,
        emoji: &Emoji,
    ) -> Result<(), AppError> {
        let only = SeqRange { after: target.previous(), before: target.next() };
        let rows = self.store.reactions(conversation, only, REACTIONS_MAX).await?;
        let mut own = rows.iter().filter(|row| row.user == *caller);
        let has_room = own.clone().count() < limits::REACTIONS_PER_USER_MAX || own.any(|row| row.emoji == *emoji);
        if has_room { Ok(()) } else { Err(AppError::TooManyReactions) }
    }
}
