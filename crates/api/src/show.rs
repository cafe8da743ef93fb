//! What use cases give, as it goes over the wire.

use data_encoding::BASE64;
use dunlin_app::{
    Changed, ConversationView, FeedPage, HistoryPage, HistoryQuery, MemberView, MessageView, Receipts, SendToken, Sent, Status,
};
use dunlin_model::{
    Accepted, Content, ConversationId, ConversationKind, FeedRow, Happening, Metadata, Outcome, Revision, Seq, Shown, User, UserId,
};
use dunlin_protocol as wire;
use dunlin_protocol::Time;

use crate::refusal::rejection_code;

pub(crate) fn user(user: User) -> wire::User {
    wire::User {
        id: user.id.to_string(),
        display_name: user.display_name.map(|name| name.to_string()),
        metadata: metadata(user.metadata.as_ref()),
        created_at: Time(user.created_at),
        updated_at: Time(user.updated_at),
    }
}

fn metadata(metadata: Option<&Metadata>) -> wire::Metadata {
    metadata.into_iter().flat_map(Metadata::entries).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

pub(crate) fn message(conversation: ConversationId, view: MessageView) -> wire::Message {
    let MessageView { message, reactions, status } = view;
    let (text, opaque) = match message.current() {
        None => (None, None),
        Some(Content::Text(text)) => (Some(text.to_string()), None),
        Some(Content::Opaque { content_type, bytes }) => {
            (None, Some(wire::Opaque { content_type: content_type.to_string(), data: BASE64.encode(bytes) }))
        }
    };
    let (mut edited_at, mut deleted_at, mut deleted_by) = (None, None, None);
    match message.revision.as_ref().map(|revision| &revision.value) {
        None => {}
        Some(Revision::Edited { edited_at: at, .. }) => edited_at = Some(Time(*at)),
        Some(Revision::Deleted { by, deleted_at: at }) => {
            deleted_at = Some(Time(*at));
            deleted_by = by.as_ref().map(UserId::to_string);
        }
    }
    wire::Message {
        conversation: conversation.to_string(),
        seq: message.seq.get(),
        n: message.n.0,
        created_at: Time(message.created_at),
        sender: message.sender.as_ref().map(UserId::to_string),
        message_type: message.message_type.to_string(),
        client_id: message.client_id.to_string(),
        text,
        opaque,
        reply_to: message.reply_to.map(Seq::get),
        metadata: metadata(message.metadata.as_ref()),
        edited_at,
        deleted_at,
        deleted_by,
        reactions: reactions.into_iter().map(|view| wire::Reaction { emoji: view.emoji.to_string(), users: names(view.users) }).collect(),
        status: self::status(status),
    }
}

fn names(users: Vec<UserId>) -> Vec<String> {
    users.iter().map(UserId::to_string).collect()
}

fn status(status: Status) -> wire::Status {
    match status {
        Status::Sent => wire::Status::Sent,
        Status::Delivered => wire::Status::Delivered,
        Status::Read => wire::Status::Read,
    }
}

/// Newest first: what follows is older.
pub(crate) fn history(conversation: ConversationId, page: HistoryPage) -> wire::Page<wire::Message> {
    wire::Page {
        next: page.older.and_then(|seq| HistoryQuery::Before(seq).cursor(conversation)),
        prev: page.newer.and_then(|seq| HistoryQuery::After(seq).cursor(conversation)),
        data: page.messages.into_iter().map(|view| message(conversation, view)).collect(),
    }
}

pub(crate) fn conversation(view: ConversationView) -> wire::Conversation {
    let kind = match view.conversation.kind() {
        ConversationKind::Ad => "ad",
        ConversationKind::Direct => "direct",
        ConversationKind::Group => "group",
    };
    wire::Conversation {
        id: view.conversation.to_string(),
        kind: kind.to_owned(),
        other: view.other.as_ref().map(UserId::to_string),
        last_message: view.last.map(|last| wire::LastMessage {
            seq: last.seq.get(),
            created_at: Time(last.at),
            sender: last.sender.as_ref().map(UserId::to_string),
            message_type: last.message_type.to_string(),
            preview: last.preview.as_deref().map(str::to_owned),
            deleted: last.deleted,
        }),
        active_at: Time(view.moved_at),
        unread: view.unread,
        first_unread_at: view.first_unread_at.map(Time),
        visibility: match view.shown {
            Shown::Displayed => wire::Visibility::Displayed,
            Shown::Archived => wire::Visibility::Archived,
            Shown::Deleted => wire::Visibility::Deleted,
        },
        blocked_by_me: view.blocked_by_me,
        blocked_me: view.blocked_me,
        degraded: view.degraded,
        messages: None,
    }
}

pub(crate) fn member(view: MemberView) -> wire::Member {
    let seq = |mark: dunlin_model::Mark| Some(mark.seq.get()).filter(|&seq| seq > 0);
    wire::Member { user: view.user.to_string(), read_up_to: seq(view.read), delivered_up_to: seq(view.delivered) }
}

pub(crate) fn receipts(receipts: Receipts) -> wire::Receipts {
    wire::Receipts { status: status(receipts.status), read_by: names(receipts.read_by), delivered_to: names(receipts.delivered_to) }
}

/// Not for rejected ones, which are problems.
pub(crate) fn sent(sent: Sent, client_id: String) -> wire::Sent {
    let (outcome, accepted) = match sent.outcome {
        Some(Outcome::Accepted(accepted)) => (wire::Outcome::Accepted, Some(accepted)),
        Some(Outcome::Duplicate(accepted)) => (wire::Outcome::Duplicate, Some(accepted)),
        Some(Outcome::Rejected(_) | Outcome::Done(_)) | None => (wire::Outcome::Pending, None),
    };
    wire::Sent {
        outcome,
        conversation: sent.token.conversation.to_string(),
        client_id,
        token: sent.token.to_string(),
        seq: accepted.map(|accepted| accepted.seq.get()),
        n: accepted.map(|accepted| accepted.n.0),
        created_at: accepted.map(|accepted| Time(accepted.created_at)),
    }
}

pub(crate) fn changed(changed: Changed) -> wire::Change {
    wire::Change {
        outcome: if changed.settled { wire::Outcome::Done } else { wire::Outcome::Pending },
        conversation: changed.token.conversation.to_string(),
        token: changed.token.to_string(),
    }
}

pub(crate) fn send_status(conversation: ConversationId, outcome: Option<Outcome>) -> wire::SendStatus {
    let place = |accepted: Accepted| (Some(accepted.seq), Some(accepted.n), Some(accepted.created_at));
    let (outcome, (seq, n, at), code) = match outcome {
        None => (wire::Outcome::Pending, (None, None, None), None),
        Some(Outcome::Accepted(accepted)) => (wire::Outcome::Accepted, place(accepted), None),
        Some(Outcome::Duplicate(accepted)) => (wire::Outcome::Duplicate, place(accepted), None),
        Some(Outcome::Rejected(rejection)) => {
            (wire::Outcome::Rejected, (None, None, None), Some(rejection_code(rejection).as_str().to_owned()))
        }
        Some(Outcome::Done(seq)) => (wire::Outcome::Done, (Some(seq), None, None), None),
    };
    wire::SendStatus {
        outcome,
        conversation: conversation.to_string(),
        seq: seq.map(Seq::get),
        n: n.map(|n| n.0),
        created_at: at.map(Time),
        code,
    }
}

pub(crate) fn feed(page: FeedPage) -> wire::Feed {
    wire::Feed { data: page.rows.into_iter().map(feed_item).collect(), next: page.next, safe: page.safe, reset: page.reset }
}

fn feed_item(row: FeedRow) -> wire::FeedItem {
    let event = match row.what {
        Happening::Opened => wire::Happening::Opened,
        Happening::Message => wire::Happening::Message,
        Happening::Edited => wire::Happening::Edited,
        Happening::Deleted => wire::Happening::Deleted,
        Happening::Hidden => wire::Happening::Hidden,
        Happening::Reacted => wire::Happening::Reacted,
        Happening::Read => wire::Happening::Read,
        Happening::Archived => wire::Happening::Archived,
        Happening::Activated => wire::Happening::Activated,
        Happening::ConversationDeleted => wire::Happening::ConversationDeleted,
        Happening::Blocked => wire::Happening::Blocked,
        Happening::Unblocked => wire::Happening::Unblocked,
        Happening::Rejected => wire::Happening::Rejected,
    };
    wire::FeedItem {
        event,
        conversation: row.key.conversation.to_string(),
        seq: row.key.seq.get(),
        at: Time(row.key.at),
        token: SendToken { conversation: row.key.conversation, seq: row.key.seq }.to_string(),
        target: row.target.map(Seq::get),
    }
}
