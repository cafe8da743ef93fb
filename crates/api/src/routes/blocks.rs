//! Whom the caller blocks.

use axum::{Json as Answer, extract::State, response::Response};
use dunlin_protocol::{Block, Change, Code, Page, Problem, Time};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{change, sends::at_least};
use crate::{
    Api,
    auth::Caller,
    extract::{self, Path, Query},
    refusal::{Result, refuse},
};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct BlockParameters {
    /// How many, 50 if not given.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// From the `next` of a page.
    cursor: Option<String>,
    /// Waits until what this token names can be seen.
    at_least: Option<String>,
}

/// Whom the caller blocks, ordered by user.
#[utoipa::path(get, path = "/v1/blocks", tag = "blocks", operation_id = "get_blocks", params(BlockParameters), responses((status = 200, body = Page<Block>)))]
pub(super) async fn list(
    State(api): State<Api>,
    Caller(caller): Caller,
    Query(parameters): Query<BlockParameters>,
) -> Result<Answer<Page<Block>>> {
    let limit = extract::limit(parameters.limit)?;
    at_least(&api, parameters.at_least.as_deref()).await?;
    let page = api.app.blocks(&caller, parameters.cursor.as_deref(), limit).await?;
    let data = page.blocks.into_iter().map(|(user, since)| Block { user: user.to_string(), since: Time(since) }).collect();
    Ok(Answer(Page { data, next: page.next, prev: None }))
}

/// Blocks a user: no message passes between the two, in either direction.
#[utoipa::path(put, path = "/v1/blocks/{user}", tag = "blocks", operation_id = "block", params(("user" = String, Path, example = "bob")),
    responses((status = 200, body = Change), (status = 202, description = "Durable; what becomes of it is told later", body = Change),
        (status = 404, description = "No such user", body = Problem), (status = 422, description = "Oneself", body = Problem)))]
pub(super) async fn block(State(api): State<Api>, caller: Caller, path: Path<String>) -> Result<Response> {
    set(&api, caller, path, true).await
}

/// Unblocks a user. What was refused stays refused.
#[utoipa::path(delete, path = "/v1/blocks/{user}", tag = "blocks", operation_id = "unblock", params(("user" = String, Path, example = "bob")),
    responses((status = 200, body = Change), (status = 202, description = "Durable; what becomes of it is told later", body = Change),
        (status = 404, description = "No such user", body = Problem), (status = 422, description = "Oneself", body = Problem)))]
pub(super) async fn unblock(State(api): State<Api>, caller: Caller, path: Path<String>) -> Result<Response> {
    set(&api, caller, path, false).await
}

async fn set(api: &Api, Caller(caller): Caller, Path(user): Path<String>, on: bool) -> Result<Response> {
    let user = extract::user("user", &user).map_err(|_| refuse(Code::UserNotFound, "there is no such user"))?;
    Ok(change(api.app.block(&caller, &user, on).await?))
}
