//! What each user sees of it, counted from scratch.

use std::{cmp::Reverse, collections::BTreeMap};

use dunlin_app::{ConversationView, LastMessage, MessageView, ReactionView, Receipts, Status, UnreadTotals};
use dunlin_model::{
    Body, Cell, Content, ConversationId, FeedKey, FeedRow, Happening, Kind, MessageRow, Millis, N, Outcome, Pair, Revision, Seq, Shown,
    UserId, VisibilityChange, limits,
};

use super::{Naive, Said, Told, changes};

impl Naive {
    /// None to whoever is not a member.
    pub fn conversation(&self, user: &UserId, conversation: ConversationId) -> Option<ConversationView> {
        let (pair, opening) = (self.pair(conversation), self.opening(conversation)?);
        if !pair.contains(user) {
            return None;
        }
        let (messages, seen, other) = (self.messages(conversation), self.seen_n(user, conversation), pair.other(user).clone());
        let last = messages.last();
        let unread = || messages.iter().filter(|said| said.n > seen && self.deletion(conversation, said.told.seq).is_none());
        Some(ConversationView {
            conversation,
            kind: Kind::Direct(pair.clone()),
            last: last.filter(|said| self.sees(user, conversation, said)).map(|said| self.last_message(conversation, said)),
            moved_at: last.map_or(opening.at, |said| said.told.at),
            unread: unread().count() as u64,
            first_unread_at: unread().next().map(|said| said.told.at),
            shown: self.shown(user, conversation),
            blocked_by_me: self.blocks(user, pair),
            blocked_me: other != *user && self.blocks(&other, pair),
            degraded: false,
            other: Some(other),
        })
    }

    /// Most recent first: what has a message, or what the user opened, unless the user deleted it since.
    pub fn inbox(&self, user: &UserId) -> Vec<ConversationView> {
        let has_place = |conversation: &ConversationId| {
            let opened = self.done_by(user, *conversation).any(|told| matches!(told.body, Body::Open(_)));
            opened || !self.messages(*conversation).is_empty()
        };
        let conversations = self.pairs.iter().map(ConversationId::direct).filter(has_place);
        let mut views: Vec<ConversationView> = conversations.filter_map(|conversation| self.conversation(user, conversation)).collect();
        views.retain(|view| view.shown != Shown::Deleted);
        views.sort_by_key(|view| (Reverse(view.moved_at), view.conversation));
        views
    }

    pub fn unread(&self, user: &UserId) -> UnreadTotals {
        let counts: Vec<u64> = self.inbox(user).iter().map(|view| view.unread).collect();
        UnreadTotals { messages: counts.iter().sum(), conversations: counts.iter().filter(|count| **count > 0).count() as u64 }
    }

    /// Newest first.
    pub fn history(&self, user: &UserId, conversation: ConversationId) -> Vec<MessageView> {
        let messages = self.messages(conversation);
        messages.iter().rev().filter(|said| self.sees(user, conversation, said)).map(|said| self.view(conversation, said)).collect()
    }

    pub fn receipts(&self, conversation: ConversationId, message: &MessageRow) -> Receipts {
        let mut receipts = Receipts { status: Status::Sent, read_by: Vec::new(), delivered_to: Vec::new() };
        let others: Vec<&UserId> = self.pair(conversation).users().filter(|user| Some(*user) != message.sender.as_ref()).collect();
        for user in &others {
            let has = |up_to: Option<Seq>| up_to.is_some_and(|seq| seq >= message.seq);
            if has(self.read_up_to(user, conversation)) {
                receipts.read_by.push((*user).clone());
            } else if has(self.delivered_up_to(user, conversation)) {
                receipts.delivered_to.push((*user).clone());
            }
        }
        receipts.status = match () {
            () if receipts.read_by.len() == others.len() => Status::Read,
            () if receipts.read_by.len() + receipts.delivered_to.len() == others.len() => Status::Delivered,
            () => Status::Sent,
        };
        receipts
    }

    /// In order of time; only what the last 400 days brought.
    pub fn feed(&self, user: &UserId) -> Vec<FeedRow> {
        let now = self.told.last().map_or(Millis::ZERO, |told| told.at);
        let kept = |told: &&Told| told.at.0 + limits::FEED_DAYS * Millis::DAY >= now.0;
        let mut rows: Vec<FeedRow> = self.told.iter().filter(kept).filter_map(|told| self.happened(user, told)).collect();
        rows.sort_by_key(|row| row.key);
        rows
    }

