//! Conversations that are known to be open, with their members: spares a send its look into the store.
//!
//! Only kinds whose members never change are remembered, and nothing is allowed because of it: the projector decides.
//!
//! And who has very many of them: spares a look at the first of them before the look at all.

use std::sync::{Mutex, PoisonError};

use dunlin_model::{ConversationId, Head, Kind, UserId};

use crate::recent::Recent;

const KNOWN_MAX: usize = 100_000;
const MANY_MAX: usize = 10_000;

pub struct KnownConversations {
    open: Mutex<Recent<ConversationId, Kind>>,
    /// Users whose inbox took more than one read when it was last read here.
    many: Mutex<Recent<UserId, ()>>,
}

impl Default for KnownConversations {
    fn default() -> KnownConversations {
        KnownConversations { open: Mutex::new(Recent::new(KNOWN_MAX)), many: Mutex::new(Recent::new(MANY_MAX)) }
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

    pub(crate) fn learn_many(&self, user: &UserId) {
        let mut many = self.many.lock().unwrap_or_else(PoisonError::into_inner);
        many.insert(user.clone(), ());
        many.age();
    }

    /// Whether a user has many conversations, as far as is known.
    pub(crate) fn has_many(&self, user: &UserId) -> bool {
        self.many.lock().unwrap_or_else(PoisonError::into_inner).contains(user)
    }

    /// False if that is not known.
    pub(crate) fn is_member(&self, conversation: ConversationId, user: &UserId) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_member = open.get(&conversation).is_some_and(|kind| kind.is_member(user));
        open.age();
        is_member
    }
}
