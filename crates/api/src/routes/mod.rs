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
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::{from_fn_with_state, map_response},
    response::{IntoResponse, Response},
    routing::get,
};
use dunlin_app::Changed;
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowOrigin, Any, CorsLayer},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{Api, docs, gate::gate, layers, metrics, show};

pub(crate) fn router(api: Api) -> Router {
    let (router, document) = documented(&api).split_for_parts();
    let document = docs::complete(document);
    let router = router
        .merge(docs::router(&document))
        .fallback(layers::not_found)
        .method_not_allowed_fallback(layers::method_not_allowed)
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(from_fn_with_state(api.clone(), layers::around))
        .layer(map_response(async |mut response: Response| {
            response.headers_mut().entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
            response
        }));
    let router = if api.options.cors_origins.is_empty() { router } else { router.layer(cors(&api.options.cors_origins)) };
    router.with_state(api)
}

/// Every route that the document lists.
pub(crate) fn documented(api: &Api) -> OpenApiRouter<Api> {
    let operation = OpenApiRouter::with_openapi(docs::base())
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::show));
    let operation = if api.options.dev { operation.routes(routes!(dev::token)) } else { operation };
    operation.merge(v1().layer(from_fn_with_state(api.clone(), gate)))
}

/// Behind the gate: whoever comes here is known.
pub(crate) fn v1() -> OpenApiRouter<Api> {
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
        // What is under /v1 and not there is told to known callers only.
        .route("/v1/{*rest}", get(layers::not_found).fallback(layers::not_found))
}

fn cors(origins: &[String]) -> CorsLayer {
    let allowed = match origins.iter().any(|origin| origin == "*") {
        true => AllowOrigin::from(Any),
        false => AllowOrigin::list(origins.iter().filter_map(|origin| origin.parse().ok())),
    };
    let exposed = ["etag", "idempotency-replayed", "location", "ratelimit", "ratelimit-policy", "retry-after", "x-request-id"];
    CorsLayer::new()
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
        .max_age(std::time::Duration::from_secs(3600))
}

/// 200 for what took effect, 202 for what is durable and will be judged.
fn change(changed: Changed) -> Response {
    let status = if changed.settled { StatusCode::OK } else { StatusCode::ACCEPTED };
    (status, Json(show::changed(changed))).into_response()
}
