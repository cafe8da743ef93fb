//! `/healthz`: the process answers. `/readyz`: everything works, or what does not.

use std::sync::Arc;

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use serde::Serialize;

/// What stands in the way of full service, in sentences for the operator; empty if nothing does.
pub type Health = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

pub fn router(health: Health) -> Router {
    Router::new().route("/healthz", get(alive)).route("/readyz", get(ready)).with_state(health)
}

#[derive(Serialize)]
struct Answer {
    status: &'static str,
    reasons: Vec<String>,
}

async fn alive() -> impl IntoResponse {
    Json(Answer { status: "alive", reasons: Vec::new() })
}

async fn ready(State(health): State<Health>) -> impl IntoResponse {
    let reasons = health();
    let (code, status) = if reasons.is_empty() { (StatusCode::OK, "ready") } else { (StatusCode::SERVICE_UNAVAILABLE, "degraded") };
    (code, Json(Answer { status, reasons }))
}
