//! Everything that happened to the caller, for a device that was away.

use axum::{Json as Answer, extract::State};
use dunlin_protocol::Feed;
use serde::Deserialize;
use utoipa::IntoParams;

use super::sends::at_least;
use crate::{
    Api,
    auth::Caller,
    extract::{self, Query},
    refusal::Result,
    show,
};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FeedParameters {
    /// How many, 50 if not given.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// From `safe` or `next` of an earlier answer; everything that is kept if not given.
    cursor: Option<String>,
    /// Waits until what this token names can be seen.
    at_least: Option<String>,
}

/// What happened to the caller across conversations, oldest first.
#[utoipa::path(get, path = "/v1/feed", tag = "feed", operation_id = "get_feed", params(FeedParameters), responses((status = 200, body = Feed)))]
pub(super) async fn feed(State(api): State<Api>, Caller(caller): Caller, Query(parameters): Query<FeedParameters>) -> Result<Answer<Feed>> {
    let limit = extract::limit(parameters.limit)?;
    at_least(&api, parameters.at_least.as_deref()).await?;
    Ok(Answer(show::feed(api.app.feed(&caller, parameters.cursor.as_deref(), limit).await?)))
}
