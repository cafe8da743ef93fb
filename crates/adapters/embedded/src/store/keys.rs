//! Where each row of the message store stands in the tree: a table's letter, then what the table is ordered by.
//!
//! Numbers are eight bytes, big-endian, so that they sort. A conversation id's first letter tells its length, and a user id is closed by a zero
//! byte, which none contains: no key is the beginning of another table's or another owner's. Where a user comes first, three bytes of a
//! checksum stand before the id: the memtable keeps the first four bytes of a key beside it, and finds its way by them alone as long as they
//! differ, which the beginnings of user ids seldom do.

use std::ops::Deref;

use dunlin_model::{ConversationId, Emoji, FeedKey, LogKey, Millis, N, Partition, Seq, UserId, encode};
use smallvec::SmallVec;

pub const HEAD: u8 = b'H';
pub const MESSAGE: u8 = b'M';
pub const EDIT: u8 = b'E';
pub const INDEX: u8 = b'I';
pub const INDEX_TIME: u8 = b'T';
pub const DELETED: u8 = b'D';
pub const HIDDEN: u8 = b'Y';
pub const REACTION: u8 = b'R';
pub const INBOX: u8 = b'X';
pub const MEMBER: u8 = b'P';
pub const BLOCKS: u8 = b'K';
pub const STANDING: u8 = b'S';
pub const FEED: u8 = b'F';
pub const DEDUP: u8 = b'U';
pub const OUTCOME: u8 = b'O';
pub const PARKED: u8 = b'Z';
pub const REPLAY: u8 = b'W';
pub const CHECKPOINT: u8 = b'C';

/// The cells of rows that have several.
pub mod cell {
    pub const TIP: u8 = b't';
    pub const DELETED: u8 = b'd';
    pub const ARCHIVED: u8 = b'a';
    pub const VEILED: u8 = b'v';
    pub const SEEN: u8 = b's';
    pub const HIDDEN: u8 = b'h';
    pub const READ: u8 = b'r';
    pub const DELIVERED: u8 = b'e';
    pub const BLOCKED_BY_ME: u8 = b'b';
    pub const BLOCKED_ME: u8 = b'm';
    /// Behind every cell of a row.
    pub const END: u8 = 0xff;
}

/// A key, or the beginning of one.
#[derive(Clone)]
pub struct Key(SmallVec<[u8; 96]>);

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Key {
    pub fn new(table: u8) -> Key {
        let mut bytes = SmallVec::new();
        bytes.push(table);
        Key(bytes)
    }

    /// The user whose rows stand together.
    pub fn owner(self, user: &UserId) -> Key {
        let [first, second, third, _] = crc32c::crc32c(user.as_str().as_bytes()).to_be_bytes();
        self.bytes(&[first, second, third]).user(user)
    }

    pub fn conversation(self, conversation: ConversationId) -> Key {
        let (bytes, len) = conversation.to_bytes();
        self.bytes(&bytes[..len])
    }

    pub fn user(self, user: &UserId) -> Key {
        self.bytes(user.as_str().as_bytes()).bytes(&[0])
    }

    pub fn number(self, number: u64) -> Key {
        self.bytes(&number.to_be_bytes())
    }

    pub fn seq(self, seq: Seq) -> Key {
        self.number(seq.get())
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Key {
        self.0.extend_from_slice(bytes);
        self
    }
}

pub fn head(conversation: ConversationId) -> Key {
    Key::new(HEAD).conversation(conversation)
}

pub fn message(conversation: ConversationId, seq: Seq) -> Key {
    Key::new(MESSAGE).conversation(conversation).seq(seq)
}

pub fn edit(conversation: ConversationId, target: Seq, at: Seq) -> Key {
    Key::new(EDIT).conversation(conversation).seq(target).seq(at)
}

pub fn index(conversation: ConversationId, n: N) -> Key {
    Key::new(INDEX).conversation(conversation).number(n.0)
}

pub fn index_time(conversation: ConversationId, at: Millis, n: N) -> Key {
    Key::new(INDEX_TIME).conversation(conversation).number(at.0).number(n.0)
}

pub fn deleted(conversation: ConversationId, n: N) -> Key {
    Key::new(DELETED).conversation(conversation).number(n.0)
}

pub fn hidden(user: &UserId, conversation: ConversationId, target: Seq) -> Key {
    Key::new(HIDDEN).owner(user).conversation(conversation).seq(target)
}

pub fn reaction(conversation: ConversationId, target: Seq, user: &UserId, emoji: &Emoji) -> Key {
    Key::new(REACTION).conversation(conversation).seq(target).user(user).bytes(emoji.as_str().as_bytes())
}

/// One cell of a row, by its letter; the row's cells stand together.
pub fn inbox(user: &UserId, conversation: ConversationId, cell: u8) -> Key {
    Key::new(INBOX).owner(user).conversation(conversation).bytes(&[cell])
}

pub fn member(conversation: ConversationId, user: &UserId, cell: u8) -> Key {
    Key::new(MEMBER).conversation(conversation).user(user).bytes(&[cell])
}

pub fn blocks(pair: &LogKey) -> Key {
    Key::new(BLOCKS).bytes(pair.hash())
}

pub fn standing(user: &UserId, other: &UserId, cell: u8) -> Key {
    Key::new(STANDING).owner(user).user(other).bytes(&[cell])
}

pub fn feed(user: &UserId, key: &FeedKey) -> Key {
    Key::new(FEED).owner(user).number(key.at.0).conversation(key.conversation).seq(key.seq)
}

/// By the hash of a `DedupKey`.
pub fn dedup(hash: &[u8; 16]) -> Key {
    Key::new(DEDUP).bytes(hash)
}

pub fn outcome(conversation: ConversationId, at: Seq) -> Key {
    Key::new(OUTCOME).conversation(conversation).seq(at)
}

pub fn parked(key: &LogKey, at: Seq) -> Key {
    Key::new(PARKED).bytes(&encode(key)).seq(at)
}

pub fn replay(key: &LogKey, at: Seq) -> Key {
    Key::new(REPLAY).bytes(&encode(key)).seq(at)
}

pub fn checkpoint(partition: Partition) -> Key {
    Key::new(CHECKPOINT).number(u64::from(partition.0))
}

/// The part of a feed row's key behind its user: time, conversation, seq.
pub fn feed_key(rest: &[u8]) -> Option<FeedKey> {
    let (at, rest) = rest.split_first_chunk()?;
    let (conversation, seq) = rest.split_last_chunk()?;
    let seq = Seq::from_u64(u64::from_be_bytes(*seq))?;
    Some(FeedKey { at: Millis(u64::from_be_bytes(*at)), conversation: ConversationId::from_bytes(conversation)?, seq })
}

/// The time in a feed row's key, which stands behind the user's closing zero byte.
pub fn feed_time(key: &[u8]) -> Option<Millis> {
    let user = key.get(4..)?;
    let zero = user.iter().position(|byte| *byte == 0)?;
    user.get(zero + 1..)?.first_chunk().map(|at| Millis(u64::from_be_bytes(*at)))
}

/// The seq or number that a key ends with.
pub fn last_number(key: &[u8]) -> Option<u64> {
    key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}
