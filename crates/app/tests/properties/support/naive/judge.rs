//! What becomes of an event, from the list of what happened before it.

use dunlin_model::{
    Accepted, Body, ConversationId, Message, MessageType, Millis, N, Opening, Outcome, Pair, React, Rejection, Seq, UserId,
};

use super::{Naive, Said};

impl Naive {
    pub(super) fn judge(&self, seq: Seq, at: Millis, actor: Option<&UserId>, body: &Body) -> Outcome {
        let verdict = match body {
            Body::Block(block) => match actor {
                None => Err(Rejection::NoConversation),
                Some(who) if !block.pair.contains(who) || block.pair.users().count() == 1 => Err(Rejection::Mismatch),
                Some(_) => Ok(Outcome::Done(seq)),
            },
            Body::Open(Opening::Direct(pair)) => self.may_open(pair, actor).map(|()| Outcome::Done(seq)),
            Body::Message(message) => self.message(seq, at, actor, message),
            change => self.change(actor, change).map(|()| Outcome::Done(seq)),
        };
        verdict.unwrap_or_else(Outcome::Rejected)
    }

    fn may_open(&self, pair: &Pair, actor: Option<&UserId>) -> Result<(), Rejection> {
        if !actor.is_some_and(|actor| pair.contains(actor)) {
            return Err(Rejection::NoConversation);
        }
        // A block stops the opening; whoever opens what is open merely finds it.
        if self.opening(ConversationId::direct(pair)).is_none() { self.not_blocked(pair) } else { Ok(()) }
    }

    fn message(&self, seq: Seq, at: Millis, actor: Option<&UserId>, message: &Message) -> Result<Outcome, Rejection> {
        let messages = self.messages(message.conversation);
        let earlier = |said: &&Said<'_>| said.told.actor.as_ref() == actor && said.message.client_id == message.client_id;
        if let Some(first) = messages.iter().rfind(earlier).filter(|first| at.0 - first.told.at.0 <= Millis::DAY) {
            let says = |message: &Message| (message.message_type.clone(), message.content.clone(), message.reply_to);
            let accepted = Accepted { seq: first.told.seq, n: N(first.n), created_at: first.told.at };
            let same = says(first.message) == says(message);
            return if same { Ok(Outcome::Duplicate(accepted)) } else { Err(Rejection::ClientIdReused) };
        }
        let pair = self.pair(message.conversation);
        match &message.opening {
            _ if self.opening(message.conversation).is_some() => {}
            None => return Err(Rejection::NoConversation),
            Some(Opening::Direct(opened)) if opened == pair => {}
            Some(_) => return Err(Rejection::Mismatch),
        }
        let anywhere = actor.is_none() || message.message_type.as_str() == MessageType::ROBOT;
        if !anywhere {
            actor.filter(|actor| pair.contains(actor)).ok_or(Rejection::NoConversation)?;
            self.not_blocked(pair)?;
        }
        if message.reply_to.is_some_and(|target| !messages.iter().any(|said| said.told.seq == target)) {
            return Err(Rejection::NoMessage);
        }
        Ok(Outcome::Accepted(Accepted { seq, n: N(messages.len() as u64 + 1), created_at: at }))
    }

    /// Whether a member may do this to the conversation or to one of its messages.
    fn change(&self, actor: Option<&UserId>, body: &Body) -> Result<(), Rejection> {
        let conversation = body.conversation().expect("only blocks have none");
        let (pair, messages) = (self.pair(conversation), self.messages(conversation));
        let opened = self.opening(conversation).ok_or(Rejection::NoConversation)?.seq;
        let actor = actor.filter(|actor| pair.contains(actor)).ok_or(Rejection::NoConversation)?;
        let find = |target: Seq| messages.iter().find(|said| said.told.seq == target).ok_or(Rejection::NoMessage);
        let own = |said: &Said<'_>| if said.told.actor.as_ref() == Some(actor) { Ok(()) } else { Err(Rejection::NotSender) };
        let alive = |target: Seq| if self.deletion(conversation, target).is_none() { Ok(()) } else { Err(Rejection::MessageDeleted) };
        match body {
            Body::Edit(edit) => {
                let said = find(edit.target)?;
                alive(edit.target)?;
                own(said)?;
                self.not_blocked(pair)
            }
            Body::Delete(delete) => own(find(delete.target)?),
            Body::Hide(hide) => find(hide.target).map(|_| ()),
            Body::React(React { target, on, .. }) => {
                find(*target)?;
                alive(*target)?;
                if *on { self.not_blocked(pair) } else { Ok(()) }
            }
            Body::Read(read) if read.up_to.seq > messages.last().map_or(opened, |said| said.told.seq) => Err(Rejection::BeyondHead),
            Body::Read(read) => find(read.up_to.seq).map(|_| ()),
            _ => Ok(()),
        }
    }

    fn not_blocked(&self, pair: &Pair) -> Result<(), Rejection> {
        if pair.users().any(|user| self.blocks(user, pair)) { Err(Rejection::Blocked) } else { Ok(()) }
    }
}
