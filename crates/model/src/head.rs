//! The one mutable thing that the projector must know before it can judge a conversation's next event.

use minicbor::{Decode, Encode};

use crate::{ClientId, ContentHash, ConversationKind, Millis, N, Pair, Seq, UserId, limits};

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
    /// None where the store itself tells quickly that a client id is new.
    #[n(8)]
    pub recent: Option<RecentIds>,
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

/// Under which client ids the newest messages were sent, so that most that come are known to be new without a look at the store. Two
/// generations: when the younger is full, the older one goes.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct RecentIds {
    /// Of whatever was accepted later than this, the id is here.
    #[n(0)]
    since: Millis,
    /// The same for the younger generation alone.
    #[n(1)]
    young_since: Millis,
    /// Four bytes of a hash each.
    #[cbor(n(2), with = "minicbor::bytes")]
    old: Vec<u8>,
    #[cbor(n(3), with = "minicbor::bytes")]
    young: Vec<u8>,
}

impl RecentIds {
    /// Nothing yet; all that was accepted until `since` is unknown.
    pub fn new(since: Millis) -> RecentIds {
        RecentIds { since, young_since: since, old: Vec::new(), young: Vec::new() }
    }

    pub fn add(&mut self, sender: Option<&UserId>, id: &ClientId, at: Millis) {
        let hash = RecentIds::hash(sender, id);
        if self.young.len() >= limits::RECENT_IDS_IN_HEAD_MAX / 2 * hash.len() {
            self.old = std::mem::take(&mut self.young);
            (self.since, self.young_since) = (self.young_since, at);
        }
        self.young.extend(hash);
    }

    /// True if nothing was accepted under the id at or after a time. False says nothing.
    pub fn rule_out(&self, sender: Option<&UserId>, id: &ClientId, from: Millis) -> bool {
        let hash = RecentIds::hash(sender, id);
        from > self.since && !self.old.chunks(hash.len()).chain(self.young.chunks(hash.len())).any(|other| other == hash)
    }

    /// Two ids may share one; then the store is asked in vain.
    fn hash(sender: Option<&UserId>, id: &ClientId) -> [u8; 4] {
        let said = [sender.map_or("", UserId::as_str).as_bytes(), &[0], id.as_str().as_bytes()].concat();
        *ContentHash::of(&said).bytes().first_chunk().expect("a hash is longer")
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
    fn an_id_is_ruled_out_only_where_it_was_not_said() {
        let (ann, id) = (UserId::parse("ann").unwrap(), |number: u64| ClientId::parse(&format!("c{number}")).unwrap());
        let mut recent = RecentIds::new(Millis::ZERO);
        for number in 1..=300 {
            // Two messages a millisecond, so generations also begin within one.
            let (at, from) = (Millis(number / 2), Millis((number / 2).saturating_sub(20)));
            recent.add(Some(&ann), &id(number), at);
            for said in (1..=number).filter(|said| said / 2 >= from.0) {
                assert!(!recent.rule_out(Some(&ann), &id(said), from), "{said} of {number}");
            }
            assert!(recent.old.len() + recent.young.len() <= limits::RECENT_IDS_IN_HEAD_MAX * 4);
        }
        let lately = Millis(140);
        assert!(recent.rule_out(Some(&ann), &id(301), lately));
        assert!(recent.rule_out(None, &id(300), lately), "another sender's id is another id");
        assert!(!recent.rule_out(Some(&ann), &id(301), Millis(1)), "who knows what was said then");
        assert!(!RecentIds::new(lately).rule_out(Some(&ann), &id(1), lately));
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
