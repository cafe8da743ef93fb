//! The one mutable thing that the projector must know before it can judge a conversation's next event.

use minicbor::{Decode, Encode};

use crate::{ConversationKind, Millis, N, Pair, Seq, UserId, limits};

/// A conversation's head: one cell, written after everything that its events up to `applied` write.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Head {
    /// The last event that was judged against this head, whatever its outcome.
    #[n(0)]
    pub applied: Seq,
    /// The event that made this head. What refers to something older is void.
    #[n(1)]
    pub born: Seq,
    #[n(2)]
    pub opened_at: Millis,
    #[n(3)]
    pub n: N,
    #[n(4)]
    pub last: Option<Last>,
    #[n(5)]
    pub bucket: Bucket,
    #[n(6)]
    pub kind: Kind,
    #[n(7)]
    pub deleted: Deleted,
}

/// What differs between kinds of conversations. Numbers 1 and 2 are kept for ads and groups.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Kind {
    #[n(0)]
    Direct(#[n(0)] Pair),
}

impl Kind {
    pub fn of(&self) -> ConversationKind {
        match self {
            Kind::Direct(_) => ConversationKind::Direct,
        }
    }

    pub fn is_member(&self, user: &UserId) -> bool {
        match self {
            Kind::Direct(pair) => pair.contains(user),
        }
    }
}

/// Which message is the last. What it says is in its own row alone: heads and tips are written with every message, so they are kept small.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Last {
    #[n(0)]
    pub seq: Seq,
    #[n(1)]
    pub at: Millis,
}

/// The part of the conversation that new messages are stored in, and how full it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Bucket {
    #[n(0)]
    pub number: u32,
    #[n(1)]
    pub messages: u32,
    #[n(2)]
    pub bytes: u64,
}

impl Bucket {
    /// Counts one more message; true if a new bucket begins with it.
    pub fn add(&mut self, bytes: u64) -> bool {
        let cut = self.messages >= limits::BUCKET_MESSAGES_MAX || (self.messages > 0 && self.bytes + bytes > limits::BUCKET_BYTES_MAX);
        if cut {
            *self = Bucket { number: self.number + 1, messages: 0, bytes: 0 };
        }
        self.messages += 1;
        self.bytes += bytes;
        cut
    }
}

/// The newest numbers deleted for everyone, ascending.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Deleted {
    #[n(0)]
    newest: Vec<N>,
    /// There are more below the lowest of `newest`.
    #[n(1)]
    more: bool,
}

impl Deleted {
    pub fn add(&mut self, n: N) {
        let Err(at) = self.newest.binary_search(&n) else { return };
        if at == 0 && self.more {
            return; // Below what is kept: counted from its row.
        }
        self.newest.insert(at, n);
        if self.newest.len() > limits::DELETED_IN_HEAD_MAX {
            self.newest.remove(0);
            self.more = true;
        }
    }

    /// How many lie above `n`; none if only the rows can tell.
    pub fn above(&self, n: N) -> Option<u64> {
        let at = self.newest.partition_point(|deleted| *deleted <= n);
        (at > 0 || !self.more).then_some((self.newest.len() - at) as u64)
    }

    pub fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }
}

impl Head {
    pub fn is_member(&self, user: &UserId) -> bool {
        self.kind.is_member(user)
    }

    pub fn members(&self) -> impl Iterator<Item = &UserId> {
        match &self.kind {
            Kind::Direct(pair) => pair.users(),
        }
    }

    /// What the conversation has come to: its last message, or its opening.
    pub fn tip(&self) -> Seq {
        self.last.as_ref().map_or(self.born, |last| last.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_numbers_are_counted_exactly_or_not_at_all() {
        let mut deleted = Deleted::default();
        let all: Vec<N> = (1..=600).step_by(2).map(N).collect();
        for n in all.iter().rev().chain(&all) {
            deleted.add(*n); // in any order, and again
        }
        for n in 0..=601 {
            let right = all.iter().filter(|d| d.0 > n).count() as u64;
            match deleted.above(N(n)) {
                Some(count) => assert_eq!(count, right, "above {n}"),
                None => assert!(right > limits::DELETED_IN_HEAD_MAX as u64 - 1, "could have told above {n}"),
            }
        }
        assert_eq!(deleted.above(N(599)), Some(0));
    }

    #[test]
    fn a_bucket_is_cut_by_count_or_by_bytes() {
        let mut bucket = Bucket::default();
        let cuts = (0..25_000).filter(|_| bucket.add(100)).count();
        assert_eq!((cuts, bucket.number, bucket.messages), (2, 2, 5_000));
        let mut bucket = Bucket::default();
        let half = limits::BUCKET_BYTES_MAX / 2;
        assert_eq!((0..4).map(|_| bucket.add(half)).collect::<Vec<_>>(), [false, false, true, false]);
        let mut bucket = Bucket::default();
        assert!(!bucket.add(limits::BUCKET_BYTES_MAX * 2), "a bucket is never empty");
    }
}
