//! Who and which: user ids, conversation ids, and the log key that a conversation id tells.
//!
//! Direct and ad conversation ids are a hash of what identifies them, so create-or-get needs no lock and can't race. The hash
//! is fixed for good: golden vectors below.

use std::{fmt, str::FromStr, sync::Arc};

use data_encoding::BASE32_NOPAD;
use minicbor::{Decode, Encode, bytes::ByteArray, decode, encode};
use sha2::{Digest, Sha256};

use crate::{Partition, limits};

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidId {
    #[error("must have 1 to {} characters of A-Z a-z 0-9 . _ : @ -", limits::USER_ID_CHARS_MAX)]
    User,
    #[error("must have 1 to {} bytes and no control characters", limits::AD_ID_BYTES_MAX)]
    Ad,
    #[error("is not a conversation id")]
    Conversation,
    #[error("is not a log key")]
    LogKey,
}

/// A user, by the id that the host application chose.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(Arc<str>);

impl UserId {
    pub fn parse(text: &str) -> Result<UserId, InvalidId> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@-".contains(&byte);
        if text.is_empty() || text.len() > limits::USER_ID_CHARS_MAX || !text.bytes().all(allowed) {
            return Err(InvalidId::User);
        }
        Ok(UserId(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where events about this user alone are ordered.
    pub fn log_key(&self) -> LogKey {
        LogKey { kind: LogKeyKind::User, hash: hash128(b"u", &[self.as_str()]) }
    }
}

/// An ad of the host application's marketplace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdId(Arc<str>);

impl AdId {
    pub fn parse(text: &str) -> Result<AdId, InvalidId> {
        if text.is_empty() || text.len() > limits::AD_ID_BYTES_MAX || text.chars().any(char::is_control) {
            return Err(InvalidId::Ad);
        }
        Ok(AdId(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! text_id {
    ($id:ident) => {
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl FromStr for $id {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<$id, InvalidId> {
                $id::parse(text)
            }
        }

        impl<C> Encode<C> for $id {
            fn encode<W: encode::Write>(&self, e: &mut minicbor::Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
                e.str(&self.0)?.ok()
            }
        }

        impl<'b, C> Decode<'b, C> for $id {
            fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<$id, decode::Error> {
                $id::parse(d.str()?).map_err(|invalid| decode::Error::message(invalid.to_string()))
            }
        }
    };
}
text_id!(UserId);
text_id!(AdId);

/// Two users, ordered bytewise. A pair of one and the same is "notes to self".
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct Pair {
    #[n(0)]
    low: UserId,
    #[n(1)]
    high: UserId,
}

impl Pair {
    pub fn new(one: UserId, other: UserId) -> Pair {
        if one <= other { Pair { low: one, high: other } } else { Pair { low: other, high: one } }
    }

    /// Each user of the pair once.
    pub fn users(&self) -> impl Iterator<Item = &UserId> {
        [&self.low, &self.high].into_iter().take(if self.low == self.high { 1 } else { 2 })
    }

    pub fn contains(&self, user: &UserId) -> bool {
        *user == self.low || *user == self.high
    }

    /// The one that is not `user`; `user` itself in notes to self.
    pub fn other(&self, user: &UserId) -> &UserId {
        if *user == self.low { &self.high } else { &self.low }
    }

    /// Where everything between these two is ordered: their conversations and their blocks.
    pub fn log_key(&self) -> LogKey {
        LogKey { kind: LogKeyKind::Pair, hash: self.hash() }
    }

    fn hash(&self) -> [u8; 16] {
        hash128(b"p", &[self.low.as_str(), self.high.as_str()])
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ConversationKind {
    // In the order of their letters, so that ids order as their bytes do.
    Ad,
    Direct,
    Group,
}

/// A conversation. Tells its kind and its log key, so a send by id needs no look-up to find its partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationId {
    kind: ConversationKind,
    key: [u8; 16],
    /// Which ad and roles; zero for the other kinds.
    ad: [u8; 8],
}

impl ConversationId {
    /// Before every other in the order of bytes.
    pub const FIRST: ConversationId = ConversationId { kind: ConversationKind::Ad, key: [0; 16], ad: [0; 8] };

    pub fn direct(pair: &Pair) -> ConversationId {
        ConversationId { kind: ConversationKind::Direct, key: pair.hash(), ad: [0; 8] }
    }

    pub fn ad(ad: &AdId, buyer: &UserId, seller: &UserId) -> ConversationId {
        let hash = hash128(b"a", &[ad.as_str(), buyer.as_str(), seller.as_str()]);
        let pair = Pair::new(buyer.clone(), seller.clone());
        ConversationId { kind: ConversationKind::Ad, key: pair.hash(), ad: *hash.first_chunk().expect("16 bytes begin with 8") }
    }

    /// A group's id is random: 128 bits from the caller.
    pub fn group(random: [u8; 16]) -> ConversationId {
        ConversationId { kind: ConversationKind::Group, key: random, ad: [0; 8] }
    }

    pub fn kind(&self) -> ConversationKind {
        self.kind
    }

    pub fn log_key(&self) -> LogKey {
        let kind = match self.kind {
            ConversationKind::Direct | ConversationKind::Ad => LogKeyKind::Pair,
            ConversationKind::Group => LogKeyKind::Group,
        };
        LogKey { kind, hash: self.key }
    }

    /// The id as ordered bytes: the kind's letter, the log key's hash, and the ad's hash for ads.
    pub fn to_bytes(&self) -> ([u8; 25], usize) {
        let mut bytes = [0; 25];
        bytes[0] = self.letter();
        bytes[1..17].copy_from_slice(&self.key);
        bytes[17..].copy_from_slice(&self.ad);
        (bytes, if self.kind == ConversationKind::Ad { 25 } else { 17 })
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<ConversationId> {
        let (&letter, rest) = bytes.split_first()?;
        let kind = match (letter, rest.len()) {
            (b'd', 16) => ConversationKind::Direct,
            (b'a', 24) => ConversationKind::Ad,
            (b'g', 16) => ConversationKind::Group,
            _ => return None,
        };
        let (key, ad) = rest.split_first_chunk()?;
        Some(ConversationId { kind, key: *key, ad: ad.first_chunk().copied().unwrap_or_default() })
    }

    fn letter(&self) -> u8 {
        match self.kind {
            ConversationKind::Direct => b'd',
            ConversationKind::Ad => b'a',
            ConversationKind::Group => b'g',
        }
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, len) = self.to_bytes();
        write!(f, "{}{}", char::from(bytes[0]), BASE32_NOPAD.encode(&bytes[1..len]).to_ascii_lowercase())
    }
}

impl fmt::Debug for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ConversationId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<ConversationId, InvalidId> {
        const TEXT_CHARS_MAX: usize = 40;
        if !text.is_ascii() || text.is_empty() || text.len() > TEXT_CHARS_MAX || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(InvalidId::Conversation);
        }
        let (letter, rest) = text.split_at(1);
        let hash = BASE32_NOPAD.decode(rest.to_ascii_uppercase().as_bytes()).map_err(|_| InvalidId::Conversation)?;
        ConversationId::from_bytes(&[letter.as_bytes(), &hash].concat()).ok_or(InvalidId::Conversation)
    }
}

impl<C> Encode<C> for ConversationId {
    fn encode<W: encode::Write>(&self, e: &mut minicbor::Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        let (bytes, len) = self.to_bytes();
        e.bytes(&bytes[..len])?.ok()
    }
}

impl<'b, C> Decode<'b, C> for ConversationId {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<ConversationId, decode::Error> {
        ConversationId::from_bytes(d.bytes()?).ok_or_else(|| decode::Error::message("is not a conversation id"))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(index_only)]
enum LogKeyKind {
    #[n(0)]
    Pair,
    #[n(1)]
    Group,
    #[n(2)]
    User,
    #[n(3)]
    Partition,
    #[n(4)]
    Stranger,
}

/// What the log orders by: events of one log key are read in the order in which they were appended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogKey {
    kind: LogKeyKind,
    hash: [u8; 16],
}

impl LogKey {
    /// For events about a partition alone; it lies in that one.
    pub fn of_partition(partition: Partition) -> LogKey {
        LogKey::within(partition, LogKeyKind::Partition)
    }

    /// For what stands in a partition and is no event of ours; it lies in that one.
    pub fn of_strangers(partition: Partition) -> LogKey {
        LogKey::within(partition, LogKeyKind::Stranger)
    }

    pub fn is_of_strangers(&self) -> bool {
        self.kind == LogKeyKind::Stranger
    }

    fn within(partition: Partition, kind: LogKeyKind) -> LogKey {
        let mut hash = [0; 16];
        hash[..8].copy_from_slice(&u64::from(partition.0).to_be_bytes());
        LogKey { kind, hash }
    }

    /// The part of the log that holds this key. Fixed for the life of a log: the partition count never changes.
    pub fn partition(&self, partitions: u32) -> Partition {
        let head = u64::from_be_bytes(*self.hash.first_chunk().expect("16 bytes begin with 8"));
        Partition(u32::try_from(head % u64::from(partitions.max(1))).expect("a remainder of a u32 fits"))
    }

    /// The hash alone, for keys of tables that hold one kind.
    pub fn hash(&self) -> &[u8; 16] {
        &self.hash
    }
}

/// A letter for its kind and the hash, for operators: a direct conversation's id is the same but for the letter.
impl fmt::Display for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.kind {
            LogKeyKind::Pair => 'p',
            LogKeyKind::Group => 'g',
            LogKeyKind::User => 'u',
            LogKeyKind::Partition => 't',
            LogKeyKind::Stranger => 's',
        };
        write!(f, "{letter}{}", BASE32_NOPAD.encode(&self.hash).to_ascii_lowercase())
    }
}

impl FromStr for LogKey {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<LogKey, InvalidId> {
        let (letter, rest) = text.split_at_checked(1).ok_or(InvalidId::LogKey)?;
        let kind = match letter {
            "p" => LogKeyKind::Pair,
            "g" => LogKeyKind::Group,
            "u" => LogKeyKind::User,
            "t" => LogKeyKind::Partition,
            "s" => LogKeyKind::Stranger,
            _ => return Err(InvalidId::LogKey),
        };
        let hash = BASE32_NOPAD.decode(rest.to_ascii_uppercase().as_bytes()).map_err(|_| InvalidId::LogKey)?;
        Ok(LogKey { kind, hash: hash.try_into().map_err(|_| InvalidId::LogKey)? })
    }
}

impl<C> Encode<C> for LogKey {
    fn encode<W: encode::Write>(&self, e: &mut minicbor::Encoder<W>, c: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.array(2)?.encode_with(self.kind, c)?.encode_with(ByteArray::from(self.hash), c)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for LogKey {
    fn decode(d: &mut minicbor::Decoder<'b>, c: &mut C) -> Result<LogKey, decode::Error> {
        if d.array()? != Some(2) {
            return Err(decode::Error::message("a log key has two parts"));
        }
        Ok(LogKey { kind: d.decode_with(c)?, hash: d.decode_with::<C, ByteArray<16>>(c)?.into() })
    }
}

/// The first 128 bits of SHA-256 over the kind and the fields, each after its length (four bytes, big-endian), so that no two lists of
/// fields look alike.
fn hash128(kind: &[u8], fields: &[&str]) -> [u8; 16] {
    let mut hash = Sha256::new();
    for field in std::iter::once(kind).chain(fields.iter().map(|field| field.as_bytes())) {
        hash.update(u32::try_from(field.len()).expect("ids are short").to_be_bytes());
        hash.update(field);
    }
    *hash.finalize().first_chunk().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_key_reads_back_from_its_text() {
        let keys = [Pair::new(user("ann"), user("bea")).log_key(), user("ann").log_key(), LogKey::of_partition(Partition(7))];
        for key in keys {
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        for wrong in ["", "p", "é", "xaaaa", "paaaa", "p!"] {
            assert_eq!(wrong.parse::<LogKey>(), Err(InvalidId::LogKey), "{wrong}");
        }
    }

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    #[test]
    fn ids_are_what_they_always_were() {
        let pair = Pair::new(user("bob"), user("alice"));
        let direct = ConversationId::direct(&pair);
        let ad = ConversationId::ad(&AdId::parse("ad:1").unwrap(), &user("bob"), &user("alice"));
        let group = ConversationId::group(*b"0123456789abcdef");
        assert_eq!(direct.to_string(), "drqwz4566wtaz7bozcmntbrvcxa");
        assert_eq!(ad.to_string(), "arqwz4566wtaz7bozcmntbrvcxc7l2bquife5kii");
        assert_eq!(group.to_string(), "ggaytemzugu3doobzmfrggzdfmy");
        assert_eq!(direct.log_key().partition(1024), Partition(415));
        assert_eq!(user("alice").log_key().partition(1024), Partition(359));
    }

    #[test]
    fn a_pair_has_one_conversation_whoever_opens_it() {
        let one = ConversationId::direct(&Pair::new(user("a"), user("b")));
        let other = ConversationId::direct(&Pair::new(user("b"), user("a")));
        assert_eq!(one, other);
    }

    #[test]
    fn ids_with_colons_do_not_collide() {
        let one = ConversationId::direct(&Pair::new(user("a:b"), user("c")));
        let other = ConversationId::direct(&Pair::new(user("a"), user("b:c")));
        assert_ne!(one, other);
    }

    #[test]
    fn an_ads_conversation_shares_the_log_key_of_its_pair() {
        let pair = Pair::new(user("bob"), user("alice"));
        let ad = ConversationId::ad(&AdId::parse("7").unwrap(), &user("alice"), &user("bob"));
        assert_eq!(ad.log_key(), pair.log_key());
        let swapped = ConversationId::ad(&AdId::parse("7").unwrap(), &user("bob"), &user("alice"));
        assert_ne!(ad, swapped, "the roles are part of the identity");
    }

    #[test]
    fn a_conversation_id_reads_back_and_nothing_else_does() {
        let pair = Pair::new(user("bob"), user("alice"));
        let ad = ConversationId::ad(&AdId::parse("7").unwrap(), &user("alice"), &user("bob"));
        for id in [ConversationId::direct(&pair), ad, ConversationId::group([7; 16])] {
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(id.to_string().to_uppercase().parse::<ConversationId>(), Err(InvalidId::Conversation));
        }
        for wrong in ["", "d", "x", "dlpwa", "dé", "drqwz4566wtaz7bozcmntbrvcxaaaaaaaaaaaaaaa", "zrqwz4566wtaz7bozcmntbrvcxa"] {
            assert_eq!(wrong.parse::<ConversationId>(), Err(InvalidId::Conversation), "{wrong}");
        }
    }

    #[test]
    fn a_partitions_own_key_lies_in_it() {
        for number in [0, 1, 15, 1_023] {
            assert_eq!(LogKey::of_partition(Partition(number)).partition(1_024), Partition(number));
        }
    }

    #[test]
    fn user_ids_keep_to_their_alphabet() {
        for right in ["1", "a", "A.b_c:d@e-f", "550e8400-e29b-41d4-a716-446655440000", &"x".repeat(64)] {
            assert_eq!(UserId::parse(right).unwrap().as_str(), right);
        }
        for wrong in ["", " ", "a b", "ä", "a/b", "a\0", &"x".repeat(65)] {
            assert_eq!(UserId::parse(wrong), Err(InvalidId::User), "{wrong}");
        }
    }
}
