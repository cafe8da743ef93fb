//! The rows of the message store's tables that are not the head or the inbox.

use minicbor::{Decode, Encode};
use sha2::{Digest, Sha256};

use crate::{Cell, ClientId, Content, ContentHash, ConversationId, Emoji, MessageType, Metadata, Millis, N, Seq, UserId};

/// A stored message. What it was sent as never changes; edits and the deletion are in `revision`.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct MessageRow {
    #[n(0)]
    pub seq: Seq,
    #[n(1)]
    pub n: N,
    #[n(2)]
    pub created_at: Millis,
    #[n(3)]
    pub sender: Option<UserId>,
    #[n(4)]
    pub message_type: MessageType,
    /// As it was sent; none once it was deleted for everyone.
    #[n(5)]
    pub content: Option<Content>,
    #[n(6)]
    pub reply_to: Option<Seq>,
    #[n(7)]
    pub bucket: u32,
    #[n(8)]
    pub revision: Option<Cell<Revision>>,
    #[n(9)]
    pub client_id: ClientId,
    /// As it was sent; none once it was deleted for everyone.
    #[n(10)]
    pub metadata: Option<Metadata>,
}

#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Revision {
    #[n(0)]
    Edited {
        #[n(0)]
        content: Content,
        #[n(1)]
        edited_at: Millis,
    },
    /// For everyone. A marker stays.
    #[n(1)]
    Deleted {
        #[n(0)]
        by: Option<UserId>,
        #[n(1)]
        deleted_at: Millis,
    },
}

impl MessageRow {
    /// Whether it had been deleted for everyone when the event at `at` was judged.
    pub fn deleted_before(&self, at: Seq) -> bool {
        self.revision.as_ref().is_some_and(|revision| revision.at < at && matches!(revision.value, Revision::Deleted { .. }))
    }

    pub fn is_deleted(&self) -> bool {
        self.deleted_before(Seq::MAX)
    }

    /// As it reads now: the newest edit, or as it was sent; none if it was deleted.
    pub fn current(&self) -> Option<&Content> {
        match self.revision.as_ref().map(|revision| &revision.value) {
            None => self.content.as_ref(),
            Some(Revision::Edited { content, .. }) => Some(content),
            Some(Revision::Deleted { .. }) => None,
        }
    }

    /// Takes in an edit or a deletion; a deletion takes the content away with it.
    pub fn revise(&mut self, revision: Cell<Revision>) {
        Cell::merge(&mut self.revision, revision);
        if self.is_deleted() {
            self.content = None;
            self.metadata = None;
        }
    }
}

/// An earlier state of a message: what one edit made of it. Kept for the operator.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct EditRow {
    /// The edit's own place in the log.
    #[n(0)]
    pub at: Seq,
    #[n(1)]
    pub edited_at: Millis,
    #[n(2)]
    pub content: Content,
}

/// Where a stretch of at most `INDEX_EVERY` messages begins: serves look-ups by seq, by number and by time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct IndexRow {
    #[n(0)]
    pub seq: Seq,
    #[n(1)]
    pub n: N,
    #[n(2)]
    pub at: Millis,
    #[n(3)]
    pub bucket: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct ReactionRow {
    #[n(0)]
    pub target: Seq,
    #[n(1)]
    pub user: UserId,
    #[n(2)]
    pub emoji: Emoji,
    /// Taken back ones stay as rows that say so.
    #[n(3)]
    pub on: Cell<bool>,
}

/// One user's block of another, as it stood from `at` on.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct BlockRow {
    #[n(0)]
    pub blocker: UserId,
    #[n(1)]
    pub blocked: UserId,
    #[n(2)]
    pub at: Seq,
    #[n(3)]
    pub since: Millis,
    #[n(4)]
    pub on: bool,
}

