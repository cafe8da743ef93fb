//! Deletes a message for the actor only.

use dunlin_model::{Cell, Happening, Head, Hide};
use dunlin_ports::Write;

use super::{Case, Verdict};

pub(super) fn project(case: &Case<'_>, head: &mut Option<Head>, hide: &Hide, writes: &mut Vec<Write>) -> Verdict {
    let (head, actor) = case.member(head)?;
    let target = case.target(head)?.seq;
    writes.push(Write::Hidden { user: actor.clone(), conversation: hide.conversation, target, at: case.at.seq });
    if head.last.as_ref().is_some_and(|last| last.seq == target) {
        let veiled = Cell { at: case.at.seq, value: target };
        writes.push(Write::InboxVeiled { user: actor.clone(), conversation: hide.conversation, veiled });
    }
    writes.push(case.feed(actor, hide.conversation, Happening::Hidden, Some(target)));
    case.done()
}
