//! What happened: one event is one record of the log.
//!
//! The envelope can be read even where the body can't (a newer version's event): the body is bytes within it. The numbers of
//! bodies are given once; 8 to 11 are kept for membership, settings, removal for good and import.

use std::fmt;

use minicbor::{Decode, Encode};
use sha2::{Digest, Sha256};

use crate::{
    ClientId, Content, ContentHash, ConversationId, DecodeError, Emoji, LogKey, Mark, MessageType, Metadata, Pair, Partition, Seq, UserId,
    codec,
};

/// An event with its envelope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub id: EventId,
    pub key: LogKey,
    /// The version of the projector's rules that judges it.
    pub rules: u16,
    /// Who waits for the outcome.
    pub origin: Option<Origin>,
    /// On whose behalf; none for the system.
    pub actor: Option<UserId>,
    pub body: Body,
}

#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Body {
    #[n(0)]
    Open(#[n(0)] Opening),
    #[n(1)]
    Message(#[n(0)] Message),
    #[n(2)]
    Edit(#[n(0)] Edit),
    #[n(3)]
    Delete(#[n(0)] Delete),
    #[n(4)]
    Hide(#[n(0)] Hide),
    #[n(5)]
    React(#[n(0)] React),
    #[n(6)]
    Read(#[n(0)] Read),
    #[n(7)]
    Visibility(#[n(0)] Visibility),
    /// Nothing happened in a partition for a while: what is below it in time is complete.
    #[n(12)]
    Tick(#[n(0)] Partition),
    /// The operator has what was set aside under a log key judged after all, but for one event that nobody can read.
    #[n(13)]
    Unpark(#[n(0)] LogKey, #[n(1)] Option<Seq>),
    #[n(14)]
    Block(#[n(0)] Block),
}

/// What identifies a conversation and what it starts with.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Opening {
    #[n(0)]
    Direct(#[n(0)] Pair),
}

impl Opening {
    pub fn conversation(&self) -> ConversationId {
        match self {
            Opening::Direct(pair) => ConversationId::direct(pair),
        }
    }
}

/// A message by the event's actor.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Message {
    #[n(0)]
    pub conversation: ConversationId,
    /// Opens the conversation if there is none: sending to a user is one step.
    #[n(1)]
    pub opening: Option<Opening>,
    #[n(2)]
    pub client_id: ClientId,
    #[n(3)]
    pub message_type: MessageType,
    #[n(4)]
    pub content: Content,
    #[n(5)]
    pub reply_to: Option<Seq>,
    #[n(6)]
    pub metadata: Option<Metadata>,
}

impl Message {
    /// The same for a retry, another for another message under the same client id.
    pub fn content_hash(&self) -> ContentHash {
        let said = (&self.message_type, &self.content, self.reply_to);
        let mut bytes = Vec::with_capacity(self.content.bytes_len() + 128);
        minicbor::encode(said, &mut bytes).expect("writing to memory does not fail");
        if let Some(metadata) = &self.metadata {
            minicbor::encode(metadata, &mut bytes).expect("writing to memory does not fail");
        }
        ContentHash::of(&bytes)
    }
}

/// Replaces the content of a message of the actor's own.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Edit {
    #[n(0)]
    pub conversation: ConversationId,
    #[n(1)]
    pub target: Seq,
    #[n(2)]
    pub content: Content,
}

/// Deletes a message for everyone, leaving a marker.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Delete {
    #[n(0)]
    pub conversation: ConversationId,
    #[n(1)]
    pub target: Seq,
}

/// Deletes a message for the actor only.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Hide {
    #[n(0)]
    pub conversation: ConversationId,
    #[n(1)]
    pub target: Seq,
}

/// Adds or takes back the actor's reaction to a message.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct React {
    #[n(0)]
    pub conversation: ConversationId,
    #[n(1)]
    pub target: Seq,
    #[n(2)]
    pub emoji: Emoji,
    #[n(3)]
    pub on: bool,
}

/// The actor has read everything up to a message.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Read {
    #[n(0)]
    pub conversation: ConversationId,
    #[n(1)]
    pub up_to: Mark,
}

/// Changes how the conversation shows in the actor's inbox.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Visibility {
    #[n(0)]
    pub conversation: ConversationId,
    #[n(1)]
    pub change: VisibilityChange,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum VisibilityChange {
    #[n(0)]
    Archive,
    #[n(1)]
    Activate,
    #[n(2)]
    Delete,
}

/// The actor blocks the other of the pair, or no longer does.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Block {
    #[n(0)]
    pub pair: Pair,
    #[n(1)]
    pub on: bool,
}

impl Body {
    /// The conversation whose head judges this event; a block, a tick and an unpark have none.
    pub fn conversation(&self) -> Option<ConversationId> {
        match self {
            Body::Open(opening) => Some(opening.conversation()),
            Body::Message(message) => Some(message.conversation),
            Body::Edit(edit) => Some(edit.conversation),
            Body::Delete(delete) => Some(delete.conversation),
            Body::Hide(hide) => Some(hide.conversation),
            Body::React(react) => Some(react.conversation),
            Body::Read(read) => Some(read.conversation),
            Body::Visibility(visibility) => Some(visibility.conversation),
            Body::Block(_) | Body::Tick(_) | Body::Unpark(..) => None,
        }
    }

    /// Under which conversation its outcome is kept: a block's under the direct one of its pair. Nobody asks for a tick's or an unpark's.
    pub fn place(&self) -> Option<ConversationId> {
        match self {
            Body::Block(block) => Some(ConversationId::direct(&block.pair)),
            _ => self.conversation(),
        }
    }

    /// The message that this event refers to and must know.
    pub fn target(&self) -> Option<(ConversationId, Seq)> {
        match self {
            Body::Edit(edit) => Some((edit.conversation, edit.target)),
            Body::Delete(delete) => Some((delete.conversation, delete.target)),
            Body::Hide(hide) => Some((hide.conversation, hide.target)),
            Body::React(react) => Some((react.conversation, react.target)),
            Body::Message(message) => message.reply_to.map(|seq| (message.conversation, seq)),
            Body::Read(read) => Some((read.conversation, read.up_to.seq)),
            Body::Open(_) | Body::Visibility(_) | Body::Block(_) | Body::Tick(_) | Body::Unpark(..) => None,
        }
    }

    pub fn log_key(&self) -> LogKey {
        match self {
            Body::Open(opening) => opening.conversation().log_key(),
            Body::Message(message) => message.conversation.log_key(),
            Body::Edit(edit) => edit.conversation.log_key(),
            Body::Delete(delete) => delete.conversation.log_key(),
            Body::Hide(hide) => hide.conversation.log_key(),
            Body::React(react) => react.conversation.log_key(),
            Body::Read(read) => read.conversation.log_key(),
            Body::Visibility(visibility) => visibility.conversation.log_key(),
            Body::Block(block) => block.pair.log_key(),
            Body::Tick(partition) => LogKey::of_partition(*partition),
            Body::Unpark(key, _) => *key,
        }
    }
}

/// Random; known before the append, so a log can be told from another that has the same positions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Encode, Decode)]
#[cbor(transparent)]
pub struct EventId(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 16]);

impl EventId {
    /// For bytes of a log whose own id can't be read.
    pub fn of_bytes(bytes: &[u8]) -> EventId {
        EventId(*Sha256::digest(bytes).first_chunk().expect("32 bytes begin with 16"))
    }
}

/// A running server; a new one at each start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(transparent)]
pub struct NodeId(#[n(0)] pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A request at its node that waits for an event's outcome.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Encode, Decode)]
#[cbor(transparent)]
pub struct RequestId(#[n(0)] pub u64);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub struct Origin {
    #[n(0)]
    pub node: NodeId,
    #[n(1)]
    pub request: RequestId,
}

#[derive(Encode, Decode)]
struct Envelope<'a> {
    #[n(0)]
    key: LogKey,
    #[n(1)]
    id: EventId,
    #[n(2)]
    rules: u16,
    #[n(3)]
    origin: Option<Origin>,
    #[n(4)]
    actor: Option<UserId>,
    #[cbor(b(5), with = "minicbor::bytes")]
    body: &'a [u8],
}

impl Event {
    pub fn encode(&self) -> Vec<u8> {
        let body = minicbor::to_vec(&self.body).expect("writing to memory does not fail");
        let (key, id, rules, origin, actor) = (self.key, self.id, self.rules, self.origin, self.actor.clone());
        codec::encode(&Envelope { key, id, rules, origin, actor, body: &body })
    }

    pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
        let envelope: Envelope<'_> = codec::decode(bytes)?;
        let body = minicbor::decode(envelope.body)?;
        Ok(Event { key: envelope.key, id: envelope.id, rules: envelope.rules, origin: envelope.origin, actor: envelope.actor, body })
    }

    /// The key of an event whose body this version can't read.
    pub fn decode_key(bytes: &[u8]) -> Result<(LogKey, EventId), DecodeError> {
        let envelope: Envelope<'_> = codec::decode(bytes)?;
        Ok((envelope.key, envelope.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::N;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn event(body: Body) -> Event {
        let origin = Some(Origin { node: NodeId(7), request: RequestId(9) });
        Event { id: EventId([3; 16]), key: body.log_key(), rules: 1, origin, actor: Some(user("alice")), body }
    }

    fn hex(bytes: &[u8]) -> String {
        data_encoding::HEXLOWER.encode(bytes)
    }

    fn one_of_each() -> Vec<Body> {
        let pair = Pair::new(user("alice"), user("bob"));
        let conversation = ConversationId::direct(&pair);
        let target = Seq::from_u64(5).unwrap();
        let text = Content::text("hi").unwrap();
        vec![
            Body::Open(Opening::Direct(pair.clone())),
            Body::Message(Message {
                conversation,
                opening: Some(Opening::Direct(pair.clone())),
                client_id: ClientId::parse("c1").unwrap(),
                message_type: MessageType::text(),
                content: text.clone(),
                reply_to: Some(target),
                metadata: None,
            }),
            Body::Edit(Edit { conversation, target, content: Content::opaque("a/b", &[1, 2]).unwrap() }),
            Body::Delete(Delete { conversation, target }),
            Body::Hide(Hide { conversation, target }),
            Body::React(React { conversation, target, emoji: Emoji::parse("👍").unwrap(), on: true }),
            Body::Read(Read { conversation, up_to: Mark { n: N(1), seq: target } }),
            Body::Visibility(Visibility { conversation, change: VisibilityChange::Archive }),
            Body::Block(Block { pair, on: true }),
            Body::Tick(Partition(3)),
            Body::Unpark(conversation.log_key(), None),
            Body::Unpark(conversation.log_key(), Some(target)),
        ]
    }

    #[test]
    fn every_event_reads_back() {
        for body in one_of_each() {
            let event = event(body);
            assert_eq!(Event::decode(&event.encode()).unwrap(), event);
        }
    }

    #[test]
    fn events_are_written_as_they_always_were() {
        let golden: Vec<&str> = include_str!("../golden/events.hex").lines().collect();
        let written: Vec<String> = one_of_each().into_iter().map(|body| hex(&event(body).encode())).collect();
        assert_eq!(written, golden, "these bytes stand in logs: a change needs a new number, not new bytes");
    }

    #[test]
    fn the_envelope_reads_where_the_body_does_not() {
        let known = event(one_of_each().remove(0));
        let unknown_body = minicbor::to_vec((99u32, ["?"])).unwrap();
        let bytes = codec::encode(&Envelope { key: known.key, id: known.id, rules: 9, origin: None, actor: None, body: &unknown_body });
        assert!(matches!(Event::decode(&bytes), Err(DecodeError::Malformed(_))));
        assert_eq!(Event::decode_key(&bytes).unwrap(), (known.key, known.id));
    }

    #[test]
    fn an_unknown_format_is_said_to_be_one() {
        let mut bytes = event(one_of_each().remove(0)).encode();
        bytes[0] = 250;
        assert!(matches!(Event::decode(&bytes), Err(DecodeError::Format(250))));
        assert!(matches!(Event::decode(&[]), Err(DecodeError::Empty)));
    }
}
