//! One user blocks another, or no longer does. Ordered with every message between the two.

use dunlin_model::{Block, BlockRow, ConversationId, Happening, Outcome, OutcomeRow, Rejection};
use dunlin_ports::Write;

use super::{Case, Verdict};

pub(super) fn project(case: &Case<'_>, block: &Block, writes: &mut Vec<Write>) -> Verdict {
    let blocker = case.actor()?;
    let blocked = block.pair.other(blocker);
    if !block.pair.contains(blocker) || blocker == blocked {
        return Err(Rejection::Mismatch);
    }
    let between = ConversationId::direct(&block.pair);
    // A block moves no head, so its outcome is found by this row.
    let outcome = OutcomeRow { outcome: Outcome::Done(case.at.seq), actor: Some(blocker.clone()) };
    writes.push(Write::Outcome { conversation: between, at: case.at.seq, row: outcome });
    let stands = case.known.blocks.iter().any(|row| row.blocker == *blocker && row.on);
    if stands == block.on {
        // Nothing happened: a block that is repeated stands since it first did.
        return case.done();
    }
    let row = BlockRow { blocker: blocker.clone(), blocked: blocked.clone(), at: case.at.seq, since: case.at.time, on: block.on };
    writes.push(Write::Block(row));
    let what = if block.on { Happening::Blocked } else { Happening::Unblocked };
    writes.extend(block.pair.users().map(|user| case.feed(user, between, what, None)));
    case.done()
}
