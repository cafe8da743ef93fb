//! Everything that happened to the caller, for a device that was away.

use axum::{Json as Answer, extract::State};
use dunlin_protocol::{Code, Feed};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::sends::at_least;
use crate::{
    Api,
    auth::Caller,
    extract::{self, Query},
    refusal::{Result, refuse},
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
    /// `now`: nothing yet, only where to resume from. For a device that has just read the inbox.
    #[param(inline)]
    from: Option<From>,
    /// Waits until what this token names can be seen.
    at_least: Option<String>,
}

#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum From {
    Now,
}

/// What happened to the caller across conversations, oldest first.
#[utoipa::path(get, path = "/v1/feed", tag = "feed", operation_id = "get_feed", params(FeedParameters), responses((status = 200, body = Feed)))]
pub(super) async fn feed(State(api): State<Api>, Caller(caller): Caller, Query(parameters): Query<FeedParameters>) -> Result<Answer<Feed>> {
    let limit = extract::limit(parameters.limit)?;
    at_least(&api, parameters.at_least.as_deref()).await?;
    if let Some(From::Now) = parameters.from {
        if parameters.cursor.is_some() {
            return Err(refuse(Code::MalformedRequest, "give cursor or from, not both"));
        }
        return Ok(Answer(show::feed(api.app.feed_from_now().await?)));
    }
    Ok(Answer(show::feed(api.app.feed(&caller, parameters.cursor.as_deref(), limit).await?)))
}
