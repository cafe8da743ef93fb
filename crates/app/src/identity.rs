//! Who calls: whether a user's token still counts, and whether a server key is the real one.
//!
//! Whether a token is genuine has been decided before (signature, time, audience). Answers of the directory are remembered for a short while: asking it
//! for every request would cost more than the request. What this process changes itself takes effect at once.

use std::{
    hash::Hash,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use dunlin_model::{Millis, SecretHash, ServerKey, ServerKeyId, UserChange, UserId};

use crate::{App, AppError, recent::Recent};

/// How long an answer of the directory counts: so long may a revocation by another process take to be heard of.
pub const IDENTITY_TTL_MS: u64 = 5_000;
const USERS_MAX: usize = 100_000;
const KEYS_MAX: usize = 10_000;

/// What was asked of the directory lately.
pub struct Identities {
    /// Users who exist, and from when on their tokens count.
    users: Mutex<Recent<UserId, Known<Option<Millis>>>>,
    keys: Mutex<Recent<ServerKeyId, Known<ServerKey>>>,
    /// How many revocations this process has made. An answer that was asked for before the last of them is not worth remembering.
    revocations: AtomicU64,
}

#[derive(Clone)]
struct Known<T> {
    asked_at: Millis,
    value: T,
}

impl Default for Identities {
    fn default() -> Identities {
        Identities { users: Mutex::new(Recent::new(USERS_MAX)), keys: Mutex::new(Recent::new(KEYS_MAX)), revocations: AtomicU64::new(0) }
    }
}

impl Identities {
    /// Stands over what someone asked before it was so.
    pub(crate) fn tokens_revoked(&self, user: &UserId, issued_before: Millis) {
        let mut users = lock(&self.users);
        self.revocations.fetch_add(1, Ordering::Relaxed);
        if let Some(known) = users.get(user) {
            *known = Known { asked_at: issued_before, value: known.value.max(Some(issued_before)) };
        }
    }

    fn revocations(&self) -> u64 {
        let _users = lock(&self.users);
        self.revocations.load(Ordering::Relaxed)
    }

    /// Unless tokens were revoked since it was asked for.
    fn remember_user(&self, user: &UserId, valid_from: Option<Millis>, asked_at: Millis, revocations: u64) {
        let mut users = lock(&self.users);
        if self.revocations.load(Ordering::Relaxed) == revocations {
            remember(&mut users, user.clone(), valid_from, asked_at);
        }
    }
}

impl App {
    /// A user who comes with a genuine token exists from then on.
    pub async fn user_by_token(&self, user: &UserId, issued_at: Millis) -> Result<(), AppError> {
        let (now, revocations) = (self.clock.now(), self.identities.revocations());
        let valid_from = match recall(&self.identities.users, user, now) {
            Some(valid_from) => valid_from,
            None => self.directory.tokens_valid_from(user).await?,
        };
        if valid_from.is_some_and(|from| issued_at < from) {
            return Err(AppError::TokenRevoked);
        }
        if recall(&self.identities.users, user, now).is_none() {
            if !self.directory.exist(std::slice::from_ref(user)).await?[0] {
                self.directory.upsert_user(user, UserChange::default(), now).await?;
            }
            self.identities.remember_user(user, valid_from, now, revocations);
        }
        Ok(())
    }

    /// A user in whose name someone else acts; who must exist.
    pub async fn user_acted_for(&self, user: &UserId) -> Result<(), AppError> {
        let (now, revocations) = (self.clock.now(), self.identities.revocations());
        if recall(&self.identities.users, user, now).is_none() {
            self.must_exist(std::slice::from_ref(user)).await?;
            let valid_from = self.directory.tokens_valid_from(user).await?;
            self.identities.remember_user(user, valid_from, now, revocations);
        }
        Ok(())
    }

    /// The key, if the secret is its own and it was not revoked.
    pub async fn server_key(&self, id: &ServerKeyId, secret: &str) -> Result<ServerKey, AppError> {
        let now = self.clock.now();
        let key = match recall(&self.identities.keys, id, now) {
            Some(key) => key,
            None => {
                let key = self.directory.server_key(id).await?.ok_or(AppError::NoServerKey)?;
                remember(&mut lock(&self.identities.keys), id.clone(), key.clone(), now);
                key
            }
        };
        if key.secret_hash == SecretHash::of(secret) && key.revoked_at.is_none() { Ok(key) } else { Err(AppError::NoServerKey) }
    }
}

/// Nothing from the future: a clock that was set back must not make an answer count for longer.
fn recall<K: Hash + Eq + Clone, V: Clone>(memory: &Mutex<Recent<K, Known<V>>>, key: &K, now: Millis) -> Option<V> {
    let mut memory = lock(memory);
    let known = memory.get(key).filter(|known| now.0.checked_sub(known.asked_at.0).is_some_and(|age_ms| age_ms < IDENTITY_TTL_MS))?;
    Some(known.value.clone())
}

/// Not over what was learnt since it was asked.
fn remember<K: Hash + Eq + Clone, V>(memory: &mut Recent<K, Known<V>>, key: K, value: V, asked_at: Millis) {
    if memory.get(&key).is_none_or(|known| known.asked_at < asked_at) {
        memory.insert(key, Known { asked_at, value });
        memory.age();
    }
}

fn lock<T>(memory: &Mutex<T>) -> MutexGuard<'_, T> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}
