//! Who calls: whether a user's token still counts, and whether a server key is the real one.
//!
//! Whether a token is genuine has been decided before (signature, time, audience). Answers of the directory are remembered for a short while: asking it
//! for every request would cost more than the request. What this process changes itself takes effect at once. A directory that is away stops nobody whom
//! this process has known within the hour; a revocation by another process is then heard of when it is back.

use std::{
    hash::Hash,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dunlin_model::{Millis, SecretHash, ServerKey, ServerKeyId, UserChange, UserId};
use dunlin_ports::StoreError;
use tracing::warn;

use crate::{App, AppError, recent::Recent};

/// How long an answer of the directory counts: so long may a revocation by another process take to be heard of, where announcements are not.
pub const IDENTITY_TTL_MS: u64 = 5_000;
/// The same while announcements are heard. Not for ever: someone may change a row by hand.
const HEARING_TTL_MS: u64 = 60_000;
/// For how long announcements count as being heard.
const HEARD_LATELY_MS: u64 = 3_000;
/// How long it stands in for a directory that is away.
const STAND_IN_MS: u64 = 60 * 60 * 1_000;
/// How long the directory may take where an answer can stand in.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a directory that was away is not asked again where an answer can stand in.
const AWAY_MS: u64 = 5_000;
const USERS_MAX: usize = 100_000;
const KEYS_MAX: usize = 10_000;

/// What was asked of the directory lately.
pub struct Identities {
    /// Users who exist, and from when on their tokens count.
    users: Mutex<Recent<UserId, Known<Option<Millis>>>>,
    keys: Mutex<Recent<ServerKeyId, Known<ServerKey>>>,
    /// How many revocations this process has made. An answer that was asked for before the last of them is not worth remembering.
    revocations: AtomicU64,
    /// When the directory last failed to answer; 0 for never.
    away_at_ms: AtomicU64,
    hearing: Mutex<Hearing>,
}

/// Since when every announcement was heard, and when last.
#[derive(Clone, Copy, Default)]
struct Hearing {
    since: Millis,
    at: Millis,
}

#[derive(Clone)]
struct Known<T> {
    asked_at: Millis,
    value: T,
}

impl Default for Identities {
    fn default() -> Identities {
        Identities {
            users: Mutex::new(Recent::new(USERS_MAX)),
            keys: Mutex::new(Recent::new(KEYS_MAX)),
            revocations: AtomicU64::new(0),
            away_at_ms: AtomicU64::new(0),
            hearing: Mutex::default(),
        }
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

    /// What the directory said before no longer counts, nor stands in.
    pub(crate) fn key_revoked(&self, id: &ServerKeyId) {
        let mut keys = lock(&self.keys);
        self.revocations.fetch_add(1, Ordering::Relaxed);
        if let Some(known) = keys.get(id) {
            known.asked_at = Millis::ZERO;
        }
    }

    /// All announcements up to this time, or only those from now on, were heard.
    pub(crate) fn heard(&self, at: Millis, goes_on: bool) {
        let mut hearing = lock(&self.hearing);
        let since = if goes_on { hearing.since } else { at };
        *hearing = Hearing { since, at };
    }

    /// How long what was asked at a time counts.
    fn ttl_ms(&self, asked_at: Millis, now: Millis) -> u64 {
        let hearing = *lock(&self.hearing);
        let is_heard = hearing.at > Millis::ZERO && asked_at >= hearing.since && now.minus(HEARD_LATELY_MS) <= hearing.at;
        if is_heard { HEARING_TTL_MS } else { IDENTITY_TTL_MS }
    }

    fn revocations(&self) -> u64 {
        let _users = lock(&self.users);
        self.revocations.load(Ordering::Relaxed)
    }

    fn went_away(&self, now: Millis) {
        self.away_at_ms.store(now.0, Ordering::Relaxed);
    }

    fn is_away(&self, now: Millis) -> bool {
        now.0.checked_sub(self.away_at_ms.load(Ordering::Relaxed)).is_some_and(|age_ms| age_ms < AWAY_MS)
    }

    /// Unless tokens were revoked since it was asked for.
    fn remember_user(&self, user: &UserId, valid_from: Option<Millis>, asked_at: Millis, revocations: u64) {
        let mut users = lock(&self.users);
        if self.revocations.load(Ordering::Relaxed) == revocations {
            remember(&mut users, user.clone(), valid_from, asked_at);
        }
    }

    /// Unless something was revoked since it was asked for.
    fn remember_key(&self, id: &ServerKeyId, key: &ServerKey, asked_at: Millis, revocations: u64) {
        let mut keys = lock(&self.keys);
        if self.revocations.load(Ordering::Relaxed) == revocations {
            remember(&mut keys, id.clone(), key.clone(), asked_at);
        }
    }
}

impl App {
    /// A user who comes with a genuine token exists from then on.
    pub async fn user_by_token(&self, user: &UserId, issued_at: Millis) -> Result<(), AppError> {
        let (now, revocations) = (self.clock.now(), self.identities.revocations());
        let is_revoked = |valid_from: Option<Millis>| valid_from.is_some_and(|from| issued_at < from);
        let asking = async {
            let valid_from = self.directory.tokens_valid_from(user).await?;
            if !is_revoked(valid_from) && !self.directory.exist(std::slice::from_ref(user)).await?[0] {
                self.directory.upsert_user(user, UserChange::default(), now).await?;
            }
            Ok(valid_from)
        };
        let answer = self.ask(&self.identities.users, user, now, asking).await?;
        if is_revoked(answer.value) {
            return Err(AppError::TokenRevoked);
        }
        if answer.is_new {
            self.identities.remember_user(user, answer.value, now, revocations);
        }
        Ok(())
    }

    /// A user in whose name someone else acts; who must exist.
    pub async fn user_acted_for(&self, user: &UserId) -> Result<(), AppError> {
        let (now, revocations) = (self.clock.now(), self.identities.revocations());
        let asking = async {
            self.must_exist(std::slice::from_ref(user)).await?;
            Ok(self.directory.tokens_valid_from(user).await?)
        };
        let answer = self.ask(&self.identities.users, user, now, asking).await?;
        if answer.is_new {
            self.identities.remember_user(user, answer.value, now, revocations);
        }
        Ok(())
    }

    /// The key, if the secret is its own and it was not revoked.
    pub async fn server_key(&self, id: &ServerKeyId, secret: &str) -> Result<ServerKey, AppError> {
        let (now, revocations) = (self.clock.now(), self.identities.revocations());
        let asking = async { self.directory.server_key(id).await?.ok_or(AppError::NoServerKey) };
        let answer = self.ask(&self.identities.keys, id, now, asking).await?;
        let key = answer.value;
        if answer.is_new {
            self.identities.remember_key(id, &key, now, revocations);
        }
        if key.secret_hash == SecretHash::of(secret) && key.revoked_at.is_none() { Ok(key) } else { Err(AppError::NoServerKey) }
    }

    /// What the directory said a moment ago, or says now. While it is away, what it said last stands in, so that those whom this process knows
    /// go on.
    async fn ask<K: Hash + Eq + Clone, V: Clone>(
        &self,
        memory: &Mutex<Recent<K, Known<V>>>,
        key: &K,
        now: Millis,
        asking: impl Future<Output = Result<V, AppError>>,
    ) -> Result<Answer<V>, AppError> {
        let old = |value| Ok(Answer { value, is_new: false });
        if let Some(value) = recall(memory, key, now, |asked_at| self.identities.ttl_ms(asked_at, now)) {
            return old(value);
        }
        let Some(last) = recall(memory, key, now, |_| STAND_IN_MS) else {
            return Ok(Answer { value: asking.await?, is_new: true });
        };
        if self.identities.is_away(now) {
            return old(last);
        }
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(Ok(value)) => Ok(Answer { value, is_new: true }),
            Err(_) | Ok(Err(AppError::Store(StoreError::Unavailable(_) | StoreError::Unknown(_)))) => {
                warn!("the directory is away; those whom this node knows go on");
                self.identities.went_away(now);
                old(last)
            }
            Ok(Err(error)) => Err(error),
        }
    }
}

struct Answer<V> {
    value: V,
    is_new: bool,
}

/// Nothing from the future: a clock that was set back must not make an answer count for longer.
fn recall<K: Hash + Eq + Clone, V: Clone>(
    memory: &Mutex<Recent<K, Known<V>>>,
    key: &K,
    now: Millis,
    ttl_ms: impl Fn(Millis) -> u64,
) -> Option<V> {
    let mut memory = lock(memory);
    let known = memory.get(key).filter(|known| now.0.checked_sub(known.asked_at.0).is_some_and(|age| age < ttl_ms(known.asked_at)))?;
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
