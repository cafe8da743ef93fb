//! Each message is known by its sender's own id for it, while that is kept, and still says what it said then.

use dunlin_model::{DedupKey, DedupRow, Message, MessageRow, Seq};
use dunlin_ports::{StoreError, Wanted};

use super::{Conversation, Place, Walk};

/// A later message under the same id is as good: it shows that the earlier one is out of the window it was sent in.
pub(super) async fn check_messages(walk: &mut Walk<'_>, this: Conversation<'_>, page: &[MessageRow]) -> Result<(), StoreError> {
    let kept: Vec<&MessageRow> = page.iter().filter(|row| row.created_at >= walk.dedup_since).collect();
    let key = |row: &MessageRow| DedupKey { conversation: this.id, sender: row.sender.clone(), client_id: row.client_id.clone() };
    let wanted = Wanted { dedup: kept.iter().map(|row| (key(row), Seq::MAX)).collect(), ..Wanted::default() };
    let known = walk.store.known(&wanted).await?;
    let place = Place::conversation(this.id);
    for (message, found) in kept.into_iter().zip(known.dedup) {
        let wrong = match found.filter(|found| found.seq >= message.seq) {
            None => Some("is not known by its client_id".into()),
            Some(found) if found.seq == message.seq => wrong_row(this, message, &found),
            Some(_) => None,
        };
        walk.report.dedup_rows += u64::from(wrong.is_none());
        walk.report.problems(&place, wrong.map(|wrong| format!("message n {} {wrong}", message.n.0)));
    }
    Ok(())
}

fn wrong_row(this: Conversation<'_>, message: &MessageRow, found: &DedupRow) -> Option<String> {
    if (found.n, found.created_at) != (message.n, message.created_at) {
        return Some(format!("is known by its client_id as n {} of time {}", found.n.0, found.created_at.0));
    }
    let sent = Message {
        conversation: this.id,
        opening: None,
        client_id: message.client_id.clone(),
        message_type: message.message_type.clone(),
        content: message.content.clone()?,
        reply_to: message.reply_to,
        metadata: message.metadata.clone(),
    };
    (sent.content_hash() != found.hash).then(|| "does not say what was sent".into())
}
