//! Read and delivered marks. Both only ever rise: an offline device's older mark changes nothing.

use axum::{
    Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use dunlin_protocol::{Change, Conversation, MarkBody, Outcome, Problem};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::conversations::view;
use crate::{
    Api,
    auth::Caller,
    extract::{self, Json, LIMIT_DEFAULT, Path, Query},
    refusal::Result,
    show,
};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadMarkParameters {
    /// `conversation`: answers with the conversation and a page of its messages.
    #[param(inline)]
    include: Option<Include>,
}

#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Include {
    Conversation,
}

/// The change, or with `include=conversation` the conversation after it.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum ReadAnswer {
    Change(Change),
    Conversation(Box<Conversation>),
}

/// Says that the caller has read everything up to a message.
#[utoipa::path(post, path = "/v1/conversations/{conversation}/read", tag = "marks", operation_id = "mark_read",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa"), ReadMarkParameters), request_body = MarkBody,
    responses((status = 200, description = "The change; with `include=conversation` the conversation", body = ReadAnswer),
        (status = 202, description = "Durable; what becomes of it is told later", body = Change),
        (status = 404, body = Problem), (status = 422, description = "Beyond the last message", body = Problem)))]
pub(super) async fn read(
    State(api): State<Api>,
    Caller(caller): Caller,
    Path(conversation): Path<String>,
    Query(parameters): Query<ReadMarkParameters>,
    Json(body): Json<MarkBody>,
) -> Result<Response> {
    let conversation = extract::conversation(&conversation)?;
    let marked = api.app.mark_read(&caller, conversation, extract::seq("/up_to", body.up_to)?).await?;
    match parameters.include {
        Some(Include::Conversation) if marked.settled => {
            let view = view(&api, &caller, conversation, Some(LIMIT_DEFAULT)).await?;
            Ok(Answer(ReadAnswer::Conversation(Box::new(view))).into_response())
        }
        _ => {
            let status = if marked.settled { StatusCode::OK } else { StatusCode::ACCEPTED };
            Ok((status, Answer(ReadAnswer::Change(show::changed(marked)))).into_response())
        }
    }
}

/// Says that a device of the caller has everything up to a message.
#[utoipa::path(post, path = "/v1/conversations/{conversation}/delivered", tag = "marks", operation_id = "mark_delivered",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa")), request_body = MarkBody,
    responses((status = 200, body = Change), (status = 404, body = Problem), (status = 422, description = "Beyond the last message", body = Problem)))]
pub(super) async fn delivered(
    State(api): State<Api>,
    Caller(caller): Caller,
    Path(conversation): Path<String>,
    Json(body): Json<MarkBody>,
) -> Result<Response> {
    let conversation = extract::conversation(&conversation)?;
    let up_to = extract::seq("/up_to", body.up_to)?;
    api.app.mark_delivered(&caller, conversation, up_to).await?;
    // No event of its own: whoever can see the message can see the mark.
    let token = dunlin_app::SendToken { conversation, seq: up_to }.to_string();
    Ok((StatusCode::OK, Answer(Change { outcome: Outcome::Done, conversation: conversation.to_string(), token })).into_response())
}
