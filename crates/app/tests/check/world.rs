//! A store as a realistic run of events leaves it, projected in batches through a lane.

use dunlin_app::{Rules, projector::Lane};
use dunlin_contract::{ModelStore, State, ids};
use dunlin_model::{
    Block, Body, ClientId, Content, ConversationId, Delete, Edit, Emoji, Epoch, Event, Hide, Mark, Message, MessageType, Millis, N, Offset,
    Opening, Pair, Partition, Position, RULES, React, Read, Seq, UserId, Visibility, VisibilityChange,
};
use dunlin_ports::{MessageStore, Record};

const BATCH: usize = 64;

pub struct World {
    pub store: ModelStore,
    lane: Lane,
    waiting: Vec<Record>,
    offset: u64,
}

impl World {
    pub async fn new() -> World {
        let store = ModelStore::default();
        let lane = Lane::new(Rules::default(), &store, Partition(0), 1).await.unwrap();
        World { store, lane, waiting: Vec::new(), offset: 0 }
    }

    /// Several events share a time.
    pub async fn event(&mut self, actor: Option<&UserId>, key_of: &Pair, body: Body) -> Seq {
        self.offset += 1;
        let (offset, time) = (Offset(self.offset), Millis(1_750_000_000_000 + self.offset / 3));
        let seq = Seq::new(Epoch::FIRST_LIVE, offset);
        let event = Event { id: ids::event_id(), key: key_of.log_key(), rules: RULES, origin: None, actor: actor.cloned(), body };
        let position = Position { partition: Partition(0), seq, offset, time };
        self.waiting.push(Record::new(position, event.encode().into(), || None));
        if self.waiting.len() == BATCH {
            self.flush().await;
        }
        seq
    }

    pub async fn flush(&mut self) {
        let projected = self.lane.project(&self.store, &self.waiting).await.unwrap();
        self.store.apply(&projected.batch).await.unwrap();
        self.waiting.clear();
    }

    pub async fn say(&mut self, sender: Option<&UserId>, pair: &Pair, message_type: &str, text: &str) -> Seq {
        let client_id = ids::client_id();
        self.say_as(sender, pair, message_type, text, client_id).await
    }

    pub async fn say_as(&mut self, sender: Option<&UserId>, pair: &Pair, message_type: &str, text: &str, client_id: ClientId) -> Seq {
        let message = Message {
            conversation: ConversationId::direct(pair),
            opening: Some(Opening::Direct(pair.clone())),
            client_id,
            message_type: MessageType::parse(message_type).unwrap(),
            content: Content::text(text).unwrap(),
            reply_to: None,
            metadata: None,
        };
        self.event(sender, pair, Body::Message(message)).await
    }

    /// Up to a message, if it was accepted.
    pub async fn read(&mut self, user: &UserId, pair: &Pair, seq: Seq) {
        self.flush().await;
        let conversation = ConversationId::direct(pair);
        let Some(row) = self.store.message(conversation, seq).await.unwrap() else { return };
        self.event(Some(user), pair, Body::Read(Read { conversation, up_to: Mark { n: row.n, seq } })).await;
    }

    pub async fn visibility(&mut self, user: &UserId, pair: &Pair, change: VisibilityChange) {
        let conversation = ConversationId::direct(pair);
        self.event(Some(user), pair, Body::Visibility(Visibility { conversation, change })).await;
    }
}

/// Who is in the world, and which conversation is good for what.
pub struct Cast {
    pub ann: UserId,
    pub bob: UserId,
    pub cem: UserId,
    pub dot: UserId,
    /// Ann and Bob: 620 messages, every second one up to 600 deleted; Bob has read up to the 20th.
    pub long: ConversationId,
    /// Bob and Cem: 9 messages, the last one deleted, one of the system, one of a robot; one was rejected.
    pub short: ConversationId,
    /// Ann opened it with Cem, nobody said anything, and Cem archived it.
    pub empty: ConversationId,
    /// Ann and Dot: 3 messages; Dot deleted the first two, Ann hid the last.
    pub cleared: ConversationId,
    /// Dot's notes.
    pub notes: ConversationId,
}

pub const LONG: u64 = 620;
pub const LONG_DELETED: u64 = 300;

