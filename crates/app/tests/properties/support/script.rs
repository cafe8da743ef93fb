//! A scenario as the log holds it, with what became of each event when one projector took one event at a time: the reference.

use dunlin_app::projector::Lane;
use dunlin_contract::{ModelStore, State};
use dunlin_model::{
    Block, Body, ClientId, Content, ConversationId, Delete, Edit, Emoji, Event, EventId, Hide, Mark, Message, MessageType, Metadata,
    Millis, N, NodeId, Offset, Opening, Origin, Outcome, Pair, Partition, Position, RULES, React, Read, RequestId, Seq, UserId, Visibility,
};
use dunlin_ports::{MessageStore, Record};

use super::{
    alice, alice_and, bob, carol, choose_rules, now, rules,
    scenario::{Act, Actor, Opens, Scenario, Step, Target},
    seq,
};

pub const BEGINNING: Millis = Millis(1_700_000_000_000);

pub struct Script {
    pub pairs: Vec<Pair>,
    pub moments: Vec<Moment>,
    /// What the log holds: the moments that are events.
    pub records: Vec<Record>,
    pub reference: State,
    steps: usize,
}

/// A step of the scenario, with its indexes made into seqs.
#[derive(Clone, Debug)]
pub enum Moment {
    Logged { event: Box<Event>, position: Position, outcome: Outcome },
    Delivered { user: UserId, conversation: ConversationId, up_to: Seq },
}

impl Script {
    /// For who has made others meanwhile.
    pub fn choose_rules(&self) {
        choose_rules(self.steps);
    }

    pub fn of(scenario: &Scenario) -> Script {
        choose_rules(scenario.steps.len());
        let store = ModelStore::default();
        let lane = now(Lane::new(rules(), &store, Partition(0), 1)).expect("the model store never fails");
        let mut script = Script {
            pairs: scenario.pairs.clone(),
            moments: Vec::new(),
            records: Vec::new(),
            reference: State::default(),
            steps: scenario.steps.len(),
        };
        let mut time = BEGINNING;
        for step in &scenario.steps {
            time = Millis(time.0 + step.after_ms);
            let (pair, actor) = (&scenario.pairs[step.pair], who(&scenario.pairs[step.pair], step.actor));
            if let (Act::Delivered(target), Some(user)) = (&step.act, &actor) {
                let conversation = ConversationId::direct(pair);
                let up_to = script.resolve(*target, conversation);
                script.moments.push(Moment::Delivered { user: user.clone(), conversation, up_to });
                continue;
            }
            let Some(body) = script.body(pair, step) else { continue };
            let (event, record) = event(script.records.len(), time, actor, body);
            let projected = now(lane.project(&store, std::slice::from_ref(&record))).expect("the model store never fails");
            let outcome = projected.outcomes[0].outcome.expect("a new event has a new outcome");
            now(store.apply(&projected.batch)).expect("the model store never fails");
            script.moments.push(Moment::Logged { event: Box::new(event), position: record.position, outcome });
            script.records.push(record);
        }
        script.reference = store.state().clone();
        script
    }

    fn body(&self, pair: &Pair, step: &Step) -> Option<Body> {
        let conversation = ConversationId::direct(pair);
        let at = |target: Target| self.resolve(target, conversation);
        Some(match &step.act {
            Act::Open => Body::Open(Opening::Direct(pair.clone())),
            Act::Message { opens, client_id, says, reply_to, robot } => Body::Message(Message {
                conversation,
                opening: match opens {
                    Opens::Nothing => None,
                    Opens::Itself => Some(Opening::Direct(pair.clone())),
                    Opens::Another => Some(Opening::Direct(Pair::new(bob(), carol()))),
                },
                client_id: ClientId::parse(&format!("c{client_id}")).expect("short"),
                message_type: message_type(step.actor, *robot),
                content: content(*says),
                reply_to: reply_to.map(at),
                metadata: Metadata::parse((*says > 1).then_some(("says", "more"))).expect("short"),
            }),
            Act::Edit(target, says) => Body::Edit(Edit { conversation, target: at(*target), content: content(*says) }),
            Act::Delete(target) => Body::Delete(Delete { conversation, target: at(*target) }),
            Act::Hide(target) => Body::Hide(Hide { conversation, target: at(*target) }),
            Act::React { target, emoji, on } => {
                Body::React(React { conversation, target: at(*target), emoji: self::emoji(*emoji), on: *on })
            }
            Act::Read(target) => Body::Read(Read { conversation, up_to: self.mark(*target, conversation) }),
            Act::Visibility(change) => Body::Visibility(Visibility { conversation, change: *change }),
            Act::Block(on) => Body::Block(Block { pair: pair.clone(), on: *on }),
            Act::Delivered(_) => return None,
        })
    }

