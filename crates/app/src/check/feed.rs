//! Feeds, both ways: each message stands in the feed of every member, and what stands in a feed is there.

use std::collections::{BTreeMap, BTreeSet};

use dunlin_model::{ConversationId, FeedKey, FeedRow, Happening, Head, MessageRow, Outcome, OutcomeRow, Seq, UserId};
use dunlin_ports::{StoreError, Wanted};
use futures::{StreamExt, TryStreamExt, stream};

use super::{Conversation, PAGE, Place, READS_AT_ONCE, Walk};

pub(super) async fn check_messages(walk: &mut Walk<'_>, this: Conversation<'_>, page: &[MessageRow]) -> Result<(), StoreError> {
    let kept: Vec<&MessageRow> = page.iter().filter(|row| row.created_at >= walk.feed_since).collect();
    for user in this.head.members() {
        let found: Vec<Vec<FeedRow>> = stream::iter(&kept)
            .map(|message| walk.store.feed(user, FeedKey { seq: message.seq.previous(), ..key(this.id, message) }, 1))
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await?;
        for (message, found) in kept.iter().zip(found) {
            let right = FeedRow { key: key(this.id, message), what: Happening::Message, target: None };
            if found.first() != Some(&right) && !is_shown_later(walk, user, right).await? {
                walk.report.problem(&Place::member(this.id, user), format!("message n {} is not in the feed", message.n.0));
            }
        }
    }
    Ok(())
}

async fn is_shown_later(walk: &Walk<'_>, user: &UserId, right: FeedRow) -> Result<bool, StoreError> {
    let FeedKey { at, conversation, seq } = right.key;
    for at in walk.shown_at(conversation, seq, at).skip(1) {
        let found = walk.store.feed(user, FeedKey { at, conversation, seq: seq.previous() }, 1).await?;
        if found.first() == Some(&FeedRow { key: FeedKey { at, ..right.key }, ..right }) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// All that is kept of a user's feed.
pub(super) async fn check_user(walk: &mut Walk<'_>, user: &UserId) -> Result<(), StoreError> {
    let mut after = FeedKey { at: walk.feed_since, conversation: ConversationId::FIRST, seq: Seq::ZERO };
    loop {
        let rows = walk.store.feed(user, after, PAGE).await?;
        check_rows(walk, user, &rows).await?;
        if !walk.onward(&Place::user(user), &mut after, rows.last().map(|row| row.key)) {
            return Ok(());
        }
    }
}

fn key(conversation: ConversationId, message: &MessageRow) -> FeedKey {
    FeedKey { at: message.created_at, conversation, seq: message.seq }
}

async fn check_rows(walk: &mut Walk<'_>, user: &UserId, rows: &[FeedRow]) -> Result<(), StoreError> {
    let conversations: BTreeSet<ConversationId> = rows.iter().map(|row| row.key.conversation).collect();
    let conversations: Vec<ConversationId> = conversations.into_iter().collect();
    let messages = rows.iter().map(|row| (row.key.conversation, row.target.unwrap_or(row.key.seq))).collect();
    let known = walk.store.known(&Wanted { heads: conversations.clone(), messages, ..Wanted::default() }).await?;
    let heads: BTreeMap<ConversationId, Option<Head>> = conversations.into_iter().zip(known.heads).collect();
    for (row, message) in rows.iter().zip(known.messages) {
        walk.report.feed_rows += 1;
        let head = heads.get(&row.key.conversation).and_then(Option::as_ref);
        let wrong = match row.what {
            // Between two users who may have no conversation.
            Happening::Blocked | Happening::Unblocked => None,
            Happening::Rejected => wrong_rejection(walk, row).await?,
            _ => wrong_in_conversation(walk, user, row, head, message.as_ref()),
        };
        let place = Place::member(row.key.conversation, user);
        walk.report.problems(&place, wrong.map(|wrong| format!("feed row {:?} of seq {} {wrong}", row.what, row.key.seq)));
    }
    Ok(())
}

async fn wrong_rejection(walk: &Walk<'_>, row: &FeedRow) -> Result<Option<&'static str>, StoreError> {
    let outcome = walk.store.outcome(row.key.conversation, row.key.seq).await?;
    Ok((!matches!(outcome, Some(OutcomeRow { outcome: Outcome::Rejected(_), .. }))).then_some("has no rejection for its outcome"))
}

fn wrong_in_conversation(
    walk: &Walk<'_>,
    user: &UserId,
    row: &FeedRow,
    head: Option<&Head>,
    message: Option<&MessageRow>,
) -> Option<&'static str> {
    let Some(head) = head else { return Some("is of a conversation that does not exist") };
    if row.key.seq < head.born {
        return None; // Of an earlier life of the conversation: void.
    }
    match row.what {
        _ if !head.is_member(user) => Some("is of a conversation that the user is no member of"),
        _ if row.key.seq > head.applied => Some("lies beyond the last event applied"),
        Happening::Message => wrong_message(walk, row, message),
        Happening::Edited | Happening::Deleted | Happening::Hidden | Happening::Reacted | Happening::Read => wrong_target(row, message),
        _ => None,
    }
}

fn wrong_message(walk: &Walk<'_>, row: &FeedRow, message: Option<&MessageRow>) -> Option<&'static str> {
    match message {
        None => Some("is of a message that does not exist"),
        Some(_) if row.target.is_some() => Some("names another message as well"),
        Some(message) => {
            let mut times = walk.shown_at(row.key.conversation, row.key.seq, message.created_at);
            (!times.any(|time| time == row.key.at)).then_some("has another time than its message")
        }
    }
}

fn wrong_target(row: &FeedRow, message: Option<&MessageRow>) -> Option<&'static str> {
    match (row.target, message) {
        (None, _) => Some("names no message"),
        (Some(_), None) => Some("is about a message that does not exist"),
        (Some(_), Some(_)) => None,
    }
}