/// How a user and another stand to each other.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Standing {
    #[n(0)]
    pub other: UserId,
    /// Whether the user blocks the other, and since when.
    #[n(1)]
    pub blocked_by_me: Option<Cell<Option<Millis>>>,
    /// Whether the other blocks the user.
    #[n(2)]
    pub blocked_me: Option<Cell<Option<Millis>>>,
}

impl Standing {
    pub fn new(other: UserId) -> Standing {
        Standing { other, blocked_by_me: None, blocked_me: None }
    }

    /// Takes in a block between `user`, whose row this is, and the other.
    pub fn merge(&mut self, user: &UserId, row: &BlockRow) {
        let cell = Cell { at: row.at, value: row.on.then_some(row.since) };
        Cell::merge(if row.blocker == *user { &mut self.blocked_by_me } else { &mut self.blocked_me }, cell);
    }

    /// Since when the user blocks the other.
    pub fn blocks_since(&self) -> Option<Millis> {
        self.blocked_by_me.as_ref().and_then(|cell| cell.value)
    }

    pub fn is_blocked_by_other(&self) -> bool {
        self.blocked_me.as_ref().is_some_and(|cell| cell.value.is_some())
    }
}

/// What makes two sends the same message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DedupKey {
    pub conversation: ConversationId,
    pub sender: Option<UserId>,
    pub client_id: ClientId,
}

impl DedupKey {
    /// Stands for the key where that is stored. Fixed for good: a golden vector below.
    pub fn hash(&self) -> [u8; 16] {
        let (conversation, len) = self.conversation.to_bytes();
        let mut sum = Sha256::new();
        sum.update(&conversation[..len]);
        // The system's own sends have no user: nothing before the zero byte, which no user id contains.
        sum.update(self.sender.as_ref().map_or("", UserId::as_str));
        sum.update([0]);
        sum.update(self.client_id.as_str());
        *sum.finalize().first_chunk().expect("SHA-256 has 32 bytes")
    }
}

/// A message that was accepted under a `DedupKey`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct DedupRow {
    #[n(0)]
    pub seq: Seq,
    #[n(1)]
    pub n: N,
    #[n(2)]
    pub created_at: Millis,
    #[n(3)]
    pub hash: ContentHash,
}

/// Where a row stands in its user's feed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct FeedKey {
    #[n(0)]
    pub at: Millis,
    #[n(1)]
    pub conversation: ConversationId,
    #[n(2)]
    pub seq: Seq,
}

/// Something that happened to a user: a reference, without content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct FeedRow {
    #[n(0)]
    pub key: FeedKey,
    #[n(1)]
    pub what: Happening,
    /// The message that it is about, where that is another one than the event itself.
    #[n(2)]
    pub target: Option<Seq>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum Happening {
    #[n(0)]
    Opened,
    #[n(1)]
    Message,
    #[n(2)]
    Edited,
    #[n(3)]
    Deleted,
    #[n(4)]
    Hidden,
    #[n(5)]
    Reacted,
    #[n(6)]
    Read,
    #[n(7)]
    Archived,
    #[n(8)]
    Activated,
    #[n(9)]
    ConversationDeleted,
    #[n(10)]
    Blocked,
    #[n(11)]
    Unblocked,
    /// An own event that changed nothing; its outcome is found by its seq.
    #[n(12)]
    Rejected,
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;

    use super::*;
    use crate::Pair;

    #[test]
    fn the_hash_of_a_dedup_key_is_what_it_always_was() {
        let user = |name| UserId::parse(name).unwrap();
        let conversation = ConversationId::direct(&Pair::new(user("alice"), user("bob")));
        let hash = |sender| DedupKey { conversation, sender, client_id: ClientId::parse("c1").unwrap() }.hash();
        assert_eq!(HEXLOWER.encode(&hash(Some(user("alice")))), "b55c068deabe965c6b819bc01f883b87");
        assert_eq!(HEXLOWER.encode(&hash(None)), "670b271c577550f76d9b636ff82dee53");
    }
}
