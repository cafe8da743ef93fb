//! How much a user has not seen: over the whole inbox, and in which conversations.

use dunlin_model::{ConversationId, UserId};

use crate::{App, AppError, PAGE_MAX};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unread {
    pub totals: UnreadTotals,
    /// The most recent conversations with unread messages, most recent first.
    pub conversations: Vec<(ConversationId, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnreadTotals {
    pub messages: u64,
    /// How many conversations have unread messages.
    pub conversations: u64,
}

impl App {
    pub async fn unread(&self, caller: &UserId, limit: usize) -> Result<Unread, AppError> {
        let mut unread = Unread::default();
        let mut rows = self.inbox_rows(caller).await?;
        rows.sort_unstable_by_key(|row| row.0);
        for (_, row, tip) in rows {
            let count = self.unread_of(&row, &tip).await?;
            if count == 0 {
                continue;
            }
            unread.totals.messages += count;
            unread.totals.conversations += 1;
            if unread.conversations.len() < limit.clamp(1, PAGE_MAX) {
                unread.conversations.push((row.conversation, count));
            }
        }
        Ok(unread)
    }
}
