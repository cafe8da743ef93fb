//! How much a user has not seen, over the whole inbox.

use dunlin_model::UserId;

use crate::{App, AppError};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnreadTotals {
    pub messages: u64,
    /// How many conversations have unread messages.
    pub conversations: u64,
}

impl App {
    pub async fn unread(&self, caller: &UserId) -> Result<UnreadTotals, AppError> {
        let mut totals = UnreadTotals::default();
        for (_, row, tip) in self.inbox_rows(caller).await? {
            let unread = self.unread_of(&row, &tip).await?;
            totals.messages += unread;
            totals.conversations += u64::from(unread > 0);
        }
        Ok(totals)
    }
}
