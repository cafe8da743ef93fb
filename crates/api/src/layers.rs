//! Around every request: its id, its metrics, and problems written out.

use std::time::Instant;

use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use data_encoding::HEXLOWER;
use dunlin_protocol::Code;
use tracing::{debug, error};

use crate::{
    Api,
    refusal::{Unwritten, refuse},
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_CHARS_MAX: usize = 64;

pub(crate) async fn around(State(api): State<Api>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = request_id(&api, &request);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    write_problem(&mut response, &id);
    response.headers_mut().insert(REQUEST_ID, id.clone());
    let (route, status) = (route.as_ref().map_or("none", MatchedPath::as_str), response.status());
    api.metrics.answered(&method, route, status, begun.elapsed());
    debug!(%method, route, status = status.as_u16(), request_id = ?id, "answered");
    response
}

/// The caller's own, if it is one that may stand in a log.
fn request_id(api: &Api, request: &Request) -> HeaderValue {
    let is_plain = |value: &&HeaderValue| {
        (1..=REQUEST_ID_CHARS_MAX).contains(&value.len())
            && value.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
    };
    match request.headers().get(REQUEST_ID).filter(is_plain) {
        Some(given) => given.clone(),
        None => HeaderValue::try_from(HEXLOWER.encode(&api.app.ids.bits128()[..8])).expect("hex can stand in a header"),
    }
}

fn write_problem(response: &mut Response, id: &HeaderValue) {
    let Some(Unwritten(mut problem)) = response.extensions_mut().remove::<Unwritten>() else { return };
    problem.request_id = id.to_str().unwrap_or_default().to_owned();
    if problem.status == Code::Internal.status() {
        error!(request_id = ?id, code = problem.code, detail = problem.detail, "a request failed");
    }
    *response.body_mut() = Body::from(serde_json::to_vec(&problem).unwrap_or_default());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
}

/// A bug. It ends its request only.
pub(crate) fn panicked(cause: Box<dyn std::any::Any + Send>) -> Response {
    let cause = cause.downcast_ref::<&str>().copied().or_else(|| cause.downcast_ref::<String>().map(String::as_str));
    error!(cause = cause.unwrap_or("unknown"), "a request panicked");
    refuse(Code::Internal, "the operator's log says more").into_response()
}

pub(crate) async fn not_found() -> Response {
    refuse(Code::NotFound, "there is nothing at this address; /docs lists what there is").into_response()
}

pub(crate) async fn method_not_allowed() -> Response {
    refuse(Code::MethodNotAllowed, "the header Allow lists the methods of this address").into_response()
}