pub async fn healthy() -> (State, Cast) {
    let mut world = World::new().await;
    let user = |name: &str| UserId::parse(name).unwrap();
    let (ann, bob, cem, dot) = (user("ann"), user("bob"), user("cem"), user("dot"));
    let pair = |one: &UserId, other: &UserId| Pair::new(one.clone(), other.clone());
    let id = |one: &UserId, other: &UserId| ConversationId::direct(&pair(one, other));
    let (long, short, empty) = (id(&ann, &bob), id(&bob, &cem), id(&ann, &cem));
    let (cleared, notes) = (id(&ann, &dot), id(&dot, &dot));
    world.event(Some(&ann), &pair(&ann, &cem), Body::Open(Opening::Direct(pair(&ann, &cem)))).await;
    world.visibility(&cem, &pair(&ann, &cem), VisibilityChange::Archive).await;
    fill_long(&mut world, &ann, &bob).await;
    fill_short(&mut world, &bob, &cem, &user("robot")).await;
    fill_cleared(&mut world, &ann, &dot).await;
    world.say(Some(&dot), &pair(&dot, &dot), "text", "a note").await;
    world.flush().await;
    let state = world.store.state().clone();
    (state, Cast { ann, bob, cem, dot, long, short, empty, cleared, notes })
}

async fn fill_long(world: &mut World, ann: &UserId, bob: &UserId) {
    let pair = Pair::new(ann.clone(), bob.clone());
    let conversation = ConversationId::direct(&pair);
    let mut said = Vec::new();
    for number in 1..=LONG {
        // Bob is silent after the 20th, so everything later is unread to him.
        let sender = if number <= 20 && number % 3 == 0 { bob } else { ann };
        said.push(world.say(Some(sender), &pair, "text", &format!("message {number} {}", "é".repeat(140))).await);
    }
    world.read(bob, &pair, said[19]).await;
    for number in (1..=2 * LONG_DELETED).step_by(2) {
        let target = said[number as usize - 1];
        let sender = if number <= 20 && number % 3 == 0 { bob } else { ann };
        world.event(Some(sender), &pair, Body::Delete(Delete { conversation, target })).await;
    }
    let last = said[LONG as usize - 1];
    for (on, emoji) in [(true, "👍"), (false, "👍"), (true, "❤")] {
        let react = React { conversation, target: last, emoji: Emoji::parse(emoji).unwrap(), on };
        world.event(Some(bob), &pair, Body::React(react)).await;
    }
    for text in ["last, edited", "last, edited twice"] {
        let edit = Edit { conversation, target: last, content: Content::text(text).unwrap() };
        world.event(Some(ann), &pair, Body::Edit(edit)).await;
    }
    world.store.mark_delivered(conversation, bob, Mark { n: N(20), seq: said[19] }).await.unwrap();
}

async fn fill_short(world: &mut World, bob: &UserId, cem: &UserId, robot: &UserId) {
    let pair = Pair::new(bob.clone(), cem.clone());
    let conversation = ConversationId::direct(&pair);
    for number in 1..=6 {
        world.say(Some(if number % 2 == 0 { bob } else { cem }), &pair, "text", "hello").await;
    }
    world.say(None, &pair, "system", "be nice").await;
    world.say(Some(robot), &pair, "robot", "buy this").await;
    for text in ["twice", "twice"] {
        world.say_as(Some(bob), &pair, "text", text, ClientId::parse("the same").unwrap()).await;
    }
    for on in [true, false] {
        world.event(Some(cem), &pair, Body::Block(Block { pair: pair.clone(), on })).await;
        if on {
            world.say(Some(bob), &pair, "text", "are you there?").await;
        }
    }
    world.flush().await;
    let last = world.store.head(conversation).await.unwrap().unwrap().last.unwrap();
    world.event(Some(bob), &pair, Body::Delete(Delete { conversation, target: last.seq })).await;
    world.visibility(cem, &pair, VisibilityChange::Archive).await;
    world.visibility(cem, &pair, VisibilityChange::Activate).await;
}

async fn fill_cleared(world: &mut World, ann: &UserId, dot: &UserId) {
    let pair = Pair::new(ann.clone(), dot.clone());
    let conversation = ConversationId::direct(&pair);
    world.say(Some(ann), &pair, "text", "one").await;
    world.say(Some(dot), &pair, "text", "two").await;
    world.visibility(dot, &pair, VisibilityChange::Delete).await;
    let target = world.say(Some(ann), &pair, "text", "three").await;
    world.event(Some(ann), &pair, Body::Hide(Hide { conversation, target })).await;
    world.visibility(ann, &pair, VisibilityChange::Archive).await;
}
