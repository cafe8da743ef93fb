//! Log time in milliseconds.

use minicbor::{Decode, Encode};

/// Milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Millis(#[n(0)] pub u64);

impl Millis {
    pub const ZERO: Millis = Millis(0);
    pub const DAY: u64 = 24 * 60 * 60 * 1000;

    pub fn minus(self, ms: u64) -> Millis {
        Millis(self.0.saturating_sub(ms))
    }
}
