//! What requests bring, or a problem that says what is wrong with it.

use std::time::Duration;

use axum::{
    body::Body as HttpBody,
    extract::{FromRequest, FromRequestParts, Path as AxumPath, Request},
    http::{HeaderMap, header, request::Parts},
};
use bytes::Bytes;
use dunlin_model::{ConversationId, Seq, UserId};
use dunlin_protocol::Code;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::{
    Api,
    refusal::{Refusal, Result, invalid, refuse},
};

/// How long a body may take to arrive.
const BODY_ARRIVES_MAX: Duration = Duration::from_secs(20);

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Api> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, api: &Api) -> Result<Json<T>> {
        check_kind(request.headers())?;
        let bytes = read(request.into_body(), api.options.body_bytes_max).await?;
        parse(&bytes).map(Json)
    }
}

/// A JSON body that may be left out.
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<Api> for OptionalJson<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, api: &Api) -> Result<OptionalJson<T>> {
        let kind = check_kind(request.headers());
        let bytes = read(request.into_body(), api.options.body_bytes_max).await?;
        if bytes.is_empty() {
            return Ok(OptionalJson(T::default()));
        }
        kind.and_then(|()| parse(&bytes)).map(OptionalJson)
    }
}

fn check_kind(headers: &HeaderMap) -> Result<()> {
    let says = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?").trim());
    let kind = says(header::CONTENT_TYPE).and_then(|value| value.split(';').next()).unwrap_or_default();
    if !kind.trim_end().eq_ignore_ascii_case("application/json") {
        return Err(refuse(Code::UnsupportedMediaType, "the header Content-Type must be application/json"));
    }
    match says(header::CONTENT_ENCODING) {
        None => Ok(()),
        Some(encoding) if encoding.eq_ignore_ascii_case("identity") => Ok(()),
        Some(_) => Err(refuse(Code::UnsupportedMediaType, "bodies are taken as they are: leave the header Content-Encoding out")),
    }
}

/// All of a body, if it is not too large and not too slow.
pub(crate) async fn read(body: HttpBody, bytes_max: usize) -> Result<Bytes> {
    let arrives = tokio::time::timeout(BODY_ARRIVES_MAX, Limited::new(body, bytes_max).collect());
    match arrives.await {
        Err(_) => Err(refuse(Code::RequestTimeout, format!("the body did not arrive within {} s", BODY_ARRIVES_MAX.as_secs()))),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(refuse(Code::BodyTooLarge, format!("the body must have at most {bytes_max} bytes")))
        }
        Ok(Err(_)) => Err(refuse(Code::MalformedRequest, "the body could not be read")),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    // A list of the fields' values would otherwise pass for an object.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(refuse(Code::InvalidField, "the body must be an object, not a list").at("", "must be an object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut reader);
    let error = match parsed {
        Ok(value) => match reader.end() {
            Ok(()) => return Ok(value),
            Err(error) => return Err(refuse(Code::MalformedJson, error.to_string())),
        },
        Err(error) => error,
    };
    if !error.inner().is_data() {
        return Err(refuse(Code::MalformedJson, error.inner().to_string()));
    }
    let pointer = pointer(error.path());
    let why = error.into_inner().to_string();
    Err(refuse(Code::InvalidField, why.clone()).at(&pointer, why))
}

/// RFC 6901.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Map { key } => pointer.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

/// The parameters behind the question mark.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>> {
        let pairs = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let query = serde_path_to_error::deserialize(serde_urlencoded::Deserializer::new(pairs)).map_err(|error| {
            let (parameter, why) = (pointer(error.path()).trim_start_matches('/').to_owned(), error.into_inner().to_string());
            match &*parameter {
                "" => refuse(Code::MalformedRequest, why),
                _ => refuse(Code::MalformedRequest, format!("{parameter}: {why}")).at(&parameter, why),
            }
        })?;
        Ok(Query(query))
    }
}

/// The parts of the path that stand for something.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>> {
        let path = AxumPath::<T>::from_request_parts(parts, state).await;
        path.map(|AxumPath(path)| Path(path)).map_err(|rejection| refuse(Code::MalformedRequest, rejection.body_text()))
    }
}

/// What is no conversation id names no conversation.
pub(crate) fn conversation(text: &str) -> Result<ConversationId> {
    text.parse().map_err(|_| refuse(Code::ConversationNotFound, "there is no such conversation"))
}

/// What is no seq names no message.
pub(crate) fn message(text: &str) -> Result<Seq> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text);
    digits
        .and_then(|text| text.parse().ok())
        .and_then(Seq::from_u64)
        .ok_or_else(|| refuse(Code::MessageNotFound, "there is no such message"))
}

/// A seq that a body or a query brings.
pub(crate) fn seq(pointer: &str, value: u64) -> Result<Seq> {
    Seq::from_u64(value).ok_or_else(|| invalid(pointer, "must be below 2^53"))
}

pub(crate) fn user(pointer: &str, text: &str) -> Result<UserId> {
    UserId::parse(text).map_err(|why| invalid(pointer, why))
}

pub(crate) const LIMIT_DEFAULT: usize = 50;

pub(crate) fn limit(wanted: Option<usize>) -> Result<usize> {
    wanted.map_or(Ok(LIMIT_DEFAULT), |wanted| page_len("limit", wanted))
}

pub(crate) fn page_len(parameter: &str, wanted: usize) -> Result<usize> {
    match wanted {
        1..=dunlin_app::PAGE_MAX => Ok(wanted),
        _ => Err(invalid(parameter, format!("must be 1 to {}", dunlin_app::PAGE_MAX))),
    }
}
