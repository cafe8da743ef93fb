//! Turns events into writes. No clock and no I/O: the same inputs always give the same verdict, on every backend, at any time.
//!
//! `project` judges one event; each kind of event is a leaf in a file of its own. `Lane` feeds it a batch, `run` feeds the lane from the log.

mod block;
mod by_key;
mod delete;
mod drive;
mod edit;
mod hide;
mod lane;
mod message;
mod open;
mod react;
mod read;
mod run;
mod shares;
mod visibility;

use std::sync::Arc;

use dunlin_model::{
    BlockRow, Body, Cell, ConversationId, DedupRow, Event, FeedKey, FeedRow, Happening, Head, MessageRow, Millis, Outcome, OutcomeRow,
    Position, RULES, Rejection, Seq, Tip, UserId,
};
use dunlin_ports::Write;

pub use drive::Drive;
pub use lane::{Lane, Projected, ProjectedOutcome};
pub use run::{Order, Progress, Projector, ProjectorError, Ticks};
pub use shares::Shares;

/// Judges one event. Events up to `head.applied` were judged before: they write nothing and have no new outcome.
pub fn project(rules: &Rules, head: &mut Option<Head>, known: &Inputs, at: Position, event: &Event) -> Projection {
    if head.as_ref().is_some_and(|head| at.seq <= head.applied) {
        return Projection { outcome: None, writes: Vec::new() };
    }
    let mut writes = Vec::with_capacity(8);
    let case = Case { rules, known, at, event };
    let verdict = match &event.body {
        Body::Open(opening) => open::project(&case, head, opening, &mut writes),
        Body::Message(message) => message::project(&case, head, message, &mut writes),
        Body::Edit(edit) => edit::project(&case, head, edit, &mut writes),
        Body::Delete(delete) => delete::project(&case, head, delete, &mut writes),
        Body::Hide(hide) => hide::project(&case, head, hide, &mut writes),
        Body::React(react) => react::project(&case, head, react, &mut writes),
        Body::Read(read) => read::project(&case, head, read, &mut writes),
        Body::Visibility(visibility) => visibility::project(&case, head, visibility, &mut writes),
        Body::Block(block) => block::project(&case, block, &mut writes),
        Body::Tick(_) | Body::Unpark(..) => case.done(),
    };
    let outcome = verdict.unwrap_or_else(Outcome::Rejected);
    if let (Outcome::Rejected(_) | Outcome::Duplicate(_), Some(conversation)) = (outcome, event.body.place()) {
        writes.clear();
        writes.push(Write::Outcome { conversation, at: at.seq, row: OutcomeRow { outcome, actor: event.actor.clone() } });
        if let (Outcome::Rejected(_), Some(actor)) = (outcome, &event.actor) {
            writes.push(case.feed(actor, conversation, Happening::Rejected, None));
        }
    }
    if let Some(head) = head {
        head.applied = at.seq;
    }
    Projection { outcome: Some(outcome), writes }
}

/// What judging depends on besides the event and its inputs. The same on every node.
#[derive(Clone, Debug)]
pub struct Rules {
    /// For how long a repeated `client_id` is the same message, in log time.
    pub dedup_window_ms: u64,
    /// Whether heads keep the newest client ids: where asking the store for one is dear.
    pub ids_in_heads: bool,
    /// The newest version of the rules that this program knows.
    pub known: u16,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { dedup_window_ms: Millis::DAY, ids_in_heads: false, known: RULES }
    }
}

/// Everything but the head that an event is judged by, as of that event: nothing here may change when later events are already written.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The newest message accepted earlier under the same client id.
    pub dedup: Option<DedupRow>,
    /// The newest row of each direction from before the event.
    pub blocks: Vec<BlockRow>,
    /// The message that the event refers to.
    pub target: Option<MessageRow>,
}

pub struct Projection {
    /// None if the event was judged before.
    pub outcome: Option<Outcome>,
    pub writes: Vec<Write>,
}

type Verdict = Result<Outcome, Rejection>;

/// One event with what it is judged by.
struct Case<'a> {
    rules: &'a Rules,
    known: &'a Inputs,
    at: Position,
    event: &'a Event,
}

impl Case<'_> {
    fn actor(&self) -> Result<&UserId, Rejection> {
        self.event.actor.as_ref().ok_or(Rejection::NoConversation)
    }

    /// The head and the actor, if the actor is a member: to anyone else the conversation does not exist.
    fn member<'h>(&self, head: &'h mut Option<Head>) -> Result<(&'h mut Head, &UserId), Rejection> {
        let head = head.as_mut().ok_or(Rejection::NoConversation)?;
        let actor = self.actor()?;
        if head.is_member(actor) { Ok((head, actor)) } else { Err(Rejection::NoConversation) }
    }

    /// The message that the event refers to, if the conversation had it by then.
    fn target(&self, head: &Head) -> Result<&MessageRow, Rejection> {
        let existed = |row: &&MessageRow| head.born <= row.seq && row.seq < self.at.seq;
        self.known.target.as_ref().filter(existed).ok_or(Rejection::NoMessage)
    }

    fn live_target(&self, head: &Head) -> Result<&MessageRow, Rejection> {
        let target = self.target(head)?;
        if target.deleted_before(self.at.seq) { Err(Rejection::MessageDeleted) } else { Ok(target) }
    }

    /// A block in either direction stops what would reach the other.
    fn not_blocked(&self) -> Result<(), Rejection> {
        if self.known.blocks.iter().any(|block| block.on) { Err(Rejection::Blocked) } else { Ok(()) }
    }

    fn done(&self) -> Verdict {
        Ok(Outcome::Done(self.at.seq))
    }

    fn feed(&self, user: &UserId, conversation: ConversationId, what: Happening, target: Option<Seq>) -> Write {
        let key = FeedKey { at: self.at.time, conversation, seq: self.at.seq };
        Write::Feed { user: user.clone(), row: FeedRow { key, what, target } }
    }

    fn feed_all(&self, head: &Head, conversation: ConversationId, what: Happening, target: Option<Seq>, writes: &mut Vec<Write>) {
        writes.extend(head.members().map(|member| self.feed(member, conversation, what, target)));
    }

    /// Repeats the head's tip in every member's inbox.
    fn tips(&self, head: &Head, conversation: ConversationId, writes: &mut Vec<Write>) {
        let tip = Arc::new(Cell { at: self.at.seq, value: Tip::of(head) });
        writes.extend(head.members().map(|user| Write::InboxTip { user: user.clone(), conversation, tip: tip.clone() }));
    }
}
