//! `Idempotency-Key`: a POST that is made again with the same key gets the first answer again.
//!
//! For a day, and as long as the answers are remembered: forgetting is harmless, because every POST may be repeated anyway.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use bytes::{Bytes, BytesMut};
use dunlin_app::AnswerKey;
use dunlin_protocol::Code;
use sha2::{Digest as _, Sha256};
use tower::ServiceExt as _;

use crate::{
    Api,
    auth::Identity,
    extract,
    refusal::{Result, invalid, refuse},
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const KEY_CHARS_MAX: usize = 255;
/// Longer answers are not remembered.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const FINGERPRINT_BYTES: usize = 16;

/// Requests that are being served now, by what names them.
#[derive(Default)]
pub(crate) struct InProgress(Mutex<HashSet<AnswerKey>>);

struct Serving<'a>(&'a InProgress, AnswerKey);

impl InProgress {
    fn begin(&self, key: AnswerKey) -> Option<Serving<'_>> {
        let is_first = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        // Not made in vain: whatever is dropped takes the key out.
        is_first.then(|| Serving(self, key))
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

pub(crate) async fn serve(api: &Api, identity: &Identity, request: Request, router: Router) -> Result<Response> {
    let Some(given) = request.headers().get(IDEMPOTENCY_KEY).filter(|_| request.method() == Method::POST) else {
        return Ok(router.oneshot(request).await.into_response());
    };
    let given = given.to_str().ok().filter(|key| !key.is_empty() && key.len() <= KEY_CHARS_MAX);
    let given = given.ok_or_else(|| invalid("Idempotency-Key", format!("must have 1 to {KEY_CHARS_MAX} ASCII characters")))?;
    let key = name(identity, &request, given);
    let (parts, body) = request.into_parts();
    let body = extract::read(body, api.options.body_bytes_max).await?;
    let fingerprint = hash(&[&body]);

    let in_use = || refuse(Code::IdempotencyKeyInUse, "the first request with this key is not answered yet");
    let _serving = api.in_progress.begin(key).ok_or_else(in_use)?;
    if let Some(answer) = api.app.answer_given(key).await {
        return again(&answer, fingerprint);
    }
    let response = router.oneshot(Request::from_parts(parts, Body::from(body))).await.into_response();
    if !response.status().is_success() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.map_err(|_| refuse(Code::Internal, "the answer could not be written"))?;
    if body.len() <= ANSWER_BYTES_MAX {
        let place = parts.headers.get(header::LOCATION).map_or(&b""[..], HeaderValue::as_bytes);
        let mut answer = BytesMut::with_capacity(4 + FINGERPRINT_BYTES + place.len() + body.len());
        answer.extend_from_slice(&parts.status.as_u16().to_be_bytes());
        answer.extend_from_slice(&fingerprint);
        answer.extend_from_slice(&u16::try_from(place.len()).unwrap_or_default().to_be_bytes());
        answer.extend_from_slice(place);
        answer.extend_from_slice(&body);
        api.app.remember_answer(key, answer.freeze()).await;
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

/// Keys of different callers, and of different requests of one caller, have nothing to do with each other.
fn name(identity: &Identity, request: &Request, given: &str) -> AnswerKey {
    let (kind, who, acting_for) = match identity {
        Identity::User { user, .. } => ("user", user.as_str(), ""),
        Identity::Server { key, acting_for, .. } => ("key", key.as_str(), acting_for.as_ref().map_or("", |user| user.as_str())),
    };
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    let parts = [kind, who, acting_for, target, given].map(str::as_bytes);
    AnswerKey(hash(&parts))
}

fn hash(parts: &[&[u8]]) -> [u8; FINGERPRINT_BYTES] {
    let mut sum = Sha256::new();
    for part in parts {
        sum.update((part.len() as u64).to_be_bytes());
        sum.update(part);
    }
    *sum.finalize().first_chunk().expect("SHA-256 has 32 bytes")
}

fn again(answer: &Bytes, fingerprint: [u8; FINGERPRINT_BYTES]) -> Result<Response> {
    let broken = || refuse(Code::Internal, "a remembered answer can't be read");
    let (status, rest) = answer.split_first_chunk::<2>().ok_or_else(broken)?;
    let (first, rest) = rest.split_first_chunk::<FINGERPRINT_BYTES>().ok_or_else(broken)?;
    let (place_len, rest) = rest.split_first_chunk::<2>().ok_or_else(broken)?;
    let (place, body) = rest.split_at_checked(u16::from_be_bytes(*place_len).into()).ok_or_else(broken)?;
    if *first != fingerprint {
        return Err(refuse(Code::IdempotencyKeyReused, "the first request with this key had another body"));
    }
    let mut response = Response::new(Body::from(Bytes::copy_from_slice(body)));
    *response.status_mut() = StatusCode::from_u16(u16::from_be_bytes(*status)).map_err(|_| broken())?;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(place) = HeaderValue::from_bytes(place).ok().filter(|place| !place.is_empty()) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_served_once_at_a_time() {
        let (in_progress, key) = (InProgress::default(), AnswerKey([7; 16]));
        let first = in_progress.begin(key);
        assert!(first.is_some());
        assert!(in_progress.begin(key).is_none() && in_progress.begin(key).is_none(), "refusing one does not end the first");
        drop(first);
        assert!(in_progress.begin(key).is_some());
    }
}
