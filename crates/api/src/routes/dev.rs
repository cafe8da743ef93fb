//! Tokens without a login, for developers on their own machine. Only there with `serve --dev`, which listens on loopback only.

use std::time::Duration;

use axum::{
    Json as Answer,
    extract::State,
    http::{HeaderMap, header},
};
use dunlin_model::UserChange;
use dunlin_protocol::{Code, Problem, Time, Token};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    Api,
    extract::{self, Json},
    refusal::{Result, refuse},
};

const TTL: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DevTokenBody {
    /// Whoever is not there yet is created.
    #[schema(example = "alice", min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._:@-]+$")]
    user: String,
}

/// A token for any user, without a login. Only with `serve --dev`.
#[utoipa::path(post, path = "/dev/token", tag = "development", operation_id = "dev_token", security(()), request_body = DevTokenBody,
    responses((status = 200, body = Token), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn token(State(api): State<Api>, headers: HeaderMap, Json(body): Json<DevTokenBody>) -> Result<Answer<Token>> {
    // A page that has its own name point to this machine must not get one.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host });
    if !matches!(name, "localhost" | "127.0.0.1" | "[::1]") {
        return Err(refuse(Code::ScopeMissing, "call this by the name of localhost or by a loopback address"));
    }
    let user = extract::user("/user", &body.user)?;
    let minted = api.verifier.mint(&user, TTL, api.app.clock.now());
    let minted = minted.ok_or_else(|| refuse(Code::TokensNotMinted, "the host application signs its users' tokens itself"))?;
    api.app.upsert_user(&user, UserChange::default()).await?;
    Ok(Answer(Token { token: minted.token, user: user.to_string(), expires_at: Time(minted.expires_at) }))
}
