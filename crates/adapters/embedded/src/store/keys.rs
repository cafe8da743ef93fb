//! Where each row of the message store stands in the tree: a table's letter, then what the table is ordered by.
//!
//! Numbers are eight bytes, big-endian, so that they sort. A conversation id's first letter tells its length, and a user id is closed by a zero
//! byte, which none contains: no key is the beginning of another table's or another owner's.

use dunlin_model::{ClientId, ConversationId, DedupKey, Emoji, FeedKey, LogKey, Millis, N, Partition, Seq, UserId, encode};

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

/// A key in the making.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl Key {
    pub fn new(table: u8) -> Key {
        let mut bytes = Vec::with_capacity(96);
        bytes.push(table);
        Key(bytes)
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

    pub fn build(self) -> Vec<u8> {
        self.0
    }
}

pub fn head(conversation: ConversationId) -> Vec<u8> {
    Key::new(HEAD).conversation(conversation).build()
}

pub fn message(conversation: ConversationId, seq: Seq) -> Vec<u8> {
    Key::new(MESSAGE).conversation(conversation).seq(seq).build()
}

pub fn edit(conversation: ConversationId, target: Seq, at: Seq) -> Vec<u8> {
    Key::new(EDIT).conversation(conversation).seq(target).seq(at).build()
}

pub fn index(conversation: ConversationId, n: N) -> Vec<u8> {
    Key::new(INDEX).conversation(conversation).number(n.0).build()
}

pub fn index_time(conversation: ConversationId, at: Millis, n: N) -> Vec<u8> {
    Key::new(INDEX_TIME).conversation(conversation).number(at.0).number(n.0).build()
}

pub fn deleted(conversation: ConversationId, n: N) -> Vec<u8> {
    Key::new(DELETED).conversation(conversation).number(n.0).build()
}

pub fn hidden(user: &UserId, conversation: ConversationId, target: Seq) -> Vec<u8> {
    Key::new(HIDDEN).user(user).conversation(conversation).seq(target).build()
}

pub fn reaction(conversation: ConversationId, target: Seq, user: &UserId, emoji: &Emoji) -> Vec<u8> {
    Key::new(REACTION).conversation(conversation).seq(target).user(user).bytes(emoji.as_str().as_bytes()).build()
}

/// One cell of a row, by its letter; the row's cells stand together.
pub fn inbox(user: &UserId, conversation: ConversationId, cell: u8) -> Vec<u8> {
    Key::new(INBOX).user(user).conversation(conversation).bytes(&[cell]).build()
}

pub fn member(conversation: ConversationId, user: &UserId, cell: u8) -> Vec<u8> {
    Key::new(MEMBER).conversation(conversation).user(user).bytes(&[cell]).build()
}

pub fn blocks(pair: &LogKey) -> Vec<u8> {
    Key::new(BLOCKS).bytes(pair.hash()).build()
}

pub fn standing(user: &UserId, other: &UserId, cell: u8) -> Vec<u8> {
    Key::new(STANDING).user(user).user(other).bytes(&[cell]).build()
}

pub fn feed(user: &UserId, key: &FeedKey) -> Vec<u8> {
    Key::new(FEED).user(user).number(key.at.0).conversation(key.conversation).seq(key.seq).build()
}

pub fn dedup(key: &DedupKey) -> Vec<u8> {
    let DedupKey { conversation, sender, client_id } = key;
    // The system's own sends have no user: nothing before the zero byte, which no user id is.
    let of = Key::new(DEDUP).conversation(*conversation);
    let by = match sender {
        Some(sender) => of.user(sender),
        None => of.bytes(&[0]),
    };
    by.bytes(ClientId::as_str(client_id).as_bytes()).build()
}

pub fn outcome(conversation: ConversationId, at: Seq) -> Vec<u8> {
    Key::new(OUTCOME).conversation(conversation).seq(at).build()
}

pub fn parked(key: &LogKey, at: Seq) -> Vec<u8> {
    Key::new(PARKED).bytes(&encode(key)).seq(at).build()
}

pub fn checkpoint(partition: Partition) -> Vec<u8> {
    Key::new(CHECKPOINT).number(u64::from(partition.0)).build()
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
    let zero = key.iter().position(|byte| *byte == 0)?;
    key.get(zero + 1..)?.first_chunk().map(|at| Millis(u64::from_be_bytes(*at)))
}

/// The seq or number that a key ends with.
pub fn last_number(key: &[u8]) -> Option<u64> {
    key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}
