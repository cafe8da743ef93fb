//! Deletes a message for everyone. Its number stays taken, and no longer counts as unread.

use dunlin_model::{Cell, Delete, Happening, Head, Rejection, Revision};
use dunlin_ports::Write;

use super::{Case, Verdict};

pub(super) fn project(case: &Case<'_>, head: &mut Option<Head>, delete: &Delete, writes: &mut Vec<Write>) -> Verdict {
    let (head, actor) = case.member(head)?;
    let target = case.target(head)?;
    if target.sender.as_ref() != Some(actor) {
        return Err(Rejection::NotSender);
    }
    if target.deleted_before(case.at.seq) {
        return case.done();
    }
    let (conversation, at) = (delete.conversation, case.at.seq);
    let revision = Cell { at, value: Revision::Deleted { by: Some(actor.clone()), deleted_at: case.at.time } };
    writes.push(Write::Revision { conversation, target: target.seq, bucket: target.bucket, revision });
    writes.push(Write::DeletedNumber { conversation, n: target.n, at });
    head.deleted.add(target.n);
    let deleted = Cell { at, value: head.deleted.clone() };
    writes.extend(head.members().map(|user| Write::InboxDeleted { user: user.clone(), conversation, deleted: deleted.clone() }));
    case.feed_all(head, conversation, Happening::Deleted, Some(target.seq), writes);
    case.done()
}
