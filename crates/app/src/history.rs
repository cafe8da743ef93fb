//! A conversation's messages, by page.

use dunlin_model::{Content, ConversationId, Emoji, Head, InboxRow, MessageRow, Metadata, Millis, N, Seq, UserId, limits};
use dunlin_ports::{Order, SeqRange};

use crate::{App, AppError, MemberView, PAGE_MAX, conversation::member_views, cursor};

/// More than a page of messages has of a pair's reactions.
pub(crate) const REACTIONS_MAX: usize = 10_000;
const _: () = assert!(PAGE_MAX * 2 * limits::REACTIONS_PER_USER_MAX < REACTIONS_MAX);

/// A page ends before this many bytes of contents, whatever was asked for, unless its first message alone has more. What has no bound,
/// someone can make a server run out of memory with.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// How many messages are read at once, for the same reason.
const PORTION: usize = 64;

/// Which messages. All pages are newest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HistoryQuery {
    Newest,
    Before(Seq),
    After(Seq),
    /// Half of the page before and half after a message, with it in the middle; where one side has fewer, the other has more.
    Around(Seq),
    /// Strictly earlier.
    BeforeTime(Millis),
    /// An exact range, for a client that saw a gap; at most a page of it, from its beginning.
    Numbers {
        from: N,
        to: N,
    },
}

const CURSOR: &str = "history";

impl HistoryQuery {
    /// For pages that go on towards older or newer messages; none for queries that no page ends with.
    pub fn cursor(self, conversation: ConversationId) -> Option<String> {
        let (newer, seq) = match self {
            HistoryQuery::Before(seq) => (false, seq),
            HistoryQuery::After(seq) => (true, seq),
            _ => return None,
        };
        Some(cursor::write(CURSOR, &(conversation, newer, seq)))
    }

