//! `/healthz`: the process answers. `/readyz`: messages can be sent, and what does not work.

use axum::{Json, extract::State, http::StatusCode, response::IntoResponse};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{Api, Condition};

#[derive(Serialize, ToSchema)]
pub(super) struct HealthAnswer {
    /// `alive`; `ready`, `degraded` or `unavailable`.
    status: &'static str,
    reasons: Vec<String>,
}

/// Whether the process answers.
#[utoipa::path(get, path = "/healthz", tag = "operation", operation_id = "is_alive", security(()), responses((status = 200, body = HealthAnswer)))]
pub(super) async fn alive() -> impl IntoResponse {
    Json(HealthAnswer { status: "alive", reasons: Vec::new() })
}

/// Whether everything works, or what does not. An engine that all nodes share is no reason to take them all away: as long as messages can be sent here, the status is 200.
#[utoipa::path(get, path = "/readyz", tag = "operation", operation_id = "is_ready", security(()),
    responses((status = 200, body = HealthAnswer), (status = 503, description = "Messages can't be sent here", body = HealthAnswer)))]
pub(super) async fn ready(State(api): State<Api>) -> impl IntoResponse {
    let Condition { is_serving, troubles: mut reasons } = (api.health)();
    reasons.extend(api.verifier.trouble());
    // Two parts of a node may tell the same.
    reasons.dedup();
    let (code, status) = match (is_serving, reasons.is_empty()) {
        (true, true) => (StatusCode::OK, "ready"),
        (true, false) => (StatusCode::OK, "degraded"),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    };
    (code, Json(HealthAnswer { status, reasons }))
}
