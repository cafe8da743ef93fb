//! Users' tokens: JWTs that the host application has signed, with the shared secret or with a key of its JWKS.
//!
//! The algorithm belongs to the key, never to the token: a token that says another one, or none, is refused.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use dunlin_model::{Millis, UserId};
use dunlin_protocol::Code;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, decode_header, encode, errors::ErrorKind};
use serde::{Deserialize, Serialize};

use super::jwks::Jwks;
use crate::refusal::{Refusal, Result, refuse};

/// Clocks of other machines may differ by this.
const LEEWAY_S: u64 = 10;
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// For so long a token is not verified again while the keys stay what they are.
const VERIFIED_FOR: Duration = Duration::from_secs(5);
const VERIFIED_MAX: usize = 20_000;
/// Longer ones are verified every time: they would take too much memory.
const REMEMBERED_BYTES_MAX: usize = 1_024;

/// Tells genuine tokens from others, and signs some.
pub struct Verifier {
    secret: Option<(DecodingKey, EncodingKey)>,
    jwks: Option<Jwks>,
    audience: String,
    verified: Mutex<Verified>,
}

/// Tokens that were found genuine a moment ago. Half of them at least are the latest.
#[derive(Default)]
struct Verified {
    young: HashMap<Box<str>, Remembered>,
    old: HashMap<Box<str>, Remembered>,
}

struct Remembered {
    claims: Claims,
    until: Instant,
    /// Which keys it was verified with: a key that was taken out is good for nothing any more.
    keys: u64,
}

impl Verified {
    fn get(&self, token: &str, now: Instant, keys: u64) -> Option<Claims> {
        let remembered = self.young.get(token).or_else(|| self.old.get(token))?;
        (now < remembered.until && remembered.keys == keys).then(|| remembered.claims.clone())
    }

    fn insert(&mut self, token: &str, remembered: Remembered) {
        if self.young.len() >= VERIFIED_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(token.into(), remembered);
    }
}

/// What a genuine token says.
#[derive(Clone)]
pub(crate) struct Claims {
    pub(crate) user: UserId,
    pub(crate) issued_at: Millis,
    pub(crate) may_write: bool,
}

/// A token and when it expires.
pub struct Minted {
    pub token: String,
    pub expires_at: Millis,
}

#[derive(Serialize, Deserialize)]
struct Payload {
    sub: String,
    aud: Audience,
    /// Seconds; with a fraction, so that a revocation and a new token may fall into one second.
    iat: f64,
    exp: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Verifier {
    /// Without a secret, no token with HS256 is genuine, and none can be signed here.
    pub fn new(secret: Option<&[u8]>, jwks: Option<Jwks>, audience: String) -> Verifier {
        let secret = secret.map(|secret| (DecodingKey::from_secret(secret), EncodingKey::from_secret(secret)));
        Verifier { secret, jwks, audience, verified: Mutex::default() }
    }

    /// What is wrong with the keys, for the operator.
    pub fn trouble(&self) -> Option<String> {
        self.jwks.as_ref().and_then(Jwks::trouble)
    }

    pub(crate) async fn verify(&self, token: &str) -> Result<Claims> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(invalid());
        }
        let now = Instant::now();
        // Before any key is looked for: a token is remembered with keys that are too old rather than too new.
        let keys = self.jwks.as_ref().map_or(0, Jwks::version);
        if let Some(claims) = self.verified().get(token, now, keys) {
            return Ok(claims);
        }
        let header = decode_header(token).map_err(|_| invalid())?;
        if header.crit.is_some() {
            return Err(refuse(Code::InvalidToken, "the token's header has crit, and nothing critical is understood here"));
        }
        let payload = match (header.alg, &self.secret, &self.jwks) {
            (Algorithm::HS256, Some((key, _)), _) => self.decoded(token, key, Algorithm::HS256)?,
            (alg, _, Some(jwks)) => {
                let key = jwks.key(header.kid.as_deref()).await.filter(|key| key.alg == alg).ok_or_else(invalid)?;
                self.decoded(token, &key.key, key.alg)?
            }
            _ => return Err(invalid()),
        };
        let good_for = Duration::from_secs_f64((payload.exp - now_s()).clamp(0.0, VERIFIED_FOR.as_secs_f64()));
        let claims = self.claims(payload)?;
        if token.len() <= REMEMBERED_BYTES_MAX {
            self.verified().insert(token, Remembered { claims: claims.clone(), until: now + good_for, keys });
        }
        Ok(claims)
    }

    fn verified(&self) -> MutexGuard<'_, Verified> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decoded(&self, token: &str, key: &DecodingKey, alg: Algorithm) -> Result<Payload> {
        let mut validation = Validation::new(alg);
        validation.leeway = LEEWAY_S;
        validation.validate_nbf = true;
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["exp", "aud", "sub"]);
        let decoded = decode::<Payload>(token, key, &validation);
        decoded.map(|data| data.claims).map_err(|error| match error.kind() {
            ErrorKind::ExpiredSignature => refuse(Code::TokenExpired, "get a new token"),
            // From here on the signature was right: whoever made the token may know what it lacks.
            ErrorKind::InvalidAudience => refuse(Code::InvalidToken, format!("the token's aud must be {}", self.audience)),
            ErrorKind::ImmatureSignature => refuse(Code::InvalidToken, "the token's nbf lies in the future"),
            ErrorKind::MissingRequiredClaim(claim) => refuse(Code::InvalidToken, format!("the token lacks {claim}")),
            ErrorKind::Json(error) => {
                refuse(Code::InvalidToken, format!("the token's claims are not sub, aud, iat, exp and scope: {error}"))
            }
            _ => invalid(),
        })
    }

    fn claims(&self, payload: Payload) -> Result<Claims> {
        let user = UserId::parse(&payload.sub).map_err(|why| refuse(Code::InvalidToken, format!("the token's sub {why}")))?;
        // A token from the future would outlive every revocation.
        if !(0.0..=(now_s() + LEEWAY_S as f64)).contains(&payload.iat) {
            return Err(refuse(Code::InvalidToken, "the token's iat lies in the future, or before 1970"));
        }
        let may_write = match payload.scope.as_deref() {
            None => true,
            Some(scope) if scope.split(' ').any(|one| one == "write") => true,
            Some(scope) if scope.split(' ').any(|one| one == "read") => false,
            Some(_) => return Err(refuse(Code::ScopeMissing, "the token's scope must hold read or write, or be left out")),
        };
        Ok(Claims { user, issued_at: Millis((payload.iat * 1000.0).round() as u64), may_write })
    }

    /// A token for a user, issued at `now`; none without a secret.
    pub fn mint(&self, user: &UserId, ttl: Duration, now: Millis) -> Option<Minted> {
        let (_, key) = self.secret.as_ref()?;
        let iat = now.0 as f64 / 1000.0;
        let exp = iat + ttl.as_secs_f64();
        let aud = Audience::One(self.audience.clone());
        let payload = Payload { sub: user.to_string(), aud, iat, exp, scope: None };
        let token = encode(&Header::new(Algorithm::HS256), &payload, key).ok()?;
        Some(Minted { token, expires_at: Millis((exp * 1000.0) as u64) })
    }
}

/// Nothing more: a stranger learns nothing about the keys.
fn invalid() -> Refusal {
    refuse(Code::InvalidToken, "this token is not valid here")
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
