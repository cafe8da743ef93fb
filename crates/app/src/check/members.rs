//! What each member's rows say of a conversation: the inbox's copy of the head, the marks, and the unread count that follows from them.

use dunlin_model::{Deleted, InboxRow, Mark, MemberRow, MessageRow, Tip, UserId};
use dunlin_ports::{SeqRange, StoreError};

use super::{Conversation, PAGE, Place, Walk, deleted::Newest, messages};

/// A member, with what the messages tell about them.
pub(super) struct Member {
    user: UserId,
    row: Option<InboxRow>,
    seen: Mark,
    /// The last message of their own.
    own: Mark,
    /// Messages above what they have seen that are not deleted for everyone.
    unread: u64,
}

pub(super) async fn read(walk: &mut Walk<'_>, this: Conversation<'_>) -> Result<Vec<Member>, StoreError> {
    let mut members = Vec::new();
    for user in this.head.members() {
        let row = walk.store.inbox_row(user, this.id).await?;
        let seen = row.as_ref().map_or_else(Mark::default, |row| row.seen).since(this.head.born);
        walk.report.members += 1;
        walk.report.inbox_rows += u64::from(row.is_some());
        members.push(Member { user: user.clone(), row, seen, own: Mark::default(), unread: 0 });
    }
    Ok(members)
}

impl Member {
    pub(super) fn pass(&mut self, message: &MessageRow) {
        if message.sender.as_ref() == Some(&self.user) {
            self.own = Mark { n: message.n, seq: message.seq };
        }
        self.unread += u64::from(message.n > self.seen.n && !message.is_deleted());
    }

    fn tip(&self) -> Option<&Tip> {
        self.row.as_ref()?.tip.as_ref().map(|cell| &cell.value)
    }
}

pub(super) async fn check(walk: &mut Walk<'_>, this: Conversation<'_>, members: &[Member], deleted: &Newest) -> Result<(), StoreError> {
    for member in members {
        let place = Place::member(this.id, &member.user);
        walk.report.problems(&place, wrong_tip(this, member));
        if member.own.seq > member.seen.seq {
            walk.report.problem(&place, format!("own message n {} lies above seen, n {}", member.own.n.0, member.seen.n.0));
        }
        let Some(row) = &member.row else { continue };
        walk.report.problems(&place, wrong_deleted(this, row, deleted));
        for (register, mark) in [("seen", row.seen), ("hidden", row.hidden)] {
            check_mark(walk, this, &place, register, mark).await?;
        }
        check_covered(walk, this, &place, row).await?;
        check_veiled(walk, this, member, row).await?;
        check_unread(walk, &place, member, row).await?;
    }
    if members.iter().all(|member| member.tip().is_none()) {
        walk.report.problem(&Place::conversation(this.id), "is in nobody's inbox, not even its opener's".into());
    }
    Ok(())
}

/// The marks that members show to each other.
pub(super) async fn check_shown_marks(walk: &mut Walk<'_>, this: Conversation<'_>, members: &[Member]) -> Result<(), StoreError> {
    let mut after: Option<UserId> = None;
    loop {
        let rows = walk.store.members(this.id, after.clone(), PAGE).await?;
        for row in &rows {
            let place = Place::member(this.id, &row.user);
            match members.iter().find(|member| member.user == row.user) {
                None => walk.report.problem(&place, "has marks and is no member".into()),
                Some(member) => check_member_row(walk, this, &place, member, row).await?,
            }
        }
        if !walk.onward(&Place::conversation(this.id), &mut after, rows.last().map(|row| Some(row.user.clone()))) {
            return Ok(());
        }
    }
}

async fn check_member_row(
    walk: &mut Walk<'_>,
    this: Conversation<'_>,
    place: &Place,
    member: &Member,
    row: &MemberRow,
) -> Result<(), StoreError> {
    for (register, mark) in [("read", row.read), ("delivered", row.delivered)] {
        check_mark(walk, this, place, register, mark).await?;
    }
    if row.read.since(this.head.born).seq > member.seen.seq {
        walk.report.problem(place, format!("read, n {}, lies above seen, n {}", row.read.n.0, member.seen.n.0));
    }
    Ok(())
}

