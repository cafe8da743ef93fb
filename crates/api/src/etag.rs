//! Answers that need not be sent again.
//!
//! The tag is a hash of the answer: what a caller sees of a conversation also changes with blocks and delivered marks, which move no head, so nothing less would
//! always be right.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use data_encoding::BASE64URL_NOPAD;
use dunlin_protocol::Code;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::refusal::{Result, refuse};

/// The value as JSON, or 304 if the caller has it.
pub(crate) fn tagged<T: Serialize>(headers: &HeaderMap, value: &T) -> Result<Response> {
    let bytes = serde_json::to_vec(value).map_err(|_| refuse(Code::Internal, "the answer could not be written"))?;
    let tag = format!("\"{}\"", BASE64URL_NOPAD.encode(&Sha256::digest(&bytes)[..12]));
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known =
        known.flat_map(|value| value.split(',')).any(|one| matches!(one.trim().trim_start_matches("W/"), one if one == tag || one == "*"));
    let mut response = if is_known { StatusCode::NOT_MODIFIED.into_response() } else { Response::new(Body::from(bytes)) };
    let headers = response.headers_mut();
    if !is_known {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(header::ETAG, HeaderValue::try_from(tag).map_err(|_| refuse(Code::Internal, "the answer has no tag"))?);
    Ok(response)
}
