//! Around every request: its id, its metrics, a net under panics, the gate before `/v1`, and problems written out.
//!
//! Plain functions rather than middleware of the router: each of those would box its future and clone its service for every request.

use std::{convert::Infallible, panic::AssertUnwindSafe, time::Instant};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderName, HeaderValue, Method, header},
    response::{IntoResponse, Response},
};
use data_encoding::HEXLOWER;
use dunlin_protocol::Code;
use futures::FutureExt as _;
use tower::ServiceExt as _;
use tracing::{debug, error};

use crate::{
    Api, gate,
    refusal::{Unwritten, refuse},
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_CHARS_MAX: usize = 64;
/// Whoever comes here must be known.
const GATED: &str = "/v1/";

/// One request, from its head to its answer.
pub(crate) async fn answer(api: Api, router: Router, request: Request) -> Result<Response, Infallible> {
    let begun = Instant::now();
    let id = request_id(&api, &request);
    let method = request.method().clone();
    let route = api.routes.at(request.uri().path()).map_or("none", |found| found.value.path);
    let served = AssertUnwindSafe(serve(&api, router, request)).catch_unwind().await;
    let mut response = served.unwrap_or_else(panicked);
    write_problem(&mut response, &id);
    let headers = response.headers_mut();
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    headers.insert(REQUEST_ID, id.clone());
    let status = response.status();
    api.metrics.answered(&method, route, status, begun.elapsed());
    debug!(%method, route, status = status.as_u16(), request_id = ?id, "answered");
    Ok(response)
}

async fn serve(api: &Api, router: Router, request: Request) -> Response {
    // A browser asks what it may before it says who it is.
    let is_gated = request.uri().path().starts_with(GATED) && request.method() != Method::OPTIONS;
    match is_gated {
        true => gate::pass(api, router, request).await.unwrap_or_else(IntoResponse::into_response),
        false => router.oneshot(request).await.into_response(),
    }
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
    // The router has written that of the empty body.
    response.headers_mut().remove(header::CONTENT_LENGTH);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
}

/// A bug. It ends its request only.
fn panicked(cause: Box<dyn std::any::Any + Send>) -> Response {
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
