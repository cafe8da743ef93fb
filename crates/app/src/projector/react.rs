//! Adds a reaction to a message or takes it back.

use dunlin_model::{Cell, Happening, Head, React};
use dunlin_ports::Write;

use super::{Case, Verdict};

pub(super) fn project(case: &Case<'_>, head: &mut Option<Head>, react: &React, writes: &mut Vec<Write>) -> Verdict {
    let (head, actor) = case.member(head)?;
    let target = case.live_target(head)?;
    if react.on {
        case.not_blocked()?;
    }
    writes.push(Write::Reaction {
        conversation: react.conversation,
        target: target.seq,
        bucket: target.bucket,
        user: actor.clone(),
        emoji: react.emoji.clone(),
        on: Cell { at: case.at.seq, value: react.on },
    });
    case.feed_all(head, react.conversation, Happening::Reacted, Some(target.seq), writes);
    case.done()
}
