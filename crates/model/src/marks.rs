//! How far each member has come: registers that only ever rise.

use minicbor::{Decode, Encode};

use crate::{N, Seq, UserId};

/// Everything up to one message: its number and its seq. The default lies below every message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Mark {
    #[n(0)]
    pub n: N,
    #[n(1)]
    pub seq: Seq,
}

impl Mark {
    /// Raises to `other` if that lies further on; never falls.
    pub fn raise(&mut self, other: Mark) {
        if other.seq > self.seq {
            *self = other;
        }
    }

    /// The mark as a conversation born at `born` sees it: what was set before means nothing.
    pub fn since(self, born: Seq) -> Mark {
        if self.seq < born { Mark::default() } else { self }
    }
}

/// Which of a member's marks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Register {
    /// Private: moved by read marks, own sends, archive and delete. Unread counts from here.
    Seen,
    /// Shown to others: moved by explicit marks only.
    Read,
    /// Shown to others: a device of the member has everything up to here.
    Delivered,
    /// What the member deleted: everything up to here is hidden from them for good.
    Hidden,
}

/// What a conversation's other members may see of one member.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct MemberRow {
    #[n(0)]
    pub user: UserId,
    #[n(1)]
    pub read: Mark,
    #[n(2)]
    pub delivered: Mark,
}

impl MemberRow {
    pub fn new(user: UserId) -> MemberRow {
        MemberRow { user, read: Mark::default(), delivered: Mark::default() }
    }

    /// What a reader implies: whoever has read a message also has it.
    pub fn delivered(&self) -> Mark {
        let mut delivered = self.delivered;
        delivered.raise(self.read);
        delivered
    }
}