    fn resolve(&self, target: Target, conversation: ConversationId) -> Seq {
        let (messages, events) = (self.messages(conversation), self.records.len());
        match target {
            Target::Message(index) if !messages.is_empty() => messages[index % messages.len()].seq,
            Target::Message(index) | Target::Event(index) if events > 0 => seq(index % events),
            Target::Message(beyond) | Target::Event(beyond) | Target::Beyond(beyond) => seq(events + beyond % 4),
        }
    }

    /// As the use case makes marks: of the last message at or below the target, or one that the conversation has not come to yet.
    fn mark(&self, target: Target, conversation: ConversationId) -> Mark {
        let (up_to, messages) = (self.resolve(target, conversation), self.messages(conversation));
        match messages.iter().rfind(|mark| mark.seq <= up_to) {
            _ if up_to >= seq(self.records.len()) => Mark { n: N(messages.len() as u64 + 1), seq: up_to },
            Some(mark) => *mark,
            None => Mark { n: N::ZERO, seq: up_to },
        }
    }

    fn messages(&self, conversation: ConversationId) -> Vec<Mark> {
        let accepted = |moment: &Moment| match moment {
            Moment::Logged { event, outcome: Outcome::Accepted(accepted), .. } if event.body.conversation() == Some(conversation) => {
                Some(Mark { n: accepted.n, seq: accepted.seq })
            }
            _ => None,
        };
        self.moments.iter().filter_map(accepted).collect()
    }
}

/// An event at a place of a log's only partition.
pub fn event(place: usize, time: Millis, actor: Option<UserId>, body: Body) -> (Event, Record) {
    event_of(Partition(0), place, time, actor, body)
}

pub fn event_of(partition: Partition, place: usize, time: Millis, actor: Option<UserId>, body: Body) -> (Event, Record) {
    let origin = Some(Origin { node: NodeId(1), request: RequestId(place as u64) });
    let id = EventId((u128::from(partition.0) << 64 | place as u128).to_be_bytes());
    let event = Event { id, key: body.log_key(), rules: RULES, origin, actor, body };
    let position = Position { partition, seq: seq(place), offset: Offset(place as u64), time };
    let bytes = event.encode().into();
    (event, Record::new(position, bytes, || None))
}

/// A message that opens its conversation if need be.
pub fn message(pair: &Pair, client_id: &str, text: &str) -> Body {
    Body::Message(Message {
        conversation: ConversationId::direct(pair),
        opening: Some(Opening::Direct(pair.clone())),
        client_id: ClientId::parse(client_id).expect("short"),
        message_type: MessageType::text(),
        content: Content::text(text).expect("short"),
        reply_to: None,
        metadata: None,
    })
}

fn who(pair: &Pair, actor: Actor) -> Option<UserId> {
    match actor {
        Actor::One => Some(alice()),
        Actor::Other => Some(pair.other(&alice()).clone()),
        Actor::Stranger => Some(if *pair == alice_and(bob()) { carol() } else { bob() }),
        Actor::System => None,
    }
}

fn message_type(actor: Actor, robot: bool) -> MessageType {
    match actor {
        Actor::System => MessageType::system(),
        Actor::Stranger if robot => MessageType::parse(MessageType::ROBOT).expect("a type"),
        _ => MessageType::text(),
    }
}

fn content(says: u8) -> Content {
    match says {
        0 => Content::opaque("application/x-sealed", b"sealed"),
        1 => Content::text(&"é".repeat(150)),
        says => Content::text(&format!("says {says}")),
    }
    .expect("within the limits")
}

fn emoji(emoji: u8) -> Emoji {
    Emoji::parse(["👍", "👎"][usize::from(emoji) % 2]).expect("short")
}
