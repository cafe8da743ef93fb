//! The main view: a user's conversations, most recent first.

use std::cmp::Reverse;

use dunlin_model::{ConversationId, InboxRow, Millis, Shown, Tip, UserId};

use crate::{App, AppError, ConversationView, PAGE_MAX, cursor};

/// How many rows are read at a time.
const STRETCH: usize = 1_000;

#[derive(Clone, Debug, Default)]
pub struct InboxQuery {
    pub limit: usize,
    pub cursor: Option<String>,
    /// Only these; both displayed and archived if none.
    pub shown: Option<Shown>,
}

impl InboxQuery {
    /// Whose cursors these are.
    fn name(&self) -> &'static str {
        match self.shown {
            None => "inbox",
            Some(Shown::Displayed) => "inbox displayed",
            Some(Shown::Archived) => "inbox archived",
            Some(Shown::Deleted) => "inbox deleted",
        }
    }
}

#[derive(Clone, Debug)]
pub struct InboxPage {
    pub conversations: Vec<ConversationView>,
    pub next: Option<String>,
}

/// Most recent first, ties by id. A conversation that does not move keeps its place, so pages never skip or repeat it.
type Place = (Reverse<Millis>, ConversationId);

impl App {
    pub async fn inbox(&self, caller: &UserId, query: InboxQuery) -> Result<InboxPage, AppError> {
        let limit = query.limit.clamp(1, PAGE_MAX);
        let after: Option<Place> = match &query.cursor {
            None => None,
            Some(text) => Some(cursor::read(query.name(), text).map(|(at, id)| (Reverse(at), id))?),
        };
        let mut rows = self.inbox_rows(caller).await?;
        rows.retain(|(place, row, tip)| {
            let shown = row.shown(tip);
            shown != Shown::Deleted && query.shown.is_none_or(|wanted| wanted == shown) && after.as_ref().is_none_or(|after| place > after)
        });
        let more = rows.len() > limit;
        if more {
            rows.select_nth_unstable_by(limit, |one, other| one.0.cmp(&other.0));
            rows.truncate(limit);
        }
        rows.sort_unstable_by_key(|row| row.0);
        let next = rows.last().filter(|_| more).map(|((Reverse(at), id), ..)| cursor::write(query.name(), &(at, id)));
        let standings = self.standings(caller).await?;
        let lasts = self.last_messages(rows.iter().map(|(_, row, tip)| (row.conversation, tip))).await?;
        let views = rows.iter().zip(&lasts).map(|((_, row, tip), last)| self.view(caller, row, tip, last.as_ref(), &standings));
        let conversations = futures::future::try_join_all(views).await?;
        Ok(InboxPage { conversations, next })
    }

    /// All of a user's rows that stand for a conversation.
    pub(crate) async fn inbox_rows(&self, caller: &UserId) -> Result<Vec<(Place, InboxRow, Tip)>, AppError> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let rows = self.store.inbox(caller, after, STRETCH).await?;
            after = rows.last().map(|row| row.conversation);
            let end = rows.len() < STRETCH;
            all.extend(rows.into_iter().filter_map(|mut row| {
                let tip = row.tip.take()?.value;
                Some(((Reverse(tip.moved_at()), row.conversation), row, tip))
            }));
            if end {
                return Ok(all);
            }
        }
    }
}
