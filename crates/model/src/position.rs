//! Where an event stands: the log's position, which is also a message's identity in its conversation.

use std::fmt;

use minicbor::{Decode, Encode};

use crate::Millis;

/// A position in the log that is also a message's identity in its conversation: `epoch << 40 | offset`.
/// Ordered within a log key; below 2^53, so safe as a JSON number; the timestamp of the cells that its event writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Seq(#[n(0)] u64);

const OFFSET_BITS: u32 = 40;

impl Seq {
    /// Below every event.
    pub const ZERO: Seq = Seq(0);
    /// The highest that JSON numbers carry exactly.
    pub const MAX: Seq = Seq((1 << 53) - 1);

    pub fn new(epoch: Epoch, offset: Offset) -> Seq {
        assert!(offset.0 < 1 << OFFSET_BITS, "a partition holds fewer than 2^40 records");
        assert!(epoch.0 < 1 << 13, "there are fewer than 2^13 epochs");
        Seq(u64::from(epoch.0) << OFFSET_BITS | offset.0)
    }

    /// `None` for a number that no event can have.
    pub fn from_u64(value: u64) -> Option<Seq> {
        (value <= Seq::MAX.0).then_some(Seq(value))
    }

    pub fn get(self) -> u64 {
        self.0
    }

    pub fn epoch(self) -> Epoch {
        Epoch(u16::try_from(self.0 >> OFFSET_BITS).expect("a seq is below 2^53"))
    }

    /// Where its event stands in its partition.
    pub fn offset(self) -> Offset {
        Offset(self.0 & ((1 << OFFSET_BITS) - 1))
    }

    pub fn next(self) -> Seq {
        Seq(self.0 + 1)
    }

    pub fn previous(self) -> Seq {
        Seq(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One life of the log. Live epochs start at 2: below lies imported history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(transparent)]
pub struct Epoch(#[n(0)] pub u16);

impl Epoch {
    pub const FIRST_LIVE: Epoch = Epoch(2);

    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

/// A record's ordinal in its partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Offset(#[n(0)] pub u64);

impl Offset {
    pub fn next(self) -> Offset {
        Offset(self.0 + 1)
    }
}

/// One ordered part of the log. The embedded log has one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(transparent)]
pub struct Partition(#[n(0)] pub u32);

/// Where and when the log holds an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    pub partition: Partition,
    pub seq: Seq,
    pub offset: Offset,
    /// The log's time, never backwards within a partition.
    pub time: Millis,
}

/// The dense number of a message among the live messages of its conversation: 1, 2, 3 …
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct N(#[n(0)] pub u64);

impl N {
    pub const ZERO: N = N(0);

    pub fn next(self) -> N {
        N(self.0 + 1)
    }

    /// How many numbers lie above `earlier` up to this one.
    pub fn since(self, earlier: N) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seq_orders_by_epoch_then_offset_and_is_safe_in_json() {
        let seq = |epoch, offset| Seq::new(Epoch(epoch), Offset(offset));
        assert_eq!(seq(2, 0).get(), 2_199_023_255_552);
        assert!(seq(2, (1 << 40) - 1) < seq(3, 0));
        assert_eq!(seq(8191, (1 << 40) - 1), Seq::MAX);
        assert_eq!((seq(3, 7).epoch(), seq(3, 7).offset(), Seq::MAX.epoch()), (Epoch(3), Offset(7), Epoch(8191)));
        assert_eq!(Seq::from_u64(1 << 53), None);
    }
}
