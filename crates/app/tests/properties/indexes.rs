//! Index rows and buckets: every message is found within one stretch of an index row of its own bucket.

use dunlin_contract::State;
use dunlin_model::{Bucket, ConversationId, Deleted, Head, IndexRow, Kind, Millis, N, Seq, limits};
use dunlin_ports::Record;
use proptest::{collection::vec, prelude::*};

use crate::support::{
    alice_and, bob, cases,
    faults::Fault,
    machine::{Ahead, Machine, stored},
    script::{BEGINNING, event, message},
    seq,
};

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn every_message_lies_within_a_stretch_of_its_buckets_index(grown in grown()) {
        stretches_hold(&grown, Fault::None)?;
    }
}

/// A conversation that has come near the end of its first bucket, by messages or by bytes, and what is said next.
#[derive(Clone, Debug)]
pub struct Grown {
    messages: u32,
    bytes_left: u64,
    lengths: Vec<usize>,
}

pub fn grown() -> impl Strategy<Value = Grown> {
    let near = |max: u32| max - 40..=max;
    let messages = prop_oneof![Just(1), 1..limits::BUCKET_MESSAGES_MAX, near(500), near(limits::BUCKET_MESSAGES_MAX)];
    let bytes_left = prop_oneof![0..5_000_u64, Just(limits::BUCKET_BYTES_MAX / 2)];
    (messages, bytes_left, vec(1..1_000_usize, 1..60)).prop_map(|(messages, bytes_left, lengths)| Grown { messages, bytes_left, lengths })
}

pub fn stretches_hold(grown: &Grown, fault: Fault) -> Result<(), TestCaseError> {
    let (store, records) = (stored(grown.state()), grown.records());
    Machine::start(&store, &records, fault, Ahead::Never).finish(&store, 7);
    let state = store.state();
    let mut bucket = Bucket { messages: grown.messages, bytes: limits::BUCKET_BYTES_MAX - grown.bytes_left, number: 0 };
    for ((_, seq), message) in &state.messages {
        let row = message.row().expect("sent");
        if row.bucket != bucket.number {
            prop_assert_eq!(row.bucket, bucket.number + 1, "buckets follow each other");
            bucket = Bucket { number: row.bucket, messages: 0, bytes: 0 };
        }
        bucket.messages += 1;
        bucket.bytes += row.current().expect("not deleted").bytes_len() as u64;
        prop_assert!(bucket.messages <= limits::BUCKET_MESSAGES_MAX && bucket.bytes <= limits::BUCKET_BYTES_MAX, "a bucket is full");
        let index = state.index.values().rfind(|index| index.n <= row.n).expect("the first message has an index row");
        prop_assert!(row.n.since(index.n) < limits::INDEX_EVERY, "{:?} is too far from {:?}", row.n, index);
        prop_assert_eq!(index.bucket, row.bucket, "{:?} is in another bucket than {:?}", row.n, index);
        prop_assert!(index.seq <= *seq && index.at <= row.created_at);
    }
    Ok(())
}

impl Grown {
    fn state(&self) -> State {
        let pair = alice_and(bob());
        let (conversation, n) = (ConversationId::direct(&pair), u64::from(self.messages));
        let head = Head {
            applied: seq(0),
            born: seq(0),
            opened_at: BEGINNING,
            n: N(n),
            last: None,
            bucket: Bucket { number: 0, messages: self.messages, bytes: limits::BUCKET_BYTES_MAX - self.bytes_left },
            kind: Kind::Direct(pair),
            deleted: Deleted::default(),
            recent: None,
        };
        let mut state = State::default();
        let first = N((n - 1) / limits::INDEX_EVERY * limits::INDEX_EVERY + 1);
        state.index.insert((conversation, first), IndexRow { seq: Seq::ZERO, n: first, at: Millis::ZERO, bucket: 0 });
        state.write_head(conversation, head);
        state
    }

    fn records(&self) -> Vec<Record> {
        let body = |place: usize, length: usize| message(&alice_and(bob()), &format!("c{place}"), &"x".repeat(length));
        (1..).zip(&self.lengths).map(|(place, length)| event(place, BEGINNING, Some(bob()), body(place, *length)).1).collect()
    }
}
