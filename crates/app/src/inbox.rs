//! The main view: a user's conversations, most recent first.

use std::{cmp::Reverse, collections::HashMap};

use dunlin_model::{ConversationId, InboxRow, Millis, Shown, Tip, UserId};

use crate::{App, AppError, ConversationView, PAGE_MAX, cursor};

/// How many rows are read at a time.
const STRETCH: usize = 1_000;
/// And at first: most inboxes have no more.
const FIRST_STRETCH: usize = 250;

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

pub(crate) type Placed = (Place, InboxRow, Tip);

impl App {
    pub async fn inbox(&self, caller: &UserId, query: InboxQuery) -> Result<InboxPage, AppError> {
        let limit = query.limit.clamp(1, PAGE_MAX);
        let after: Option<Place> = match &query.cursor {
            None => None,
            Some(text) => Some(cursor::read(query.name(), text).map(|(at, id)| (Reverse(at), id))?),
        };
        let is_wanted = |(place, row, tip): &Placed| {
            let shown = row.shown(tip);
            shown != Shown::Deleted && query.shown.is_none_or(|wanted| wanted == shown) && after.is_none_or(|after| *place > after)
        };
        let is_sparse = query.shown == Some(Shown::Archived);
        let rows = async {
            if !is_sparse && self.known.has_many(caller) {
                return self.newest_rows(caller, Vec::new(), None, after, limit + 1, is_wanted).await;
            }
            let first = self.store.inbox(caller, None, FIRST_STRETCH).await?;
            match first.last() {
                Some(last) if first.len() == FIRST_STRETCH && !is_sparse => {
                    self.known.learn_many(caller);
                    let last = Some(last.conversation);
                    self.newest_rows(caller, placed(first), last, after, limit + 1, is_wanted).await
                }
                _ => self.with_others(caller, first, FIRST_STRETCH).await,
            }
        };
        let (mut rows, standings) = tokio::try_join!(rows, self.standings(caller))?;
        rows.retain(is_wanted);
        let more = rows.len() > limit;
        if more {
            rows.select_nth_unstable_by(limit, |one, other| one.0.cmp(&other.0));
            rows.truncate(limit);
        }
        rows.sort_unstable_by_key(|row| row.0);
        let next = rows.last().filter(|_| more).map(|((Reverse(at), id), ..)| cursor::write(query.name(), &(at, id)));
        let lasts = self.last_messages(rows.iter().map(|(_, row, tip)| (row.conversation, tip))).await?;
        let views = rows.iter().zip(&lasts).map(|((_, row, tip), last)| self.view(caller, row, tip, last.as_ref(), &standings));
        let conversations = futures::future::try_join_all(views).await?;
        Ok(InboxPage { conversations, next })
    }

    /// All of a user's rows that stand for a conversation.
    pub(crate) async fn inbox_rows(&self, caller: &UserId) -> Result<Vec<Placed>, AppError> {
        let first = self.store.inbox(caller, None, STRETCH).await?;
        self.with_others(caller, first, STRETCH).await
    }

    /// The first rows, of which so many were asked for, and all others.
    async fn with_others(&self, caller: &UserId, first: Vec<InboxRow>, limit: usize) -> Result<Vec<Placed>, AppError> {
        let (mut rows, mut limit, mut all) = (first, limit, Vec::new());
        loop {
            let last = rows.last().filter(|_| rows.len() == limit).map(|row| row.conversation);
            all.extend(placed(rows));
            if last.is_none() {
                return Ok(all);
            }
            (rows, limit) = (self.store.inbox(caller, last, STRETCH).await?, STRETCH);
        }
    }

    /// Of an inbox of many rows, of which the first, up to `last`, are given, at least so many rows that are wanted, the newest, if there are so
    /// many. Of most rows it takes only when they moved to know that they are not among them.
    async fn newest_rows(
        &self,
        caller: &UserId,
        first: Vec<Placed>,
        last: Option<ConversationId>,
        after: Option<Place>,
        enough: usize,
        is_wanted: impl Fn(&Placed) -> bool,
    ) -> Result<Vec<Placed>, AppError> {
        /// How many of the newest may be unwanted before all rows are looked at.
        const SPARE: usize = 10;
        let mut places: Vec<Place> = first.iter().map(|(place, ..)| *place).collect();
        let mut from = last;
        loop {
            let moves = self.store.inbox_moves(caller, from, STRETCH * 10).await?;
            from = moves.last().filter(|_| moves.len() == STRETCH * 10).map(|(conversation, _)| *conversation);
            places.extend(moves.into_iter().filter_map(|(conversation, moved_at)| Some((Reverse(moved_at?), conversation))));
            if from.is_none() {
                break;
            }
        }
        places.retain(|place| after.is_none_or(|after| *place > after));
        places.sort_unstable();
        let is_all = places.len() <= enough + SPARE;
        places.truncate(enough + SPARE);
        let mut known: HashMap<ConversationId, Placed> = first.into_iter().map(|row| (row.0.1, row)).collect();
        let (mut rows, mut others) = (Vec::with_capacity(places.len()), Vec::new());
        for (_, conversation) in places {
            match known.remove(&conversation) {
                Some(row) => rows.push(row),
                None => others.push(self.store.inbox_row(caller, conversation)),
            }
        }
        rows.extend(placed(futures::future::try_join_all(others).await?.into_iter().flatten()));
        if is_all || rows.iter().filter(|row| is_wanted(row)).count() >= enough { Ok(rows) } else { self.inbox_rows(caller).await }
    }
}

/// Those that stand for a conversation.
fn placed(rows: impl IntoIterator<Item = InboxRow>) -> Vec<Placed> {
    let placed = |mut row: InboxRow| {
        let tip = row.tip.take()?.value;
        Some(((Reverse(tip.moved_at()), row.conversation), row, tip))
    };
    rows.into_iter().filter_map(placed).collect()
}