    fn happened(&self, user: &UserId, told: &Told) -> Option<FeedRow> {
        let (own, conversation) = (told.actor.as_ref() == Some(user), told.body.conversation());
        let pair: &Pair = match &told.body {
            Body::Block(block) => &block.pair,
            _ => self.pair(conversation?),
        };
        let member = pair.contains(user);
        let row = |happens: bool, what, target: Option<Seq>| {
            let key = FeedKey { at: told.at, conversation: ConversationId::direct(pair), seq: told.seq };
            happens.then_some(FeedRow { key, what, target })
        };
        match (&told.body, told.outcome) {
            (_, Outcome::Duplicate(_)) => None,
            (_, Outcome::Rejected(_)) => row(own, Happening::Rejected, None),
            (Body::Open(_), _) => row(own, Happening::Opened, None),
            (Body::Message(_), _) => row(member, Happening::Message, None),
            (Body::Edit(edit), _) => row(member, Happening::Edited, Some(edit.target)),
            (Body::Delete(delete), _) => {
                let first = self.deletion(conversation?, delete.target)?.seq == told.seq;
                row(member && first, Happening::Deleted, Some(delete.target))
            }
            (Body::Hide(hide), _) => row(own, Happening::Hidden, Some(hide.target)),
            (Body::React(react), _) => row(member, Happening::Reacted, Some(react.target)),
            (Body::Read(read), _) => row(own, Happening::Read, Some(read.up_to.seq)),
            (Body::Visibility(visibility), _) => match visibility.change {
                VisibilityChange::Archive => row(own, Happening::Archived, None),
                VisibilityChange::Activate => row(own, Happening::Activated, None),
                VisibilityChange::Delete => row(own, Happening::ConversationDeleted, None),
            },
            (Body::Block(block), _) => {
                let changed = told.actor.as_ref().is_some_and(|blocker| self.blocked_before(blocker, pair, told.seq) != block.on);
                row(member && changed, if block.on { Happening::Blocked } else { Happening::Unblocked }, None)
            }
            (Body::Tick(_) | Body::Unpark(..), _) => None,
        }
    }

    fn sees(&self, user: &UserId, conversation: ConversationId, said: &Said<'_>) -> bool {
        let since = self.deleted_conversation(user, conversation);
        since.is_none_or(|deleted| said.told.seq > deleted) && !self.hides(user, conversation, said.told.seq)
    }

    /// A message that came after an archiving or a deletion brings the conversation back.
    fn shown(&self, user: &UserId, conversation: ConversationId) -> Shown {
        let last = self.messages(conversation).last().map_or(Seq::ZERO, |said| said.told.seq);
        let folded = self.done_by(user, conversation).rev().find(|told| changes(told).is_some_and(|it| it != VisibilityChange::Delete));
        match folded {
            _ if self.deleted_conversation(user, conversation).is_some_and(|deleted| deleted > last) => Shown::Deleted,
            Some(told) if changes(told) == Some(VisibilityChange::Archive) && told.seq > last => Shown::Archived,
            _ => Shown::Displayed,
        }
    }

    /// What it says now; none once it is deleted.
    fn content(&self, conversation: ConversationId, said: &Said<'_>) -> Option<Content> {
        let edit = self.last_edit(conversation, said.told.seq).map(|(_, edit)| edit.content.clone());
        let deleted = self.deletion(conversation, said.told.seq).is_some();
        (!deleted).then(|| edit.unwrap_or_else(|| said.message.content.clone()))
    }

    fn last_message(&self, conversation: ConversationId, said: &Said<'_>) -> LastMessage {
        let content = self.content(conversation, said);
        let preview = match &content {
            Some(Content::Text(text)) => Some(text.chars().take(140).collect::<String>().as_str().into()),
            _ => None,
        };
        LastMessage {
            seq: said.told.seq,
            at: said.told.at,
            sender: said.told.actor.clone(),
            message_type: said.message.message_type.clone(),
            preview,
            deleted: content.is_none(),
        }
    }

    fn view(&self, conversation: ConversationId, said: &Said<'_>) -> MessageView {
        let seq = said.told.seq;
        let deletion = self.deletion(conversation, seq);
        let deleted = deletion.map(|told| (told.seq, Revision::Deleted { by: told.actor.clone(), deleted_at: told.at }));
        let edited = self.last_edit(conversation, seq);
        let edited = edited.map(|(told, edit)| (told.seq, Revision::Edited { content: edit.content.clone(), edited_at: told.at }));
        let message = MessageRow {
            seq,
            n: N(said.n),
            created_at: said.told.at,
            sender: said.told.actor.clone(),
            message_type: said.message.message_type.clone(),
            content: deletion.is_none().then(|| said.message.content.clone()),
            reply_to: said.message.reply_to,
            bucket: 0,
            revision: deleted.or(edited).map(|(at, value)| Cell { at, value }),
            client_id: said.message.client_id.clone(),
            metadata: said.message.metadata.clone().filter(|_| deletion.is_none()),
        };
        let reactions = if deletion.is_some() { Vec::new() } else { self.reactions(conversation, seq) };
        MessageView { status: self.receipts(conversation, &message).status, message, reactions }
    }

    /// By emoji, then by user.
    fn reactions(&self, conversation: ConversationId, seq: Seq) -> Vec<ReactionView> {
        let mut on: BTreeMap<_, BTreeMap<UserId, bool>> = BTreeMap::new();
        for told in self.done(conversation) {
            if let (Body::React(react), Some(user)) = (&told.body, &told.actor)
                && react.target == seq
            {
                on.entry(react.emoji.clone()).or_default().insert(user.clone(), react.on);
            }
        }
        let users = |users: BTreeMap<UserId, bool>| users.into_iter().filter(|(_, on)| *on).map(|(user, _)| user).collect::<Vec<_>>();
        let views = on.into_iter().map(|(emoji, reacted)| ReactionView { emoji, users: users(reacted) });
        views.filter(|view| !view.users.is_empty()).collect()
    }
}
