//! Small makers of rows and writes, so that a case shows only what it is about.

use dunlin_model::{
    Bucket, Cell, Content, ConversationId, Deleted, Head, Kind, Last, MessageRow, MessageType, Metadata, Millis, N, Pair, Revision, Seq,
    Tip, UserId,
};
use dunlin_ports::{Batch, MessageStore, Write};

use crate::ids;

pub fn seq(number: u64) -> Seq {
    Seq::from_u64((2 << 40) + number).expect("small numbers make seqs")
}

pub fn text(text: &str) -> Content {
    Content::text(text).expect("cases use valid texts")
}

pub fn message(number: u64) -> MessageRow {
    MessageRow {
        seq: seq(number),
        n: N(number),
        created_at: Millis(1_000 * number),
        sender: Some(ids::user()),
        message_type: MessageType::text(),
        content: Some(text(&format!("message {number}"))),
        reply_to: None,
        bucket: 0,
        revision: None,
        client_id: ids::client_id(),
        metadata: Metadata::parse([("number", &*number.to_string())]).expect("cases use valid metadata"),
    }
}

pub fn edited(at: u64, content: &str) -> Cell<Revision> {
    Cell { at: seq(at), value: Revision::Edited { content: text(content), edited_at: Millis(at) } }
}

pub fn deleted(at: u64) -> Cell<Revision> {
    Cell { at: seq(at), value: Revision::Deleted { by: None, deleted_at: Millis(at) } }
}

pub fn head(pair: &Pair, applied: u64) -> Head {
    Head {
        applied: seq(applied),
        born: seq(1),
        opened_at: Millis(1),
        n: N(applied),
        last: Some(last(applied)),
        bucket: Bucket { number: 0, messages: 1, bytes: 1 },
        kind: Kind::Direct(pair.clone()),
        deleted: Deleted::default(),
        recent: None,
    }
}

pub fn last(number: u64) -> Last {
    Last { seq: seq(number), at: Millis(number) }
}

pub fn tip(pair: &Pair, number: u64) -> Cell<Tip> {
    Cell { at: seq(number), value: Tip::of(&head(pair, number)) }
}

pub fn tip_of(user: &UserId, conversation: ConversationId, pair: &Pair, number: u64) -> Write {
    Write::InboxTip { user: user.clone(), conversation, tip: tip(pair, number).into() }
}

pub async fn apply(store: &dyn MessageStore, writes: impl IntoIterator<Item = Write>) {
    store.apply(&Batch { writes: writes.into_iter().collect(), ..Batch::default() }).await.expect("apply");
}

pub async fn write_messages(store: &dyn MessageStore, conversation: ConversationId, numbers: impl IntoIterator<Item = u64>) {
    apply(store, numbers.into_iter().map(|number| Write::Message { conversation, row: message(number).into() })).await;
}

pub fn numbers(rows: &[MessageRow]) -> Vec<u64> {
    rows.iter().map(|row| row.n.0).collect()
}
