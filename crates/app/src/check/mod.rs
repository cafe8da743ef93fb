//! The walk behind `dunlin check`: reads everything that the message store holds, recounts it from the messages up, and names whatever does
//! not agree. It sees the store through its port only, and repairs nothing.
//!
//! - **At rest**: assumes that nothing is projected meanwhile and that projection has caught up. Beside a live projector a message that
//!   arrives between two reads looks like damage.
//! - **Bounded**: pages of rows, one conversation at a time. Who was met before is not remembered either: a user's inbox and feed are
//!   walked at the first of their conversations, which their inbox itself tells (`user`).
//! - **Reached from heads**: rows of a conversation without a head, and of users who are in no conversation, are not found: the port
//!   can't list them. Edits, reactions and blocks are not compared with anything; contents only with what their dedup rows keep of them.
//! - **Expiry**: what may have expired by the store's own log time (its horizon) is not missed.

mod conversation;
mod dedup;
mod deleted;
mod feed;
mod index;
mod members;
mod messages;
mod report;
mod user;

use std::collections::HashMap;

use dunlin_model::{ConversationId, Head, LogKey, Millis, Seq, limits};
use dunlin_ports::{MessageStore, Replay, StoreError};

use crate::Rules;
pub use report::{PROBLEMS_KEPT_MAX, PROBLEMS_OF_A_PLACE_MAX, Place, Problem, Report};

/// How many rows are read at a time.
const PAGE: usize = 500;
/// How many small reads are under way at once.
const READS_AT_ONCE: usize = 16;

/// How many log keys with events that were once set aside are known.
const PARKED_MAX: usize = 10_000;

/// What the walk can't find out by itself.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// For how long `client_id`s are kept, in log time: what is older may be gone.
    pub dedup_window_ms: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { dedup_window_ms: Rules::default().dedup_window_ms }
    }
}

/// Walks the whole store. An error means that the walk could not go on; what it found wrong is in the report. `progress` gets the report
/// so far after each page of messages and each user.
pub async fn check(store: &dyn MessageStore, options: Options, progress: &mut (dyn FnMut(&Report) + Send)) -> Result<Report, StoreError> {
    // What one partition has applied is time enough: expired rows are only a matter of hygiene.
    let now = store.horizon(1).await?;
    let mut walk = Walk {
        store,
        dedup_since: now.minus(options.dedup_window_ms),
        feed_since: now.minus(limits::FEED_DAYS * Millis::DAY),
        replays: store.parked(PARKED_MAX).await?.into_iter().map(|parked| (parked.key, parked.replays)).collect(),
        report: Report::default(),
        progress,
    };
    let mut after = None;
    loop {
        let heads = store.heads(after, PAGE).await?;
        for (id, head) in &heads {
            let checked = one(&mut walk, Conversation { id: *id, head }).await;
            walk.survive(&Place::conversation(*id), checked)?;
        }
        if !walk.onward(&Place::default(), &mut after, heads.last().map(|(id, _)| Some(*id))) {
            return Ok(walk.report);
        }
    }
}

async fn one(walk: &mut Walk<'_>, this: Conversation<'_>) -> Result<(), StoreError> {
    walk.report.conversations += 1;
    let checked = conversation::check(walk, this).await;
    walk.survive(&Place::conversation(this.id), checked)?;
    for user in this.head.members() {
        if user::begins_at(walk, user, this.id).await? {
            let checked = user::check(walk, user).await;
            walk.survive(&Place::user(user), checked)?;
        }
    }
    Ok(())
}

/// A conversation under examination.
#[derive(Clone, Copy)]
struct Conversation<'a> {
    id: ConversationId,
    head: &'a Head,
}

struct Walk<'a> {
    store: &'a dyn MessageStore,
    /// Rows from before these times may have expired.
    dedup_since: Millis,
    feed_since: Millis,
    /// What feeds show later than it happened.
    replays: HashMap<LogKey, Vec<Replay>>,
    report: Report,
    progress: &'a mut (dyn FnMut(&Report) + Send),
}

impl Walk<'_> {
    /// When feeds show an event: at its own time, or at that of the unpark event which brought it back.
    fn shown_at(&self, conversation: ConversationId, seq: Seq, own: Millis) -> impl Iterator<Item = Millis> {
        let replays = self.replays.get(&conversation.log_key()).into_iter().flatten();
        [own].into_iter().chain(replays.filter(move |replay| replay.contains(seq)).map(|replay| replay.time))
    }

    fn tell_progress(&mut self) {
        (self.progress)(&self.report);
    }

    /// A row that can't be read is a problem like any other: the walk goes on behind it.
    fn survive(&mut self, place: &Place, checked: Result<(), StoreError>) -> Result<(), StoreError> {
        let Err(StoreError::Corrupt(what)) = checked else { return checked };
        self.report.problem(place, format!("can't be read to its end: {what}"));
        Ok(())
    }

    /// Moves a cursor to a page's last row. False at the end, and where a page does not lead on: it would be read for ever.
    fn onward<K: PartialOrd + std::fmt::Debug>(&mut self, place: &Place, after: &mut K, last: Option<K>) -> bool {
        match last {
            None => false,
            Some(last) if last <= *after => {
                self.report.problem(place, format!("a page of rows after {after:?} ends with {last:?}; what follows was not checked"));
                false
            }
            Some(last) => {
                *after = last;
                true
            }
        }
    }
}
