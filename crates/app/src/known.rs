//! Conversations that are known to be open, with their members: spares a send its look into the store.
//!
//! Only kinds whose members never change are remembered, and nothing is allowed because of it: the projector decides.

use std::sync::{Mutex, PoisonError};

use dunlin_model::{ConversationId, Head, Kind, UserId};

use crate::recent::Recent;

const KNOWN_MAX: usize = 100_000;

pub struct KnownConversations {
    open: Mutex<Recent<ConversationId, Kind>>,
}

impl Default for KnownConversations {
    fn default() -> KnownConversations {
        KnownConversations { open: Mutex::new(Recent::new(KNOWN_MAX)) }
    }
}

impl KnownConversations {
    pub(crate) fn learn(&self, conversation: ConversationId, head: &Head) {
        match head.kind {
            Kind::Direct(_) => {} // A kind whose members change is not to be remembered.
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(conversation, head.kind.clone());
        open.age();
    }

    /// False if that is not known.
    pub(crate) fn is_member(&self, conversation: ConversationId, user: &UserId) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_member = open.get(&conversation).is_some_and(|kind| kind.is_member(user));
        open.age();
        is_member
    }
}
