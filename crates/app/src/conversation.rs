//! One conversation as one user sees it, and its members.

use dunlin_model::{
    Content, ConversationId, Head, InboxRow, Kind, Mark, MemberRow, MessageRow, MessageType, Millis, Seq, Shown, Standing, Text, Tip,
    UserId,
};
use dunlin_ports::{Order, SeqRange, Wanted};

use crate::{App, AppError, PAGE_MAX};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConversationView {
    pub conversation: ConversationId,
    pub kind: Kind,
    /// The other participant; the user themselves in notes to self.
    pub other: Option<UserId>,
    pub last: Option<LastMessage>,
    /// What the inbox is ordered by: the time of the last message, or of the opening.
    pub moved_at: Millis,
    pub unread: u64,
    pub first_unread_at: Option<Millis>,
    pub shown: Shown,
    pub blocked_by_me: bool,
    pub blocked_me: bool,
    /// What came last may be missing: events of it wait for the operator.
    pub degraded: bool,
}

/// A conversation's last message, as a list shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastMessage {
    pub seq: Seq,
    pub at: Millis,
    pub sender: Option<UserId>,
    pub message_type: MessageType,
    /// None for content that can't be read, and for a deleted message.
    pub preview: Option<Text>,
    pub deleted: bool,
}

impl LastMessage {
    fn of(row: &MessageRow) -> LastMessage {
        LastMessage {
            seq: row.seq,
            at: row.created_at,
            sender: row.sender.clone(),
            message_type: row.message_type.clone(),
            preview: row.current().and_then(Content::preview),
            deleted: row.is_deleted(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberView {
    pub user: UserId,
    pub read: Mark,
    pub delivered: Mark,
}

impl App {
    pub async fn conversation(&self, caller: &UserId, conversation: ConversationId) -> Result<ConversationView, AppError> {
        let (head, mut row, standings) =
            tokio::try_join!(self.member(caller, conversation), self.own_row(caller, conversation), self.standings(caller))?;
        let tip = row.tip.take().map_or_else(|| Tip::of(&head), |cell| cell.value);
        let last = self.last_messages([(conversation, &tip)]).await?.pop().flatten();
        self.view(caller, &row, &tip, last.as_ref(), &standings).await
    }

    /// The rows of last messages, in order; none where there is no message.
    pub(crate) async fn last_messages<'t>(
        &self,
        tips: impl IntoIterator<Item = (ConversationId, &'t Tip)>,
    ) -> Result<Vec<Option<MessageRow>>, AppError> {
        let wanted: Vec<_> = tips.into_iter().map(|(conversation, tip)| tip.last.map(|last| (conversation, last.seq))).collect();
        let messages = wanted.iter().copied().flatten().collect();
        let known = self.store.known(&Wanted { messages, ..Wanted::default() }).await?;
        let mut found = known.messages.into_iter();
        Ok(wanted.into_iter().map(|wanted| wanted.and_then(|_| found.next().flatten())).collect())
    }

    pub async fn members(&self, caller: &UserId, conversation: ConversationId) -> Result<Vec<MemberView>, AppError> {
        let (head, rows) = tokio::try_join!(self.member(caller, conversation), self.member_rows(conversation))?;
        Ok(member_views(&head, &rows))
    }

    pub(crate) async fn member_rows(&self, conversation: ConversationId) -> Result<Vec<MemberRow>, AppError> {
        Ok(self.store.members(conversation, None, PAGE_MAX).await?)
    }

    /// What a conversation is to one user; the same for all as long as nothing was written.
    pub(crate) async fn own_row(&self, caller: &UserId, conversation: ConversationId) -> Result<InboxRow, AppError> {
        Ok(self.store.inbox_row(caller, conversation).await?.unwrap_or_else(|| InboxRow::new(conversation)))
    }

    /// The head of a conversation that the caller is a member of; to anyone else it does not exist.
    pub(crate) async fn member(&self, caller: &UserId, conversation: ConversationId) -> Result<Head, AppError> {
        self.store.head(conversation).await?.filter(|head| head.is_member(caller)).ok_or(AppError::NoConversation)
    }

    pub(crate) async fn view(
        &self,
        caller: &UserId,
        row: &InboxRow,
        tip: &Tip,
        last: Option<&MessageRow>,
        standings: &[Standing],
    ) -> Result<ConversationView, AppError> {
        let unread = self.unread_of(row, tip).await?;
        let other = tip.other(caller).cloned();
        let standing = other.as_ref().and_then(|other| standings.iter().find(|standing| standing.other == *other));
        Ok(ConversationView {
            conversation: row.conversation,
            kind: tip.kind.clone(),
            last: row.last(tip).and(last).map(LastMessage::of),
            moved_at: tip.moved_at(),
            unread,
            first_unread_at: self.first_unread_at(row, tip, last, unread).await?,
            shown: row.shown(tip),
            blocked_by_me: standing.is_some_and(|standing| standing.blocks_since().is_some()),
            blocked_me: standing.is_some_and(Standing::is_blocked_by_other),
            degraded: self.outcomes.is_parked(&row.conversation.log_key()),
            other,
        })
    }

    pub(crate) async fn unread_of(&self, row: &InboxRow, tip: &Tip) -> Result<u64, AppError> {
        match row.unread(tip) {
            Some(unread) => Ok(unread),
            None => {
                let seen = row.seen(tip).n;
                let gone = self.store.deleted_above(row.conversation, seen).await?;
                Ok(tip.n.since(seen).saturating_sub(gone))
            }
        }
    }

    /// The time of the first message above what was seen that was not deleted for everyone.
    async fn first_unread_at(&self, row: &InboxRow, tip: &Tip, last: Option<&MessageRow>, unread: u64) -> Result<Option<Millis>, AppError> {
        const STRETCH: usize = 50;
        if unread == 0 {
            return Ok(None);
        }
        if let Some(last) = last.filter(|last| unread == 1 && !last.is_deleted()) {
            // The last message is unread (own sends are seen), so if there is but one it is that.
            return Ok(Some(last.created_at));
        }
        let mut after = row.seen(tip).seq.max(tip.born.previous());
        loop {
            let range = SeqRange { after, before: Seq::MAX };
            let rows = self.store.messages(row.conversation, range, Order::OldestFirst, STRETCH).await?;
            if let Some(first) = rows.iter().find(|row| !row.is_deleted()) {
                return Ok(Some(first.created_at));
            }
            match rows.last() {
                Some(last) if rows.len() == STRETCH => after = last.seq,
                _ => return Ok(None),
            }
        }
    }
}

pub(crate) fn member_views(head: &Head, rows: &[MemberRow]) -> Vec<MemberView> {
    let view = |user: &UserId| match rows.iter().find(|row| row.user == *user) {
        None => MemberView { user: user.clone(), read: Mark::default(), delivered: Mark::default() },
        Some(row) => MemberView { user: user.clone(), read: row.read.since(head.born), delivered: row.delivered().since(head.born) },
    };
    head.members().map(view).collect()
}
