//! One user across conversations: the whole inbox and the whole feed, walked once.

use dunlin_model::{ConversationId, UserId};
use dunlin_ports::{StoreError, Wanted};

use super::{PAGE, Place, Walk, feed};

/// How many inbox rows are read to find the first that counts: nearly always it is the first of all.
const FIRST_ROWS: usize = 4;

pub(super) async fn check(walk: &mut Walk<'_>, user: &UserId) -> Result<(), StoreError> {
    walk.report.users += 1;
    check_inbox(walk, user).await?;
    feed::check_user(walk, user).await?;
    walk.tell_progress();
    Ok(())
}

/// Whether this conversation is the first of the user's, in the order in which conversations are walked: no list of users met before is
/// needed. The first is the first inbox row whose conversation exists and has the user as a member; a user without any such row is not
/// walked (the missing row is a problem of its conversation, if it has messages).
pub(super) async fn begins_at(walk: &Walk<'_>, user: &UserId, conversation: ConversationId) -> Result<bool, StoreError> {
    let mut after = None;
    loop {
        let rows = walk.store.inbox(user, after, FIRST_ROWS).await?;
        for row in &rows {
            if row.conversation >= conversation {
                return Ok(row.conversation == conversation);
            }
            if walk.store.head(row.conversation).await?.is_some_and(|head| head.is_member(user)) {
                return Ok(false);
            }
        }
        match rows.last().map(|row| row.conversation) {
            last if last <= after => return Ok(false),
            last => after = last,
        }
    }
}

async fn check_inbox(walk: &mut Walk<'_>, user: &UserId) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let rows = walk.store.inbox(user, after, PAGE).await?;
        let wanted = Wanted { heads: rows.iter().map(|row| row.conversation).collect(), ..Wanted::default() };
        let heads = walk.store.known(&wanted).await?.heads;
        for (row, head) in rows.iter().zip(heads) {
            let wrong = match head {
                None => Some("has an inbox row of a conversation that does not exist"),
                Some(head) if !head.is_member(user) => Some("has an inbox row and is no member"),
                Some(_) => None,
            };
            walk.report.problems(&Place::member(row.conversation, user), wrong.map(String::from));
        }
        if !walk.onward(&Place::user(user), &mut after, rows.last().map(|row| Some(row.conversation))) {
            return Ok(());
        }
    }
}