fn wrong_tip(this: Conversation<'_>, member: &Member) -> Option<String> {
    let head = this.head;
    let Some(cell) = member.row.as_ref().and_then(|row| row.tip.as_ref()) else {
        // Until there is a message only whoever opened the conversation has it in their inbox.
        return head.last.as_ref().map(|_| match &member.row {
            None => "has no inbox row, and there are messages".into(),
            Some(_) => "has an inbox row without a tip, and there are messages".into(),
        });
    };
    let (tip, right) = (&cell.value, Tip::of(head));
    let difference = messages::difference(tip.last, right.last);
    match () {
        () if tip.n != right.n => Some(format!("inbox tip has n {}, the head {}", tip.n.0, right.n.0)),
        () if difference.is_some() => difference.map(|difference| format!("inbox tip's last message is not the head's: {difference}")),
        () if *tip != right => Some("inbox tip has another birth or kind than the head".into()),
        () if cell.at < head.tip() || cell.at > head.applied => {
            Some(format!("inbox tip was written at seq {}, not between {} and {}", cell.at, head.tip(), head.applied))
        }
        () => None,
    }
}

fn wrong_deleted(this: Conversation<'_>, row: &InboxRow, right: &Newest) -> Option<String> {
    let cell = row.deleted.as_ref().filter(|cell| cell.at > this.head.born);
    match cell {
        None if right.is_empty() => None,
        Some(cell) if cell.at > this.head.applied => {
            Some(format!("inbox's deleted numbers were written at seq {}, beyond the head", cell.at))
        }
        _ => {
            let none = Deleted::default();
            let difference = right.difference(cell.map_or(&none, |cell| &cell.value));
            difference.map(|difference| format!("inbox's deleted numbers are wrong: {difference}"))
        }
    }
}

/// A mark stands at a message, with that message's number; or at the opening, with no number; or below the birth, where it means nothing.
async fn check_mark(walk: &mut Walk<'_>, this: Conversation<'_>, place: &Place, register: &str, mark: Mark) -> Result<(), StoreError> {
    let (n, seq, head) = (mark.n, mark.seq, this.head);
    if seq < head.born {
        return Ok(());
    }
    let wrong = match walk.store.message(this.id, seq).await? {
        _ if seq > head.tip() || n > head.n => Some(format!("lies beyond the head, n {} and seq {}", head.n.0, head.tip())),
        Some(row) if row.n != n => Some(format!("is at the message n {}", row.n.0)),
        None if seq != head.born || n.0 != 0 => Some("is at no message".into()),
        _ => None,
    };
    walk.report.problems(place, wrong.map(|wrong| format!("{register}, n {} and seq {seq}, {wrong}", n.0)));
    Ok(())
}

/// What an archiving covers is a message or the opening.
async fn check_covered(walk: &mut Walk<'_>, this: Conversation<'_>, place: &Place, row: &InboxRow) -> Result<(), StoreError> {
    let Some(seq) = row.archived.as_ref().and_then(|cell| cell.value).filter(|seq| *seq > this.head.born) else { return Ok(()) };
    if walk.store.message(this.id, seq).await?.is_none() {
        walk.report.problem(place, format!("is archived up to seq {seq}, which is no message"));
    }
    Ok(())
}

/// What is veiled in the inbox is hidden in the history too.
async fn check_veiled(walk: &mut Walk<'_>, this: Conversation<'_>, member: &Member, row: &InboxRow) -> Result<(), StoreError> {
    let Some(seq) = row.veiled.as_ref().map(|cell| cell.value).filter(|seq| *seq >= this.head.born) else { return Ok(()) };
    let only = SeqRange { after: seq.previous(), before: seq.next() };
    if walk.store.hidden(&member.user, this.id, only, 1).await? != [seq] {
        walk.report.problem(&Place::member(this.id, &member.user), format!("seq {seq} is veiled in the inbox and not hidden"));
    }
    Ok(())
}

/// The count as readers make it, against the messages.
async fn check_unread(walk: &mut Walk<'_>, place: &Place, member: &Member, row: &InboxRow) -> Result<(), StoreError> {
    let Some(tip) = member.tip() else { return Ok(()) };
    let seen = row.seen(tip).n;
    let listed = row.deleted.as_ref().filter(|cell| cell.at > tip.born).map_or(Some(0), |cell| cell.value.above(seen));
    let gone = match listed {
        Some(gone) => gone,
        None => walk.store.deleted_above(row.conversation, seen).await?,
    };
    walk.report.unread_checked += 1;
    match tip.n.since(seen).checked_sub(gone) {
        Some(unread) if unread == member.unread => {}
        Some(unread) => walk.report.problem(place, format!("has {unread} unread, but {} messages above n {} are", member.unread, seen.0)),
        None => walk.report.problem(place, format!("{gone} numbers above n {} are deleted, and n goes to {} only", seen.0, tip.n.0)),
    }
    Ok(())
}
