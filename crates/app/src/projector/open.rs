//! Opens a conversation, or finds it open. Only the opener's inbox shows it until there is a message.

use dunlin_model::{Bucket, Cell, Deleted, Happening, Head, Kind, N, Opening, Rejection, Tip};
use dunlin_ports::Write;

use super::{Case, Verdict};

pub(super) fn project(case: &Case<'_>, head: &mut Option<Head>, opening: &Opening, writes: &mut Vec<Write>) -> Verdict {
    let conversation = opening.conversation();
    let actor = case.actor()?.clone();
    if head.is_none() {
        let born = born(case, opening)?;
        if !born.is_member(&actor) {
            return Err(Rejection::NoConversation);
        }
        case.not_blocked()?;
        *head = Some(born);
    }
    let (head, actor) = case.member(head)?;
    writes.push(case.feed(actor, conversation, Happening::Opened, None));
    writes.push(Write::InboxTip { user: actor.clone(), conversation, tip: Cell { at: case.at.seq, value: Tip::of(head) }.into() });
    case.done()
}

/// The head of a conversation that begins with this event.
pub(super) fn born(case: &Case<'_>, opening: &Opening) -> Result<Head, Rejection> {
    let Opening::Direct(pair) = opening;
    if case.event.key != pair.log_key() {
        return Err(Rejection::Mismatch);
    }
    Ok(Head {
        applied: case.at.seq,
        born: case.at.seq,
        opened_at: case.at.time,
        n: N::ZERO,
        last: None,
        bucket: Bucket::default(),
        kind: Kind::Direct(pair.clone()),
        deleted: Deleted::default(),
        recent: None,
    })
}
