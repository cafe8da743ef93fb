//! Columns to rows of the model and back. What can't be one is corrupt: only this program writes.

use std::{collections::BTreeMap, fmt::Display, str::FromStr};

use dunlin_model::{
    Cell, ClientId, Content, ConversationId, Happening, InboxRow, IndexRow, Mark, MessageRow, MessageType, Metadata, Millis, N, Revision,
    Seq, UserId, decode,
};
use dunlin_ports::StoreError;
use scylla::{
    DeserializeRow,
    value::{CqlTimestamp, MaybeUnset},
};

use crate::error::{OrCorrupt as _, corrupt};

/// One message's columns, in whatever order their writes arrived.
#[derive(DeserializeRow)]
pub(crate) struct MessageColumns {
    seq: i64,
    n: Option<i64>,
    created_at: Option<CqlTimestamp>,
    sender: Option<String>,
    message_type: Option<String>,
    client_id: Option<String>,
    reply_to: Option<i64>,
    body_text: Option<String>,
    body_type: Option<String>,
    body_opaque: Option<Vec<u8>>,
    metadata: Option<BTreeMap<String, String>>,
    thread: String,
    is_long: Option<bool>,
    revision: Option<String>,
    revised_at: Option<CqlTimestamp>,
    revised_by: Option<String>,
    new_text: Option<String>,
    new_type: Option<String>,
    new_opaque: Option<Vec<u8>>,
    revised: Option<i64>,
}

impl MessageColumns {
    /// Whether its conversation has more than one bucket; only those in the first can tell.
    pub fn is_long(&self) -> bool {
        self.is_long.unwrap_or(false)
    }

    /// None while only its revision has arrived.
    pub fn row(self) -> Result<Option<MessageRow>, StoreError> {
        let (Some(number), Some(created_at), Some(message_type), Some(client_id)) =
            (self.n, self.created_at, &self.message_type, &self.client_id)
        else {
            return Ok(None);
        };
        let at = self.revised.map(seq).transpose()?;
        let revision = match (self.revision.as_deref(), at) {
            (None, _) | (_, None) => None,
            (Some("edited"), Some(at)) => {
                let content = content(self.new_text.as_deref(), self.new_type.as_deref(), self.new_opaque.as_deref())?;
                let content = content.ok_or_else(|| corrupt(&"an edited message has no new content"))?;
                Some(Cell { at, value: Revision::Edited { content, edited_at: self.revised_at.map(millis).unwrap_or_default() } })
            }
            (Some("deleted"), Some(at)) => {
                let by = self.revised_by.as_deref().filter(|by| !by.is_empty()).map(parsed).transpose()?;
                Some(Cell { at, value: Revision::Deleted { by, deleted_at: self.revised_at.map(millis).unwrap_or_default() } })
            }
            (Some(other), _) => return Err(corrupt(&format!("{other:?} is no revision"))),
        };
        let entries = self.metadata.iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()));
        Ok(Some(MessageRow {
            seq: seq(self.seq)?,
            n: n(number),
            created_at: millis(created_at),
            sender: self.sender.as_deref().map(parsed).transpose()?,
            message_type: MessageType::parse(message_type).map_err(|error| corrupt(&error))?,
            content: content(self.body_text.as_deref(), self.body_type.as_deref(), self.body_opaque.as_deref())?,
            reply_to: self.reply_to.map(seq).transpose()?,
            bucket: bucket_of_thread(&self.thread)?,
            revision,
            client_id: ClientId::parse(client_id).map_err(|error| corrupt(&error))?,
            metadata: Metadata::parse(entries).map_err(|error| corrupt(&error))?,
        }))
    }
}

#[derive(DeserializeRow)]
pub(crate) struct InboxColumns {
    conversation: String,
    tip: Option<Vec<u8>>,
    tip_at: Option<i64>,
    deleted: Option<Vec<u8>>,
    deleted_at: Option<i64>,
    seen_n: Option<i64>,
    seen_at: Option<i64>,
    hidden_n: Option<i64>,
    hidden_at: Option<i64>,
    archived: Option<i64>,
    archived_at: Option<i64>,
    veiled: Option<i64>,
    veiled_at: Option<i64>,
}

impl InboxColumns {
    pub fn row(self) -> Result<InboxRow, StoreError> {
        let mut row = InboxRow::new(parsed(&self.conversation)?);
        row.tip = cell(self.tip, self.tip_at)?.map(|(at, tip)| decode(&tip).map(|value| Cell { at, value })).transpose().or_corrupt()?;
        row.deleted = cell(self.deleted, self.deleted_at)?
            .map(|(at, deleted)| decode(&deleted).map(|value| Cell { at, value }))
            .transpose()
            .or_corrupt()?;
        row.seen = mark(self.seen_n, self.seen_at)?;
        row.hidden = mark(self.hidden_n, self.hidden_at)?;
        row.archived = match cell(self.archived, self.archived_at)? {
            None => None,
            Some((at, covered)) => Some(Cell { at, value: Some(seq(covered)?).filter(|covered| *covered > Seq::ZERO) }),
        };
        row.veiled = match cell(self.veiled, self.veiled_at)? {
            None => None,
            Some((at, veiled)) => Some(Cell { at, value: seq(veiled)? }),
        };
        Ok(row)
    }
}

/// n, seq, at, bucket
pub(crate) type IndexColumns = (i64, i64, CqlTimestamp, i32);

pub(crate) fn index_row((number, at_seq, at, in_bucket): IndexColumns) -> Result<IndexRow, StoreError> {
    Ok(IndexRow { seq: seq(at_seq)?, n: n(number), at: millis(at), bucket: bucket(in_bucket)? })
}

