//! What this node has learnt of conversations' buckets. All of it stays true: a message never moves, and a conversation that has a second bucket
//! keeps it.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use dunlin_model::{ConversationId, Seq};

/// When there are more, all are forgotten.
const CONVERSATIONS_MAX: usize = 100_000;

#[derive(Default)]
pub(crate) struct Buckets {
    known: Mutex<HashMap<ConversationId, Bucketed>>,
}

#[derive(Clone, Copy, Default)]
struct Bucketed {
    /// The first bucket holds every message up to this.
    first_until: Seq,
    is_long: bool,
}

impl Buckets {
    /// Whether a conversation is known to have more than one.
    pub fn is_long(&self, conversation: ConversationId) -> bool {
        self.known().get(&conversation).is_some_and(|known| known.is_long)
    }

    /// Whether whatever message there is up to a seq is known to be in the first.
    pub fn first_has(&self, conversation: ConversationId, seq: Seq) -> bool {
        self.known().get(&conversation).is_some_and(|known| seq <= known.first_until)
    }

    /// A message was found in the first bucket, and whether there are more.
    pub fn learn(&self, conversation: ConversationId, first_until: Seq, is_long: bool) {
        let mut known = self.known();
        if known.len() >= CONVERSATIONS_MAX {
            known.clear();
        }
        let bucketed = known.entry(conversation).or_default();
        bucketed.first_until = bucketed.first_until.max(first_until);
        bucketed.is_long |= is_long;
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ConversationId, Bucketed>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
