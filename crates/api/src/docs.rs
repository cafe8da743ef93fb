//! The API's own description: `/openapi.json`, and `/docs` for people.

use axum::{
    Json, Router,
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse as _},
    routing::get,
};
use dunlin_protocol::{Code, Problem};
use utoipa::{
    OpenApi as _,
    openapi::{
        Content, OpenApi, RefOr, Response,
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use crate::Api;

const PAGE: &str = include_str!("docs.html");

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Dunlin",
        description = "Conversations, inboxes, unread counts, history, receipts, reactions, blocks.\n\nErrors are problem+json with a stable `code`. Clients ignore fields that they don't know.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    tags(
        (name = "messages", description = "Sending and reading messages"),
        (name = "conversations", description = "The inbox and single conversations"),
        (name = "marks", description = "What was read and what has arrived"),
        (name = "feed", description = "What happened while a device was away"),
        (name = "blocks", description = "Who may not write to whom"),
        (name = "users", description = "Users and their tokens"),
        (name = "operation", description = "For operators"),
        (name = "development", description = "Only with `serve --dev`"),
    ),
    components(schemas(Problem))
)]
struct Base;

pub(crate) fn base() -> OpenApi {
    Base::openapi()
}

/// Adds what all operations share: how to authenticate, and that whatever else is answered is a problem.
pub(crate) fn complete(mut document: OpenApi) -> OpenApi {
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    let components = document.components.get_or_insert_default();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("A user's token (JWT), or a server key (dk_…)"));
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer.build()));
    document.security = Some(vec![SecurityRequirement::new("bearer", [""; 0])]);
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            for (status, response) in &mut operation.responses.responses {
                let RefOr::T(response) = response else { continue };
                say_problem(response);
                if response.description.is_empty() {
                    response.description = meaning(status);
                }
            }
            let problem = Content::new(Some(utoipa::openapi::Ref::from_schema_name("Problem")));
            let mut other = Response::new("Any other answer is a problem");
            other.content.insert("application/problem+json".to_owned(), RefOr::T(problem));
            operation.responses.responses.entry("default".to_owned()).or_insert(RefOr::T(other));
        }
    }
    document
}

/// Problems have a media type of their own.
fn say_problem(response: &mut Response) {
    let is_problem = |content: &RefOr<Content>| {
        let content = serde_json::to_value(content).unwrap_or_default();
        content.pointer("/schema/$ref").and_then(|name| name.as_str()).is_some_and(|name| name.ends_with("/Problem"))
    };
    if let Some(content) = response.content.get("application/json").filter(|content| is_problem(content)).cloned() {
        response.content.clear();
        response.content.insert("application/problem+json".to_owned(), content);
    }
}

/// What a status means where nothing better is said.
fn meaning(status: &str) -> String {
    let status: Option<StatusCode> = status.parse().ok();
    status.and_then(|status| status.canonical_reason()).unwrap_or("An answer").to_owned()
}

pub(crate) fn router(document: &OpenApi) -> Router<Api> {
    let document = serde_json::to_value(document).unwrap_or_default();
    let show = move || async move { Json(document) };
    let text = PAGE.replace("<!--codes-->", &codes());
    let page = move || async move {
        let mut page = Html(text).into_response();
        let policy = HeaderValue::from_static(
            "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:",
        );
        page.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        page
    };
    Router::new().route("/openapi.json", get(show)).route("/docs", get(page))
}

/// The table's rows: one for each code, which the `type` of a problem points to.
fn codes() -> String {
    let row = |code: &Code| {
        let (name, retry) = (code.as_str(), if code.is_retryable() { "yes" } else { "no" });
        format!("<tr id=\"{name}\"><td><code>{name}</code></td><td>{}</td><td>{}</td><td>{retry}</td></tr>\n", code.status(), code.title())
    };
    Code::ALL.iter().map(row).collect()
}
