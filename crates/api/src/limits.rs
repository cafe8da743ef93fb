//! How often a caller may call: a token bucket for each user and each server key.

use std::{hash::Hash, num::NonZeroU32, sync::atomic::AtomicU64, sync::atomic::Ordering, time::Duration};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use dunlin_model::{ServerKeyId, UserId};
use dunlin_protocol::Code;
use governor::{
    DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    middleware::StateInformationMiddleware,
    state::keyed::DefaultKeyedStateStore,
};

use crate::refusal::{Refusal, refuse};

/// After so many requests, buckets that are full again are forgotten.
const TIDY_EVERY: u64 = 100_000;

/// Requests a second on average, and at once; no limit where the rate is 0.
#[derive(Clone, Copy, Debug)]
pub struct RateLimits {
    pub user_per_s: u32,
    pub user_burst: u32,
    pub key_per_s: u32,
    pub key_burst: u32,
}

pub(crate) struct Limiters {
    users: Option<Buckets<UserId>>,
    keys: Option<Buckets<ServerKeyId>>,
}

impl Limiters {
    pub(crate) fn new(limits: &RateLimits) -> Limiters {
        Limiters {
            users: Buckets::new("user", limits.user_per_s, limits.user_burst),
            keys: Buckets::new("key", limits.key_per_s, limits.key_burst),
        }
    }

    pub(crate) fn user(&self, user: &UserId) -> Result<Standing, Refused> {
        self.users.as_ref().map_or(Ok(Standing::default()), |buckets| buckets.take(user))
    }

    pub(crate) fn key(&self, key: &ServerKeyId) -> Result<Standing, Refused> {
        self.keys.as_ref().map_or(Ok(Standing::default()), |buckets| buckets.take(key))
    }
}

/// What the caller is told about their bucket.
#[derive(Default)]
pub(crate) struct Standing(Option<(HeaderValue, HeaderValue)>);

impl Standing {
    pub(crate) fn tell(self, headers: &mut HeaderMap) {
        if let Some((policy, standing)) = self.0 {
            headers.insert(HeaderName::from_static("ratelimit-policy"), policy);
            headers.insert(HeaderName::from_static("ratelimit"), standing);
        }
    }
}

pub(crate) struct Refused {
    pub(crate) standing: Standing,
    pub(crate) refusal: Refusal,
}

type Limiter<K> = RateLimiter<K, DefaultKeyedStateStore<K>, DefaultClock, StateInformationMiddleware>;

struct Buckets<K: Hash + Eq + Clone> {
    name: &'static str,
    limiter: Limiter<K>,
    policy: HeaderValue,
    per_s: u32,
    taken: AtomicU64,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn new(name: &'static str, per_s: u32, burst: u32) -> Option<Buckets<K>> {
        let burst = NonZeroU32::new(burst.max(per_s))?;
        let quota = Quota::per_second(NonZeroU32::new(per_s)?).allow_burst(burst);
        let limiter = DefaultKeyedRateLimiter::keyed(quota).with_middleware::<StateInformationMiddleware>();
        let policy = HeaderValue::try_from(format!("\"{name}\";q={burst};w={}", burst.get().div_ceil(per_s))).ok()?;
        Some(Buckets { name, limiter, policy, per_s, taken: AtomicU64::new(0) })
    }

    fn take(&self, key: &K) -> Result<Standing, Refused> {
        if self.taken.fetch_add(1, Ordering::Relaxed) % TIDY_EVERY == TIDY_EVERY - 1 {
            self.limiter.retain_recent();
        }
        match self.limiter.check_key(key) {
            Ok(state) => Ok(self.standing(state.remaining_burst_capacity(), Duration::from_secs(1) / self.per_s)),
            Err(until) => {
                let wait = until.wait_time_from(DefaultClock::default().now());
                let mut refusal = refuse(Code::RateLimited, format!("more than {} requests a second", self.per_s));
                refusal.retry_after_s = Some(wait.as_secs() + 1);
                Err(Refused { standing: self.standing(0, wait), refusal })
            }
        }
    }

    fn standing(&self, remaining: u32, wait: Duration) -> Standing {
        let standing = format!("\"{}\";r={remaining};t={}", self.name, wait.as_secs_f64().ceil() as u64);
        Standing(HeaderValue::try_from(standing).ok().map(|standing| (self.policy.clone(), standing)))
    }
}
