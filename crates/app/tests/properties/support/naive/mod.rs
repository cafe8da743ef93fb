//! A second, naive implementation, written from what the product promises and not from the projector: it keeps the list of events and
//! counts from scratch, each time it is asked. No heads, no registers, no rows.

mod judge;
mod views;

use dunlin_model::{Body, ConversationId, Delete, Edit, Event, Hide, Message, Millis, Outcome, Pair, Read, Seq, UserId, VisibilityChange};

pub struct Naive {
    pairs: Vec<Pair>,
    told: Vec<Told>,
    delivered: Vec<(UserId, ConversationId, Seq)>,
}

/// An event and what became of it.
struct Told {
    seq: Seq,
    at: Millis,
    actor: Option<UserId>,
    body: Body,
    outcome: Outcome,
}

/// An accepted message.
struct Said<'a> {
    n: u64,
    told: &'a Told,
    message: &'a Message,
}

impl Naive {
    pub fn new(pairs: &[Pair]) -> Naive {
        Naive { pairs: pairs.to_vec(), told: Vec::new(), delivered: Vec::new() }
    }

    pub fn tell(&mut self, seq: Seq, at: Millis, event: &Event) -> Outcome {
        let (actor, body) = (event.actor.clone(), event.body.clone());
        let outcome = self.judge(seq, at, actor.as_ref(), &body);
        self.told.push(Told { seq, at, actor, body, outcome });
        outcome
    }

    /// A device has everything up to a message; false if that is nothing that can be said.
    pub fn deliver(&mut self, user: &UserId, conversation: ConversationId, up_to: Seq) -> bool {
        let known = self.messages(conversation).iter().any(|said| said.told.seq == up_to);
        if known && self.pair(conversation).contains(user) {
            self.delivered.push((user.clone(), conversation, up_to));
            return true;
        }
        false
    }

    fn pair(&self, conversation: ConversationId) -> &Pair {
        self.pairs.iter().find(|pair| ConversationId::direct(pair) == conversation).expect("every conversation here is of a known pair")
    }

    /// What was done in a conversation, oldest first: nothing that was refused or repeated.
    fn done(&self, conversation: ConversationId) -> impl DoubleEndedIterator<Item = &Told> {
        let done = |told: &&Told| matches!(told.outcome, Outcome::Accepted(_) | Outcome::Done(_));
        self.told.iter().filter(done).filter(move |told| told.body.conversation() == Some(conversation))
    }

    fn done_by<'a>(&'a self, user: &'a UserId, conversation: ConversationId) -> impl DoubleEndedIterator<Item = &'a Told> {
        self.done(conversation).filter(move |told| told.actor.as_ref() == Some(user))
    }

    /// What made the conversation.
    fn opening(&self, conversation: ConversationId) -> Option<&Told> {
        self.done(conversation).next()
    }

    /// Oldest first.
    fn messages(&self, conversation: ConversationId) -> Vec<Said<'_>> {
        let mut messages = Vec::new();
        for told in self.done(conversation) {
            if let Body::Message(message) = &told.body {
                messages.push(Said { n: messages.len() as u64 + 1, told, message });
            }
        }
        messages
    }

    fn deletion(&self, conversation: ConversationId, seq: Seq) -> Option<&Told> {
        self.done(conversation).find(|told| matches!(told.body, Body::Delete(Delete { target, .. }) if target == seq))
    }

    fn last_edit(&self, conversation: ConversationId, seq: Seq) -> Option<(&Told, &Edit)> {
        self.done(conversation).rev().find_map(|told| match &told.body {
            Body::Edit(edit) if edit.target == seq => Some((told, edit)),
            _ => None,
        })
    }

    fn hides(&self, user: &UserId, conversation: ConversationId, seq: Seq) -> bool {
        self.done_by(user, conversation).any(|told| matches!(told.body, Body::Hide(Hide { target, .. }) if target == seq))
    }

    /// When the user last deleted the conversation: what came before is hidden from them for good.
    fn deleted_conversation(&self, user: &UserId, conversation: ConversationId) -> Option<Seq> {
        self.done_by(user, conversation).rev().find(|told| changes(told) == Some(VisibilityChange::Delete)).map(|told| told.seq)
    }

    fn blocks(&self, blocker: &UserId, pair: &Pair) -> bool {
        self.blocked_before(blocker, pair, Seq::MAX)
    }

    fn blocked_before(&self, blocker: &UserId, pair: &Pair, before: Seq) -> bool {
        let last = self.told.iter().rev().filter(|told| told.seq < before).find_map(|told| match &told.body {
            Body::Block(block)
                if block.pair == *pair && told.actor.as_ref() == Some(blocker) && told.outcome == Outcome::Done(told.seq) =>
            {
                Some(block.on)
            }
            _ => None,
        });
        last.unwrap_or(false)
    }

    /// How many messages the user has seen: up to a read mark, an own message, an archiving or a deletion.
    fn seen_n(&self, user: &UserId, conversation: ConversationId) -> u64 {
        let messages = self.messages(conversation);
        let up_to = |seq: Seq| messages.iter().filter(|said| said.told.seq <= seq).count() as u64;
        let seen = |told: &Told| match &told.body {
            Body::Message(_) => up_to(told.seq),
            Body::Read(read) => up_to(read.up_to.seq),
            Body::Visibility(visibility) if visibility.change != VisibilityChange::Activate => up_to(told.seq),
            _ => 0,
        };
        self.done_by(user, conversation).map(seen).max().unwrap_or(0)
    }

    /// The furthest that the user said to have read.
    fn read_up_to(&self, user: &UserId, conversation: ConversationId) -> Option<Seq> {
        let mark = |told: &Told| match &told.body {
            Body::Read(Read { up_to, .. }) => Some(up_to.seq),
            _ => None,
        };
        self.done_by(user, conversation).filter_map(mark).max()
    }

    fn delivered_up_to(&self, user: &UserId, conversation: ConversationId) -> Option<Seq> {
        let devices = self.delivered.iter().filter(|(who, of, _)| who == user && *of == conversation).map(|(_, _, seq)| *seq);
        devices.chain(self.read_up_to(user, conversation)).max()
    }
}

fn changes(told: &Told) -> Option<VisibilityChange> {
    match &told.body {
        Body::Visibility(visibility) => Some(visibility.change),
        _ => None,
    }
}
