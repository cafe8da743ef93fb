//! What must hold for every log: the projector over random logs, cuts, interleavings and reorderings, and the use cases against a second,
//! naive implementation. Every property is also run with a deliberate fault, which it must find.
//!
//! `PROPTEST_CASES=2000 cargo test -p dunlin-app --test properties` looks longer.

mod bites;
mod feed;
mod indexes;
mod large_inbox;
mod lockstep;
mod long_conversations;
mod parked;
mod replay;
mod support;
mod two_projectors;
mod unparked;
