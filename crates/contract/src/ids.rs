//! Random ids, so that no case meets another one's, nor what a store already holds.

use dunlin_model::{
    BlobKey, ClientId, ConversationId, EventId, NodeId, Pair, Partition, PhoneNumber, RequestId, Seq, ServerKeyId, TaskName, UserId,
};

pub fn user() -> UserId {
    UserId::parse(&format!("u-{}", hex())).expect("hex keeps to the alphabet")
}

pub fn pair() -> Pair {
    Pair::new(user(), user())
}

/// A direct conversation of two fresh users.
pub fn conversation() -> ConversationId {
    ConversationId::direct(&pair())
}

pub fn group() -> ConversationId {
    ConversationId::group(bits128())
}

pub fn client_id() -> ClientId {
    ClientId::parse(&hex()).expect("hex is short and printable")
}

/// Any seq that an event can have.
pub fn seq() -> Seq {
    Seq::from_u64(1 + number() % (Seq::MAX.get() - 1)).expect("it was cut to size")
}

pub fn event_id() -> EventId {
    EventId(bits128())
}

pub fn node() -> NodeId {
    NodeId(number())
}

pub fn partition() -> Partition {
    Partition((number() >> 32) as u32)
}

pub fn request() -> RequestId {
    RequestId(number())
}

pub fn server_key_id() -> ServerKeyId {
    ServerKeyId::parse(&hex()).expect("hex keeps to the alphabet")
}

/// Of 19 digits: two alike are as unlikely as they get.
pub fn phone() -> PhoneNumber {
    PhoneNumber::parse(&format!("+{}", 1_000_000_000_000_000_000 + number() % 9_000_000_000_000_000_000)).expect("19 digits are a number")
}

pub fn task() -> TaskName {
    TaskName::parse(&hex()).expect("hex keeps to the alphabet")
}

pub fn blob_key() -> BlobKey {
    BlobKey::random(bits128())
}

/// 32 characters.
pub fn hex() -> String {
    format!("{:032x}", u128::from_be_bytes(bits128()))
}

pub fn number() -> u64 {
    u64::from_be_bytes(*bits128().first_chunk().expect("16 bytes begin with 8"))
}

pub fn bits128() -> [u8; 16] {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).expect("the operating system has random bytes");
    bits
}
