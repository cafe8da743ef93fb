//! `/healthz`: the process answers. `/readyz`: everything works, or what does not.

use axum::{Json, extract::State, http::StatusCode, response::IntoResponse};
use serde::Serialize;
use utoipa::ToSchema;

use crate::Api;

#[derive(Serialize, ToSchema)]
pub(super) struct HealthAnswer {
    /// `alive`, `ready` or `degraded`.
    status: &'static str,
    reasons: Vec<String>,
}

/// Whether the process answers.
#[utoipa::path(get, path = "/healthz", tag = "operation", operation_id = "is_alive", security(()), responses((status = 200, body = HealthAnswer)))]
pub(super) async fn alive() -> impl IntoResponse {
    Json(HealthAnswer { status: "alive", reasons: Vec::new() })
}

/// Whether everything works, or what does not.
#[utoipa::path(get, path = "/readyz", tag = "operation", operation_id = "is_ready", security(()),
    responses((status = 200, body = HealthAnswer), (status = 503, description = "Something does not work", body = HealthAnswer)))]
pub(super) async fn ready(State(api): State<Api>) -> impl IntoResponse {
    let mut reasons = (api.health)();
    reasons.extend(api.verifier.trouble());
    let (code, status) = if reasons.is_empty() { (StatusCode::OK, "ready") } else { (StatusCode::SERVICE_UNAVAILABLE, "degraded") };
    (code, Json(HealthAnswer { status, reasons }))
}
