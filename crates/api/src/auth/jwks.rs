//! The host application's public keys: a JWKS from a file or a URL, read again now and then and whenever a token names a key that is not known.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Uri;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm},
};
use tokio::task::JoinHandle;
use tracing::{info, warn};

const DOCUMENT_BYTES_MAX: usize = 1 << 20;
const FETCH_MAX: Duration = Duration::from_secs(10);
/// Unknown keys make it look again, but not more often than this: anyone can make up a key id.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub enum JwksSource {
    File(PathBuf),
    Url(Uri),
}

#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    #[error("failed to read {}: {error}", path.display())]
    File { path: PathBuf, error: std::io::Error },
    #[error("failed to fetch {url}: {why}")]
    Url { url: Uri, why: String },
    #[error("{from} is no JWKS: {why}")]
    Document { from: String, why: String },
}

/// The keys, kept current while this lives.
pub struct Jwks {
    shared: Arc<Shared>,
    refresher: JoinHandle<()>,
}

struct Shared {
    source: JwksSource,
    keys: RwLock<Arc<Vec<Key>>>,
    /// Rises after the keys were read again.
    version: AtomicU64,
    looked_at: Mutex<Instant>,
    trouble: Mutex<Option<String>>,
    /// One at a time.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
pub(super) struct Key {
    kid: Option<String>,
    pub(super) alg: Algorithm,
    pub(super) key: DecodingKey,
}

impl Jwks {
    /// A file has to be right; a URL may come later.
    pub async fn start(source: JwksSource, refresh: Duration) -> Result<Jwks, JwksError> {
        let keys = match (load(&source).await, &source) {
            (Ok(keys), _) => (keys, None),
            (Err(error), JwksSource::File(_)) => return Err(error),
            (Err(error), JwksSource::Url(_)) => {
                warn!(%error, "no keys yet; tokens signed with them are refused until they can be fetched");
                (Vec::new(), Some(error.to_string()))
            }
        };
        let shared = Arc::new(Shared {
            source,
            keys: RwLock::new(Arc::new(keys.0)),
            version: AtomicU64::new(0),
            looked_at: Mutex::new(Instant::now()),
            trouble: Mutex::new(keys.1),
            looking: tokio::sync::Mutex::default(),
        });
        let for_refresher = Arc::clone(&shared);
        let refresher = tokio::spawn(async move {
            loop {
                let wait = if lock(&for_refresher.trouble).is_some() { refresh.min(LOOK_AGAIN_AFTER) } else { refresh };
                tokio::time::sleep(wait).await;
                for_refresher.look().await;
            }
        });
        Ok(Jwks { shared, refresher })
    }

    pub(super) async fn key(&self, kid: Option<&str>) -> Option<Key> {
        if let Some(key) = self.shared.find(kid) {
            return Some(key);
        }
        let _one = self.shared.looking.lock().await;
        if lock(&self.shared.looked_at).elapsed() >= LOOK_AGAIN_AFTER {
            self.shared.look().await;
        }
        self.shared.find(kid)
    }

    /// Keys that are found after this are as new as it says, or newer.
    pub(super) fn version(&self) -> u64 {
        self.shared.version.load(Ordering::Acquire)
    }

    pub(super) fn trouble(&self) -> Option<String> {
        lock(&self.shared.trouble).clone()
    }
}

impl Drop for Jwks {
    fn drop(&mut self) {
        self.refresher.abort();
    }
}

impl Shared {
    /// A token without a key id is of the only key, if there is but one.
    fn find(&self, kid: Option<&str>) -> Option<Key> {
        let keys = Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner));
        match kid {
            Some(_) => keys.iter().find(|key| key.kid.as_deref() == kid).cloned(),
            None if keys.len() == 1 => keys.first().cloned(),
            None => None,
        }
    }

    /// On a failure the keys that are known stay good.
    async fn look(&self) {
        let loaded = load(&self.source).await;
        *lock(&self.looked_at) = Instant::now();
        let trouble = match loaded {
            Ok(keys) => {
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
                self.version.fetch_add(1, Ordering::Release);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        let mut before = lock(&self.trouble);
        match (&*before, &trouble) {
            (None, Some(trouble)) => warn!(%trouble, "the keys could not be read again; those that are known stay good"),
            (Some(_), None) => info!("the keys were read"),
            _ => {}
        }
        *before = trouble;
    }
}

async fn load(source: &JwksSource) -> Result<Vec<Key>, JwksError> {
    let (from, bytes) = match source {
        JwksSource::File(path) => {
            let bytes = tokio::fs::read(path).await.map_err(|error| JwksError::File { path: path.clone(), error })?;
            (path.display().to_string(), bytes.into())
        }
        JwksSource::Url(url) => (url.to_string(), fetch(url).await.map_err(|why| JwksError::Url { url: url.clone(), why })?),
    };
    keys(&bytes).map_err(|why| JwksError::Document { from, why })
}

async fn fetch(url: &Uri) -> Result<Bytes, String> {
    let connector = hyper_rustls::HttpsConnectorBuilder::new().with_native_roots().map_err(|error| error.to_string())?;
    let connector = connector.https_or_http().enable_http1().build();
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let exchange = async {
        let answer = client.get(url.clone()).await.map_err(|error| chain(&error))?;
        if !answer.status().is_success() {
            return Err(format!("status {}", answer.status()));
        }
        let body = Limited::new(answer.into_body(), DOCUMENT_BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
        Ok(body.to_bytes())
    };
    tokio::time::timeout(FETCH_MAX, exchange).await.map_err(|_| format!("no answer within {} s", FETCH_MAX.as_secs()))?
}

/// An error with what caused it: the client's own sentence alone says only that it failed.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
    causes.collect::<Vec<_>>().join(": ")
}

/// Keys that can't verify a signature here are left out; a document with none at all is refused.
fn keys(bytes: &[u8]) -> Result<Vec<Key>, String> {
    let set: JwkSet = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let keys: Vec<Key> = set.keys.iter().filter_map(key).collect();
    if keys.is_empty() { Err("it has no key for RS256, ES256 or EdDSA".to_owned()) } else { Ok(keys) }
}

fn key(jwk: &Jwk) -> Option<Key> {
    let alg = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(parameters) if parameters.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(parameters) if parameters.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        // A shared secret has no place in a public document.
        _ => return None,
    };
    let said = match jwk.common.key_algorithm {
        None => true,
        Some(KeyAlgorithm::RS256) => alg == Algorithm::RS256,
        Some(KeyAlgorithm::ES256) => alg == Algorithm::ES256,
        Some(KeyAlgorithm::EdDSA) => alg == Algorithm::EdDSA,
        Some(_) => false,
    };
    let key = DecodingKey::from_jwk(jwk).ok()?;
    said.then(|| Key { kid: jwk.common.key_id.clone(), alg, key })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
