//! Moves a member's read mark, which others see, and with it what they have seen themselves.

use dunlin_model::{Happening, Head, Read, Register, Rejection};
use dunlin_ports::Write;

use super::{Case, Verdict};

pub(super) fn project(case: &Case<'_>, head: &mut Option<Head>, read: &Read, writes: &mut Vec<Write>) -> Verdict {
    let (head, actor) = case.member(head)?;
    let (mark, conversation) = (read.up_to, read.conversation);
    if mark.seq > head.tip() || mark.n > head.n {
        return Err(Rejection::BeyondHead);
    }
    // The number must be that message's, or unread would be wrong for good.
    if case.target(head)?.n != mark.n {
        return Err(Rejection::Mismatch);
    }
    for register in [Register::Seen, Register::Read] {
        writes.push(Write::Mark { user: actor.clone(), conversation, register, mark });
    }
    writes.push(case.feed(actor, conversation, Happening::Read, Some(mark.seq)));
    case.done()
}
