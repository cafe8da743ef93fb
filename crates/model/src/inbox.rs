//! One user's view of one conversation: the row that the inbox is made of.
//!
//! The row consists of cells that are written apart, each with its own time, and merge in whatever order they arrive.

use minicbor::{Decode, Encode};

use crate::{ConversationId, Deleted, Head, Kind, Last, Mark, Millis, N, Seq, UserId};

/// A value that the latest event wins.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Cell<T> {
    #[n(0)]
    pub at: Seq,
    #[n(1)]
    pub value: T,
}

impl<T> Cell<T> {
    pub fn merge(cell: &mut Option<Cell<T>>, other: Cell<T>) {
        if cell.as_ref().is_none_or(|mine| mine.at <= other.at) {
            *cell = Some(other);
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct InboxRow {
    #[n(0)]
    pub conversation: ConversationId,
    /// None while only marks have arrived: no conversation yet.
    #[n(1)]
    pub tip: Option<Cell<Tip>>,
    /// The numbers deleted for everyone; none if there never were any.
    #[n(2)]
    pub deleted: Option<Cell<Deleted>>,
    #[n(3)]
    pub seen: Mark,
    #[n(4)]
    pub hidden: Mark,
    /// The last seq that an archiving covers; empty after an activation.
    #[n(5)]
    pub archived: Option<Cell<Option<Seq>>>,
    /// The last message that this user deleted for themselves while it was the conversation's last.
    #[n(6)]
    pub veiled: Option<Cell<Seq>>,
}

/// What every member's row repeats of the head, so that one read gives the inbox.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Tip {
    #[n(0)]
    pub born: Seq,
    #[n(1)]
    pub opened_at: Millis,
    #[n(2)]
    pub n: N,
    #[n(3)]
    pub last: Option<Last>,
    #[n(4)]
    pub kind: Kind,
}

impl Tip {
    pub fn of(head: &Head) -> Tip {
        Tip { born: head.born, opened_at: head.opened_at, n: head.n, last: head.last, kind: head.kind.clone() }
    }

    fn seq(&self) -> Seq {
        self.last.as_ref().map_or(self.born, |last| last.seq)
    }

    /// What the inbox is ordered by.
    pub fn moved_at(&self) -> Millis {
        self.last.as_ref().map_or(self.opened_at, |last| last.at)
    }

    pub fn other(&self, user: &UserId) -> Option<&UserId> {
        match &self.kind {
            Kind::Direct(pair) => Some(pair.other(user)),
        }
    }
}

/// How a conversation shows to one user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Shown {
    Displayed,
    Archived,
    /// Not in the inbox at all, until a new message brings it back.
    Deleted,
}

impl InboxRow {
    pub fn new(conversation: ConversationId) -> InboxRow {
        InboxRow { conversation, tip: None, deleted: None, seen: Mark::default(), hidden: Mark::default(), archived: None, veiled: None }
    }

    pub fn shown(&self, tip: &Tip) -> Shown {
        let covers = |cell: &Option<Cell<Option<Seq>>>| cell.as_ref().and_then(|cell| cell.value).is_some_and(|seq| seq >= tip.seq());
        match () {
            () if self.hidden.seq >= tip.seq() => Shown::Deleted,
            () if covers(&self.archived) => Shown::Archived,
            () => Shown::Displayed,
        }
    }

    /// The last message as this user may see it: nothing of what they deleted.
    pub fn last(&self, tip: &Tip) -> Option<Last> {
        let veiled = self.veiled.as_ref().map_or(Seq::ZERO, |cell| cell.value);
        tip.last.filter(|last| last.seq > self.hidden.seq && last.seq != veiled)
    }

    pub fn seen(&self, tip: &Tip) -> Mark {
        self.seen.since(tip.born)
    }

    /// Unread messages; none if only the rows of deleted numbers can tell.
    pub fn unread(&self, tip: &Tip) -> Option<u64> {
        let seen = self.seen(tip).n;
        match &self.deleted {
            Some(deleted) if deleted.at > tip.born => deleted.value.above(seen).map(|gone| tip.n.since(seen).saturating_sub(gone)),
            _ => Some(tip.n.since(seen)),
        }
    }
}
