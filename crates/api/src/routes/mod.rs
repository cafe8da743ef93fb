//! The routes, one noun a file. Each handler parses, calls a use case, and answers.

mod blocks;
mod conversations;
mod dev;
mod feed;
mod health;
mod marks;
mod messages;
mod sends;
mod users;

use axum::{
    Json, Router,
    http::{HeaderName, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use dunlin_app::Changed;
use tower_http::cors::{AllowOrigin, Any, CorsLayer};
use utoipa::openapi::{
    OpenApi, RefOr,
    path::{Operation, Parameter, ParameterIn, PathItem},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{Api, docs, layers, metrics, show};

/// All routes, and the document that lists them.
pub(crate) fn router(is_dev: bool) -> (Router<Api>, OpenApi) {
    let (router, document) = documented(is_dev).split_for_parts();
    let document = docs::complete(document);
    let router = router.merge(docs::router(&document)).fallback(layers::not_found).method_not_allowed_fallback(layers::method_not_allowed);
    (router, document)
}

fn documented(is_dev: bool) -> OpenApiRouter<Api> {
    let operation = OpenApiRouter::with_openapi(docs::base())
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::show));
    let operation = if is_dev { operation.routes(routes!(dev::token)) } else { operation };
    operation.merge(v1())
}

/// What is known of a path before its handler is called.
pub(crate) struct Pattern {
    /// For metrics: paths may name people, and there are endless ones.
    pub(crate) path: &'static str,
    /// The methods of operations that take no parameters behind the question mark.
    without_query: Vec<Method>,
}

impl Pattern {
    pub(crate) fn takes_query(&self, method: &Method) -> bool {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        !self.without_query.contains(method)
    }
}

pub(crate) fn patterns(document: &OpenApi) -> matchit::Router<Pattern> {
    let mut patterns = matchit::Router::new();
    let others = ["/openapi.json", "/docs"].map(|path| (path, Vec::new()));
    let documented = document.paths.paths.iter().map(|(path, item)| (path.as_str(), without_query(item)));
    for (path, without_query) in documented.chain(others) {
        // As many as there are routes, for as long as the process lives.
        let pattern = Pattern { path: path.to_owned().leak(), without_query };
        patterns.insert(path, pattern).expect("the router has taken the same patterns");
    }
    patterns
}

fn without_query(item: &PathItem) -> Vec<Method> {
    let operations = [
        (Method::GET, &item.get),
        (Method::PUT, &item.put),
        (Method::POST, &item.post),
        (Method::PATCH, &item.patch),
        (Method::DELETE, &item.delete),
    ];
    let is_query = |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(one) if matches!(one.parameter_in, ParameterIn::Query));
    let takes_none = |operation: &Operation| !operation.parameters.iter().flatten().any(is_query);
    operations.into_iter().filter(|(_, operation)| operation.as_ref().is_some_and(takes_none)).map(|(method, _)| method).collect()
}

/// Behind the gate: whoever comes here is known.
fn v1() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(messages::send_to_user))
        .routes(routes!(messages::history, messages::send))
        .routes(routes!(messages::get, messages::edit, messages::delete))
        .routes(routes!(messages::react, messages::unreact))
        .routes(routes!(messages::receipts))
        .routes(routes!(sends::status))
        .routes(routes!(conversations::open_direct))
        .routes(routes!(conversations::inbox))
        .routes(routes!(conversations::get, conversations::delete))
        .routes(routes!(conversations::members))
        .routes(routes!(conversations::archive))
        .routes(routes!(conversations::activate))
        .routes(routes!(conversations::unread))
        .routes(routes!(marks::read))
        .routes(routes!(marks::delivered))
        .routes(routes!(feed::feed))
        .routes(routes!(blocks::list))
        .routes(routes!(blocks::block, blocks::unblock))
        .routes(routes!(users::me, users::change_me))
        .routes(routes!(users::get, users::put))
        .routes(routes!(users::mint_token, users::revoke_tokens))
}

pub(crate) fn cors(origins: &[String]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let allowed = match origins.iter().any(|origin| origin == "*") {
        true => AllowOrigin::from(Any),
        false => AllowOrigin::list(origins.iter().filter_map(|origin| origin.parse().ok())),
    };
    let exposed = ["etag", "idempotency-replayed", "location", "ratelimit", "ratelimit-policy", "retry-after", "x-request-id"];
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods(Any)
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::IF_NONE_MATCH,
            HeaderName::from_static("idempotency-key"),
            HeaderName::from_static("x-request-id"),
        ])
        .expose_headers(exposed.map(HeaderName::from_static))
        .max_age(std::time::Duration::from_secs(3600));
    Some(layer)
}

/// 200 for what took effect, 202 for what is durable and will be judged.
fn change(changed: Changed) -> Response {
    let status = if changed.settled { StatusCode::OK } else { StatusCode::ACCEPTED };
    (status, Json(show::changed(changed))).into_response()
}
