//! Replaces the content of a message; earlier texts stay for the operator.

use dunlin_model::{Cell, Edit, EditRow, Happening, Head, Rejection, Revision};
use dunlin_ports::Write;

use super::{Case, Verdict};

pub(super) fn project(case: &Case<'_>, head: &mut Option<Head>, edit: &Edit, writes: &mut Vec<Write>) -> Verdict {
    let (head, actor) = case.member(head)?;
    let target = case.live_target(head)?;
    if target.sender.as_ref() != Some(actor) {
        return Err(Rejection::NotSender);
    }
    case.not_blocked()?;
    let (conversation, at, edited_at) = (edit.conversation, case.at.seq, case.at.time);
    let revision = Cell { at, value: Revision::Edited { content: edit.content.clone(), edited_at } };
    writes.push(Write::Revision { conversation, target: target.seq, bucket: target.bucket, revision });
    writes.push(Write::Edit { conversation, target: target.seq, row: EditRow { at, edited_at, content: edit.content.clone() } });
    case.feed_all(head, conversation, Happening::Edited, Some(target.seq), writes);
    case.done()
}
