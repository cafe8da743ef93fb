//! Archives, activates or deletes a conversation for one member. A new message brings it back by itself: what was archived or deleted
//! is kept as "up to which message".

use dunlin_model::{Cell, Happening, Head, Mark, Register, Visibility, VisibilityChange};
use dunlin_ports::Write;

use super::{Case, Verdict};

pub(super) fn project(case: &Case<'_>, head: &mut Option<Head>, visibility: &Visibility, writes: &mut Vec<Write>) -> Verdict {
    let (head, actor) = case.member(head)?;
    let conversation = visibility.conversation;
    let everything = Mark { n: head.n, seq: head.tip() };
    let mark = |register| Write::Mark { user: actor.clone(), conversation, register, mark: everything };
    let archived = |value| Write::InboxArchived { user: actor.clone(), conversation, archived: Cell { at: case.at.seq, value } };
    let what = match visibility.change {
        VisibilityChange::Archive => {
            writes.extend([archived(Some(everything.seq)), mark(Register::Seen)]);
            Happening::Archived
        }
        VisibilityChange::Activate => {
            writes.push(archived(None));
            Happening::Activated
        }
        VisibilityChange::Delete => {
            writes.extend([mark(Register::Hidden), mark(Register::Seen)]);
            Happening::ConversationDeleted
        }
    };
    writes.push(case.feed(actor, conversation, what, None));
    case.done()
}
