//! Users, oneself, and users' tokens.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Json as Answer,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use dunlin_model::{Field, Metadata, Name, Scope, UserChange};
use dunlin_protocol::{Code, Problem, Time, Token, TokenBody, TokensRevoked, User, UserBody};

use crate::{
    Api,
    auth::{Caller, Identity},
    etag::tagged,
    extract::{self, Json, OptionalJson, Path},
    refusal::{Result, invalid, refuse},
    show,
};

const TTL_S_DEFAULT: u64 = 60 * 60;
const TTL_S_MAX: u64 = 30 * 24 * 60 * 60;

/// A user, as anyone may see them.
#[utoipa::path(get, path = "/v1/users/{user}", tag = "users", operation_id = "get_user",
    params(("user" = String, Path, example = "bob")),
    responses((status = 200, body = User), (status = 304, description = "Unchanged"), (status = 404, body = Problem)))]
pub(super) async fn get(State(api): State<Api>, _: Identity, Path(user): Path<String>, headers: HeaderMap) -> Result<Response> {
    let user = extract::user("user", &user).map_err(|_| refuse(Code::UserNotFound, "there is no such user"))?;
    tagged(&headers, &show::user(api.app.user(&user).await?))
}

/// Creates or changes a user. Needs a server key with the scope `users`.
#[utoipa::path(put, path = "/v1/users/{user}", tag = "users", operation_id = "put_user",
    params(("user" = String, Path, example = "bob", description = "1 to 64 characters of A-Z a-z 0-9 . _ : @ -")), request_body = Option<UserBody>,
    responses((status = 200, body = User), (status = 403, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn put(
    State(api): State<Api>,
    identity: Identity,
    Path(user): Path<String>,
    OptionalJson(body): OptionalJson<UserBody>,
) -> Result<Answer<User>> {
    identity.must_have(Scope::Users)?;
    let user = extract::user("user", &user)?;
    Ok(Answer(show::user(api.app.upsert_user(&user, change(body)?).await?)))
}

/// The caller.
#[utoipa::path(get, path = "/v1/me", tag = "users", operation_id = "get_me",
    responses((status = 200, body = User), (status = 304, description = "Unchanged")))]
pub(super) async fn me(State(api): State<Api>, Caller(caller): Caller, headers: HeaderMap) -> Result<Response> {
    tagged(&headers, &show::user(api.app.user(&caller).await?))
}

/// Changes the caller. What is not named stays as it is.
#[utoipa::path(patch, path = "/v1/me", tag = "users", operation_id = "change_me", request_body = UserBody,
    responses((status = 200, body = User), (status = 422, body = Problem)))]
pub(super) async fn change_me(State(api): State<Api>, Caller(caller): Caller, Json(body): Json<UserBody>) -> Result<Answer<User>> {
    Ok(Answer(show::user(api.app.upsert_user(&caller, change(body)?).await?)))
}

/// Signs a token for a user, who is created if there is none. Needs a server key with the scope `users`.
#[utoipa::path(post, path = "/v1/users/{user}/tokens", tag = "users", operation_id = "mint_token",
    params(("user" = String, Path, example = "bob")), request_body = Option<TokenBody>,
    responses((status = 201, body = Token), (status = 403, body = Problem),
        (status = 409, description = "This server has no secret to sign with", body = Problem), (status = 422, body = Problem)))]
pub(super) async fn mint_token(
    State(api): State<Api>,
    identity: Identity,
    Path(user): Path<String>,
    OptionalJson(body): OptionalJson<TokenBody>,
) -> Result<Response> {
    identity.must_have(Scope::Users)?;
    let user = extract::user("user", &user)?;
    let ttl_s = body.ttl_s.unwrap_or(TTL_S_DEFAULT);
    if !(1..=TTL_S_MAX).contains(&ttl_s) {
        return Err(invalid("/ttl_s", format!("must be 1 to {TTL_S_MAX}")));
    }
    let minted = api.verifier.mint(&user, Duration::from_secs(ttl_s), api.app.clock.now());
    let minted = minted.ok_or_else(|| refuse(Code::TokensNotMinted, "the host application signs its users' tokens itself"))?;
    api.app.upsert_user(&user, UserChange::default()).await?;
    let token = Token { token: minted.token, user: user.to_string(), expires_at: Time(minted.expires_at) };
    Ok((StatusCode::CREATED, Answer(token)).into_response())
}

/// Makes void whatever tokens of a user were issued until now. Needs a server key with the scope `users`.
#[utoipa::path(delete, path = "/v1/users/{user}/tokens", tag = "users", operation_id = "revoke_tokens",
    params(("user" = String, Path, example = "bob")),
    responses((status = 200, body = TokensRevoked), (status = 403, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn revoke_tokens(State(api): State<Api>, identity: Identity, Path(user): Path<String>) -> Result<Answer<TokensRevoked>> {
    identity.must_have(Scope::Users)?;
    let user = extract::user("user", &user)?;
    Ok(Answer(TokensRevoked { issued_before: Time(api.app.revoke_tokens(&user).await?) }))
}

fn change(body: UserBody) -> Result<UserChange> {
    let display_name = match body.display_name {
        None => Field::Keep,
        Some(None) => Field::Clear,
        Some(Some(name)) => Field::Set(Name::parse(&name).map_err(|why| invalid("/display_name", why))?),
    };
    let metadata = match body.metadata {
        None => Field::Keep,
        Some(None) => Field::Clear,
        Some(Some(entries)) => metadata(&entries)?.map_or(Field::Clear, Field::Set),
    };
    Ok(UserChange { display_name, metadata })
}

pub(super) fn metadata(entries: &BTreeMap<String, String>) -> Result<Option<Metadata>> {
    Metadata::parse(entries.iter().map(|(name, value)| (&**name, &**value))).map_err(|why| invalid("/metadata", why))
}