    pub fn from_cursor(conversation: ConversationId, text: &str) -> Result<HistoryQuery, AppError> {
        let (of, newer, seq): (ConversationId, bool, Seq) = cursor::read(CURSOR, text)?;
        match newer {
            _ if of != conversation => Err(AppError::InvalidCursor),
            false => Ok(HistoryQuery::Before(seq)),
            true => Ok(HistoryQuery::After(seq)),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryPage {
    /// Newest first.
    pub messages: Vec<MessageView>,
    /// Ask `Before` this for older ones; none if there are none, or nothing was found.
    pub older: Option<Seq>,
    /// Ask `After` this for newer ones; none if there are none, or nothing was found.
    pub newer: Option<Seq>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageView {
    pub message: MessageRow,
    pub reactions: Vec<ReactionView>,
    pub status: Status,
}

impl MessageView {
    fn seq(&self) -> Seq {
        self.message.seq
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReactionView {
    pub emoji: Emoji,
    pub users: Vec<UserId>,
}

/// How far a message has come with all members other than its sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Status {
    Sent,
    Delivered,
    Read,
}

pub(crate) fn status(message: &MessageRow, members: &[MemberView]) -> Status {
    let others = || members.iter().filter(|member| Some(&member.user) != message.sender.as_ref());
    match () {
        () if others().all(|member| member.read.seq >= message.seq) => Status::Read,
        () if others().all(|member| member.delivered.seq >= message.seq) => Status::Delivered,
        () => Status::Sent,
    }
}

impl App {
    pub async fn history(
        &self,
        caller: &UserId,
        conversation: ConversationId,
        query: HistoryQuery,
        limit: usize,
    ) -> Result<HistoryPage, AppError> {
        // What does not depend on each other is asked at once: each question is a way to the store and back.
        let (head, row, members) =
            tokio::try_join!(self.member(caller, conversation), self.own_row(caller, conversation), self.member_rows(conversation))?;
        let members = member_views(&head, &members);
        let reader = Reader { app: self, caller, conversation, floor: floor(&head, &row), ceiling: head.applied.next(), members };
        let limit = limit.clamp(1, PAGE_MAX);
        let (messages, older, newer) = match query {
            HistoryQuery::Newest => {
                let Stretch { messages, more } = reader.older_than(Seq::MAX, limit).await?;
                reader.page(messages, Some(more), Some(false)).await?
            }
            HistoryQuery::Before(seq) => reader.page_before(seq, limit).await?,
            HistoryQuery::After(seq) => {
                let Stretch { messages, more } = reader.newer_than(seq, limit).await?;
                reader.page(messages, None, Some(more)).await?
            }
            HistoryQuery::Around(seq) => reader.around(seq, limit).await?,
            HistoryQuery::BeforeTime(at) => reader.page_before(reader.first_at_or_after(at).await?, limit).await?,
            HistoryQuery::Numbers { from, to } => {
                let messages = reader.numbers(from, to, limit).await?;
                reader.page(messages, None, None).await?
            }
        };
        Ok(HistoryPage { messages, older, newer })
    }

    /// One message that the caller may see.
    pub async fn message(&self, caller: &UserId, conversation: ConversationId, seq: Seq) -> Result<MessageView, AppError> {
        let (row, members) = tokio::try_join!(self.visible_message(caller, conversation, seq), self.members(caller, conversation))?;
        let reader = Reader { app: self, caller, conversation, floor: Seq::ZERO, ceiling: Seq::MAX, members };
        reader.visible(vec![row]).await?.pop().ok_or(AppError::NoMessage)
    }

    pub(crate) async fn visible_message(&self, caller: &UserId, conversation: ConversationId, seq: Seq) -> Result<MessageRow, AppError> {
        let only = SeqRange { after: seq.previous(), before: seq.next() };
        let (head, own, row, hidden) = tokio::try_join!(
            self.member(caller, conversation),
            self.own_row(caller, conversation),
            async { Ok(self.store.message(conversation, seq).await?) },
            async { Ok(self.store.hidden(caller, conversation, only, 1).await?) },
        )?;
        let is_shown = |row: &MessageRow| floor(&head, &own) < row.seq && row.seq <= head.applied && hidden.is_empty();
        row.filter(is_shown).ok_or(AppError::NoMessage)
    }
}

/// Nothing at or below this is shown to the user whose row it is: what they deleted, and what lies before the conversation's birth.
fn floor(head: &Head, row: &InboxRow) -> Seq {
    row.hidden.seq.max(head.born.previous())
}

struct Reader<'a> {
    app: &'a App,
    caller: &'a UserId,
    conversation: ConversationId,
    /// Nothing at or below this is shown to the caller: what they deleted, and what lies before the conversation's birth.
    floor: Seq,
    /// Nor what is at or above this: it is being written, and of what is written in any order some may be there and some not yet.
    ceiling: Seq,
    members: Vec<MemberView>,
}

/// Newest first, and whether there are more in the direction of reading.
struct Stretch {
    messages: Vec<MessageView>,
    more: bool,
}

type Page = (Vec<MessageView>, Option<Seq>, Option<Seq>);

impl Reader<'_> {
    /// Says where there is more; looks where that is not known.
    async fn page(&self, messages: Vec<MessageView>, more_older: Option<bool>, more_newer: Option<bool>) -> Result<Page, AppError> {
        let (Some(newest), Some(oldest)) = (messages.first().map(MessageView::seq), messages.last().map(MessageView::seq)) else {
            return Ok((messages, None, None));
        };
        let more_older = async {
            match more_older {
                Some(more) => Ok(more),
                None => Ok::<_, AppError>(!self.older_than(oldest, 1).await?.messages.is_empty()),
            }
        };
        let more_newer = async {
            match more_newer {
                Some(more) => Ok(more),
                None => Ok(!self.newer_than(newest, 1).await?.messages.is_empty()),
            }
        };
        let (more_older, more_newer) = tokio::try_join!(more_older, more_newer)?;
        Ok((messages, more_older.then_some(oldest), more_newer.then_some(newest)))
    }

    async fn page_before(&self, before: Seq, limit: usize) -> Result<Page, AppError> {
        let Stretch { messages, more } = self.older_than(before, limit).await?;
        self.page(messages, Some(more), None).await
    }

    async fn older_than(&self, before: Seq, limit: usize) -> Result<Stretch, AppError> {
        let mut range = SeqRange { after: self.floor, before: before.min(self.ceiling) };
        let (mut messages, portion) = (Vec::new(), PORTION.min(limit + 1));
        loop {
            let found = self.app.store.messages(self.conversation, range, Order::NewestFirst, portion).await?;
            let end = found.len() < portion;
            range.before = found.last().map_or(range.before, |row| row.seq);
            messages.extend(self.visible(found).await?);
            let fits = fitting(&messages, limit);
            let more = fits < messages.len();
            if end || more {
                messages.truncate(fits);
                return Ok(Stretch { messages, more });
            }
        }
    }

    async fn newer_than(&self, after: Seq, limit: usize) -> Result<Stretch, AppError> {
        let mut range = SeqRange { after: after.max(self.floor), before: self.ceiling };
        let (mut messages, portion) = (Vec::new(), PORTION.min(limit + 1));
        loop {
            let found = self.app.store.messages(self.conversation, range, Order::OldestFirst, portion).await?;
            let end = found.len() < portion;
            range.after = found.last().map_or(range.after, |row| row.seq);
            messages.extend(self.visible(found).await?);
            let fits = fitting(&messages, limit);
            let more = fits < messages.len();
            if end || more {
                messages.truncate(fits);
                messages.reverse();
                return Ok(Stretch { messages, more });
            }
        }
    }

    /// Half before and half after; where one side has fewer, the other has more.
    async fn around(&self, seq: Seq, limit: usize) -> Result<Page, AppError> {
        let mut newer = self.newer_than(seq, limit / 2).await?;
        let older = self.older_than(seq.next(), limit - newer.messages.len()).await?;
        if newer.more && newer.messages.len() + older.messages.len() < limit {
            newer = self.newer_than(seq, limit - older.messages.len()).await?;
        }
        let (more_older, more_newer) = (older.more, newer.more);
        let messages = newer.messages.into_iter().chain(older.messages).collect();
        self.page(messages, Some(more_older), Some(more_newer)).await
    }

    /// The first message at or after a time. Times rise with seqs, so the index gives a row at most one stretch too far.
    async fn first_at_or_after(&self, at: Millis) -> Result<Seq, AppError> {
        let beyond = self.app.store.index_from_time(self.conversation, at).await?.map_or(self.ceiling, |row| row.seq.min(self.ceiling));
        let (mut range, mut first) = (SeqRange { after: self.floor, before: beyond }, beyond);
        loop {
            let rows = self.app.store.messages(self.conversation, range, Order::NewestFirst, PORTION).await?;
            match rows.iter().rfind(|row| row.created_at >= at) {
                None => return Ok(first),
                Some(row) => first = row.seq,
            }
            match rows.last() {
                Some(last) if last.created_at >= at && rows.len() == PORTION => range.before = last.seq,
                _ => return Ok(first),
            }
        }
    }

    async fn numbers(&self, from: N, to: N, limit: usize) -> Result<Vec<MessageView>, AppError> {
        let Some(start) = self.app.store.index_at_n(self.conversation, from.max(N(1))).await? else {
            return Ok(Vec::new());
        };
        let mut range = SeqRange { after: start.seq.previous().max(self.floor), before: self.ceiling };
        let mut messages = Vec::new();
        loop {
            let found = self.app.store.messages(self.conversation, range, Order::OldestFirst, PORTION).await?;
            range.after = found.last().map_or(range.after, |row| row.seq);
            let end = found.len() < PORTION || found.last().is_some_and(|row| row.n >= to);
            let wanted = found.into_iter().filter(|row| from <= row.n && row.n <= to).collect();
            messages.extend(self.visible(wanted).await?);
            let fits = fitting(&messages, limit);
            if end || messages.len() >= limit || fits < messages.len() {
                messages.truncate(fits);
                messages.reverse();
                return Ok(messages);
            }
        }
    }

    /// In the order of the rows, without what the caller deleted for themselves.
    async fn visible(&self, rows: Vec<MessageRow>) -> Result<Vec<MessageView>, AppError> {
        let Some(range) = span(&rows) else { return Ok(Vec::new()) };
        let store = &self.app.store;
        let (hidden, reactions) = tokio::try_join!(
            store.hidden(self.caller, self.conversation, range, rows.len()),
            store.reactions(self.conversation, range, REACTIONS_MAX)
        )?;
        let view = |message: MessageRow| {
            let mut shown: Vec<ReactionView> = Vec::new();
            // They come in the order of their messages.
            let own = &reactions[reactions.partition_point(|row| row.target < message.seq)..];
            let own = own.iter().take_while(|row| row.target == message.seq);
            for row in own.filter(|row| row.on.value && !message.is_deleted()) {
                match shown.iter_mut().find(|view| view.emoji == row.emoji) {
                    Some(view) => view.users.push(row.user.clone()),
                    None => shown.push(ReactionView { emoji: row.emoji.clone(), users: vec![row.user.clone()] }),
                }
            }
            MessageView { status: status(&message, &self.members), message, reactions: shown }
        };
        Ok(rows.into_iter().filter(|row| hidden.binary_search(&row.seq).is_err()).map(view).collect())
    }
}

/// How many of the messages, from the first on, make a page.
fn fitting(messages: &[MessageView], limit: usize) -> usize {
    let mut bytes = 0;
    let fits = |view: &&MessageView| {
        let entries = view.message.metadata.iter().flat_map(Metadata::entries);
        bytes +=
            view.message.current().map_or(0, Content::bytes_len) + entries.map(|(name, value)| name.len() + value.len()).sum::<usize>();
        bytes <= PAGE_BYTES_MAX
    };
    messages.iter().take(limit).take_while(fits).count().max(messages.len().min(limit).min(1))
}

/// The range that holds all rows.
fn span(rows: &[MessageRow]) -> Option<SeqRange> {
    let (first, last) = (rows.first()?.seq, rows.last()?.seq);
    Some(SeqRange { after: first.min(last).previous(), before: first.max(last).next() })
}