/// A value with the seq that wrote it.
pub(crate) fn cell<T>(value: Option<T>, written: Option<i64>) -> Result<Option<(Seq, T)>, StoreError> {
    match (value, written) {
        (Some(value), Some(written)) => Ok(Some((seq(written)?, value))),
        _ => Ok(None),
    }
}

/// A register's number; what wrote it is the seq of the marked message.
pub(crate) fn mark(number: Option<i64>, written: Option<i64>) -> Result<Mark, StoreError> {
    Ok(cell(number, written)?.map_or_else(Mark::default, |(seq, number)| Mark { n: n(number), seq }))
}

/// Blank ones were taken away by a deletion.
pub(crate) fn content(text: Option<&str>, content_type: Option<&str>, opaque: Option<&[u8]>) -> Result<Option<Content>, StoreError> {
    let filled = |text: &&str| !text.is_empty();
    if let Some(text) = text.filter(filled) {
        return Content::text(text).map(Some).map_err(|error| corrupt(&error));
    }
    match (content_type.filter(filled), opaque) {
        (Some(content_type), Some(bytes)) => Content::opaque(content_type, bytes).map(Some).map_err(|error| corrupt(&error)),
        _ => Ok(None),
    }
}

/// A content's columns: text, type and bytes; one of text and bytes is unset.
pub(crate) type ContentColumns<'a> = (MaybeUnset<&'a str>, MaybeUnset<&'a str>, MaybeUnset<&'a [u8]>);

pub(crate) fn content_columns(content: Option<&Content>) -> ContentColumns<'_> {
    match content {
        None => (MaybeUnset::Unset, MaybeUnset::Unset, MaybeUnset::Unset),
        Some(Content::Text(text)) => (MaybeUnset::Set(text), MaybeUnset::Unset, MaybeUnset::Unset),
        Some(Content::Opaque { content_type, bytes }) => (MaybeUnset::Unset, MaybeUnset::Set(content_type), MaybeUnset::Set(bytes)),
    }
}

/// The same, with blanks: a later text must hide the bytes of an earlier edit.
pub(crate) fn filled_columns(content: &Content) -> (&str, &str, &[u8]) {
    match content {
        Content::Text(text) => (text, "", &[]),
        Content::Opaque { content_type, bytes } => ("", content_type, bytes),
    }
}

const HAPPENINGS: [(Happening, &str); 13] = [
    (Happening::Opened, "opened"),
    (Happening::Message, "message"),
    (Happening::Edited, "edited"),
    (Happening::Deleted, "deleted"),
    (Happening::Hidden, "hidden"),
    (Happening::Reacted, "reacted"),
    (Happening::Read, "read"),
    (Happening::Archived, "archived"),
    (Happening::Activated, "activated"),
    (Happening::ConversationDeleted, "conversation_deleted"),
    (Happening::Blocked, "blocked"),
    (Happening::Unblocked, "unblocked"),
    (Happening::Rejected, "rejected"),
];

pub(crate) fn name_of(what: Happening) -> &'static str {
    HAPPENINGS.iter().find(|(happening, _)| *happening == what).expect("every happening has a name, as a test sees to").1
}

pub(crate) fn happening(name: &str) -> Result<Happening, StoreError> {
    let found = HAPPENINGS.iter().find(|(_, known)| *known == name);
    found.map(|(happening, _)| *happening).ok_or_else(|| corrupt(&format!("{name:?} is nothing that happens")))
}

pub(crate) fn seq(value: i64) -> Result<Seq, StoreError> {
    u64::try_from(value).ok().and_then(Seq::from_u64).ok_or_else(|| corrupt(&format!("{value} is no seq")))
}

/// Seqs lie below 2^53.
pub(crate) fn of_seq(seq: Seq) -> i64 {
    seq.get().cast_signed()
}

pub(crate) fn n(value: i64) -> N {
    N(u64::try_from(value).unwrap_or(0))
}

/// The highest stands for all that are higher: no conversation has so many messages.
pub(crate) fn of_n(n: N) -> i64 {
    i64::try_from(n.0).unwrap_or(i64::MAX)
}

pub(crate) fn millis(at: CqlTimestamp) -> Millis {
    Millis(u64::try_from(at.0).unwrap_or(0))
}

pub(crate) fn of_millis(at: Millis) -> CqlTimestamp {
    CqlTimestamp(i64::try_from(at.0).unwrap_or(i64::MAX))
}

pub(crate) fn bucket(value: i32) -> Result<u32, StoreError> {
    u32::try_from(value).map_err(|error| corrupt(&error))
}

/// What the partition of a bucket is called. The first one has the name of its conversation, so what is written to both is one mutation.
pub(crate) fn thread(conversation: ConversationId, bucket: u32) -> String {
    if bucket == 0 { conversation.to_string() } else { format!("{conversation}/{bucket}") }
}

fn bucket_of_thread(thread: &str) -> Result<u32, StoreError> {
    thread.split_once('/').map_or(Ok(0), |(_, bucket)| bucket.parse().map_err(|error| corrupt(&error)))
}

pub(crate) fn of_bucket(bucket: u32) -> i32 {
    i32::try_from(bucket).unwrap_or(i32::MAX)
}

pub(crate) fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|error: T::Err| corrupt(&format!("{text:?} {error}")))
}

pub(crate) fn user(text: &str) -> Result<UserId, StoreError> {
    parsed(text)
}

/// Where a conversation stands in inboxes. Those of ads and of large groups will have slices of their own.
pub(crate) fn slice_of(_: ConversationId) -> &'static str {
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_happening_has_a_name_of_its_own() {
        for (what, name) in HAPPENINGS {
            assert_eq!((name_of(what), happening(name).ok()), (name, Some(what)));
        }
    }
}
