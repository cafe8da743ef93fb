//! Accepts a message, recognises it as an earlier one, or rejects it.

use dunlin_model::{
    Accepted, ContentHash, DedupKey, DedupRow, Happening, Head, IndexRow, Last, Mark, Message, MessageRow, MessageType, Millis, N, Outcome,
    RecentIds, Register, Rejection, limits,
};
use dunlin_ports::Write;

use super::{Case, Verdict, open};

pub(super) fn project(case: &Case<'_>, head: &mut Option<Head>, message: &Message, writes: &mut Vec<Write>) -> Verdict {
    let hash = message.content_hash();
    let within = case.at.time.minus(case.rules.dedup_window_ms);
    let is_same = |first: &DedupRow| first.created_at >= within && head.as_ref().is_some_and(|head| first.seq >= head.born);
    if let Some(first) = case.known.dedup.filter(is_same) {
        if first.hash != hash {
            return Err(Rejection::ClientIdReused);
        }
        return Ok(Outcome::Duplicate(Accepted { seq: first.seq, n: first.n, created_at: first.created_at }));
    }
    let born = match (&*head, &message.opening) {
        (Some(_), _) => None,
        (None, Some(opening)) if opening.conversation() == message.conversation => Some(open::born(case, opening)?),
        (None, Some(_)) => return Err(Rejection::Mismatch),
        (None, None) => return Err(Rejection::NoConversation),
    };
    let current = head.as_ref().or(born.as_ref()).ok_or(Rejection::NoConversation)?;
    may_post(case, current, message)?;
    if message.reply_to.is_some() {
        case.target(current)?;
    }
    if born.is_some() {
        *head = born;
    }
    let head = head.as_mut().ok_or(Rejection::NoConversation)?;
    let accepted = accept(case, head, message, hash, writes);
    Ok(Outcome::Accepted(accepted))
}

/// Members who don't block each other; the system, which has no sender; robots, whom the use case has checked to be configured.
fn may_post(case: &Case<'_>, head: &Head, message: &Message) -> Result<(), Rejection> {
    match &case.event.actor {
        None => Ok(()),
        Some(_) if message.message_type.as_str() == MessageType::ROBOT => Ok(()),
        Some(sender) if head.is_member(sender) => case.not_blocked(),
        Some(_) => Err(Rejection::NoConversation),
    }
}

fn accept(case: &Case<'_>, head: &mut Head, message: &Message, hash: ContentHash, writes: &mut Vec<Write>) -> Accepted {
    let (seq, created_at, conversation) = (case.at.seq, case.at.time, message.conversation);
    let sender = case.event.actor.clone();
    if case.rules.ids_in_heads {
        // Before the first message there was nothing under any id.
        let unknown_until = if head.n == N::default() { Millis::ZERO } else { created_at };
        let recent = head.recent.get_or_insert_with(|| RecentIds::new(unknown_until));
        recent.add(sender.as_ref(), &message.client_id, created_at);
    }
    head.n = head.n.next();
    let cut = head.bucket.add(message.content.bytes_len() as u64 + ROW_BYTES);
    head.last = Some(Last { seq, at: created_at });
    if cut || (head.n.0 - 1).is_multiple_of(limits::INDEX_EVERY) {
        writes.push(Write::Index { conversation, row: IndexRow { seq, n: head.n, at: created_at, bucket: head.bucket.number } });
    }
    let row = MessageRow {
        seq,
        n: head.n,
        created_at,
        sender: sender.clone(),
        message_type: message.message_type.clone(),
        content: Some(message.content.clone()),
        reply_to: message.reply_to,
        bucket: head.bucket.number,
        revision: None,
        client_id: message.client_id.clone(),
        metadata: message.metadata.clone(),
    };
    writes.push(Write::Message { conversation, row: row.into() });
    let key = DedupKey { conversation, sender: sender.clone(), client_id: message.client_id.clone() };
    writes.push(Write::Dedup { key, row: DedupRow { seq, n: head.n, created_at, hash } });
    case.tips(head, conversation, writes);
    if let Some(user) = sender.filter(|sender| head.is_member(sender)) {
        writes.push(Write::Mark { user, conversation, register: Register::Seen, mark: Mark { n: head.n, seq } });
    }
    case.feed_all(head, conversation, Happening::Message, None, writes);
    Accepted { seq, n: head.n, created_at }
}

/// What a row takes beside its content, roughly: enough to keep a bucket of tiny messages within its bytes.
const ROW_BYTES: u64 = 100;
