//! Messages: sending, reading, editing, deleting, reacting.

use axum::{
    Json as Answer,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use data_encoding::BASE64;
use dunlin_app::{Destination, HistoryQuery, SendMessage};
use dunlin_model::{ClientId, Content, ConversationId, Emoji, MessageType, N, Outcome, UserId};
use dunlin_protocol::{Change, Code, EditBody, Message, Opaque, Page, Problem, Receipts, SendBody, SendToBody, Sent, Time};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{change, sends::at_least, users::metadata};
use crate::{
    Api,
    auth::{Caller, Identity},
    extract::{self, Json, Path, Query},
    refusal::{Result, invalid, refuse, rejected},
    show,
};

/// Sends a message to a user, opening the conversation if there is none.
///
/// Answered once the message is durable: 201 if it is also visible, 200 if it is the same message as an earlier one, 202 if it is not known yet what became of it.
#[utoipa::path(post, path = "/v1/messages", tag = "messages", operation_id = "send_to_user", request_body = SendToBody,
    responses((status = 201, description = "Accepted", body = Sent), (status = 200, description = "The same message as an earlier one", body = Sent),
        (status = 202, description = "Durable; what becomes of it is told later", body = Sent),
        (status = 403, description = "One of the two has blocked the other", body = Problem), (status = 404, description = "No such user", body = Problem),
        (status = 409, description = "The client_id was used for another message", body = Problem), (status = 422, body = Problem)))]
pub(super) async fn send_to_user(State(api): State<Api>, Caller(sender): Caller, Json(body): Json<SendToBody>) -> Result<Response> {
    let (to, body) = body.split();
    let to = Destination::User(extract::user("/to", &to)?);
    deliver(&api, Some(sender), to, body).await
}

/// Sends a message to a conversation.
///
/// A server key that acts for nobody sends a system message.
#[utoipa::path(post, path = "/v1/conversations/{conversation}/messages", tag = "messages", operation_id = "send",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa")), request_body = SendBody,
    responses((status = 201, description = "Accepted", body = Sent), (status = 200, description = "The same message as an earlier one", body = Sent),
        (status = 202, description = "Durable; what becomes of it is told later", body = Sent),
        (status = 403, description = "One of the two has blocked the other", body = Problem), (status = 404, body = Problem),
        (status = 409, description = "The client_id was used for another message", body = Problem), (status = 422, body = Problem)))]
pub(super) async fn send(
    State(api): State<Api>,
    identity: Identity,
    Path(conversation): Path<String>,
    Json(body): Json<SendBody>,
) -> Result<Response> {
    let to = Destination::Conversation(extract::conversation(&conversation)?);
    deliver(&api, identity.sender()?, to, body).await
}

async fn deliver(api: &Api, sender: Option<UserId>, to: Destination, body: SendBody) -> Result<Response> {
    let message_type = match (&body.message_type, &sender) {
        (Some(given), _) => MessageType::parse(given).map_err(|why| invalid("/type", why))?,
        (None, None) => MessageType::system(),
        (None, Some(sender)) if api.app.robots.contains(sender) => MessageType::robot(),
        (None, Some(_)) => MessageType::text(),
    };
    let request = SendMessage {
        sender,
        to,
        client_id: ClientId::parse(&body.client_id).map_err(|why| invalid("/client_id", why))?,
        message_type,
        content: content(body.text, body.opaque)?,
        reply_to: body.reply_to.map(|seq| extract::seq("/reply_to", seq)).transpose()?,
        metadata: body.metadata.as_ref().map(metadata).transpose()?.flatten(),
    };
    let sent = api.app.send(request).await?;
    let status = match sent.outcome {
        Some(Outcome::Rejected(rejection)) => return Err(rejected(rejection)),
        Some(Outcome::Accepted(_)) => StatusCode::CREATED,
        Some(Outcome::Duplicate(_)) => StatusCode::OK,
        Some(Outcome::Done(_)) | None => StatusCode::ACCEPTED,
    };
    let sent = show::sent(sent, body.client_id);
    let place = sent.seq.map(|seq| format!("/v1/conversations/{}/messages/{seq}", sent.conversation));
    let mut response = (status, Answer(sent)).into_response();
    if let Some(place) = place.and_then(|place| HeaderValue::try_from(place).ok()) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

fn content(text: Option<String>, opaque: Option<Opaque>) -> Result<Content> {
    match (text, opaque) {
        (Some(text), None) => Content::text(&text).map_err(|why| invalid("/text", why)),
        (None, Some(opaque)) => {
            let bytes = BASE64.decode(opaque.data.as_bytes()).map_err(|_| invalid("/opaque/data", "must be base64 with padding"))?;
            Content::opaque(&opaque.content_type, &bytes).map_err(|why| invalid("/opaque", why))
        }
        (None, None) => Err(invalid("/text", "must be given, or else opaque")),
        (Some(_), Some(_)) => Err(invalid("/opaque", "must not be given beside text")),
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryParameters {
    /// How many messages, 50 if not given.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// From the `next` or `prev` of a page.
    cursor: Option<String>,
    /// Older than this seq.
    #[param(maximum = 9_007_199_254_740_991_u64)]
    before: Option<u64>,
    /// Newer than this seq.
    #[param(maximum = 9_007_199_254_740_991_u64)]
    after: Option<u64>,
    /// Half of the page before and half after this seq, with it in the middle.
    #[param(maximum = 9_007_199_254_740_991_u64)]
    around: Option<u64>,
    /// Strictly earlier than this moment.
    #[param(value_type = Option<String>, format = DateTime)]
    before_time: Option<Time>,
    /// With `to_n`: an exact range of numbers, for a client that saw a gap.
    from_n: Option<u64>,
    to_n: Option<u64>,
    /// Waits until what this token names can be seen.
    at_least: Option<String>,
}

impl HistoryParameters {
    fn query(&self, conversation: ConversationId) -> Result<HistoryQuery> {
        let one = |name, seq: u64| extract::seq(name, seq);
        match self {
            HistoryParameters {
                cursor: Some(cursor),
                before: None,
                after: None,
                around: None,
                before_time: None,
                from_n: None,
                to_n: None,
                ..
            } => Ok(HistoryQuery::from_cursor(conversation, cursor)?),
            HistoryParameters { cursor: None, before, after, around, before_time, from_n, to_n, .. } => {
                match (before, after, around, before_time, from_n, to_n) {
                    (None, None, None, None, None, None) => Ok(HistoryQuery::Newest),
                    (Some(seq), None, None, None, None, None) => Ok(HistoryQuery::Before(one("before", *seq)?)),
                    (None, Some(seq), None, None, None, None) => Ok(HistoryQuery::After(one("after", *seq)?)),
                    (None, None, Some(seq), None, None, None) => Ok(HistoryQuery::Around(one("around", *seq)?)),
                    (None, None, None, Some(Time(at)), None, None) => Ok(HistoryQuery::BeforeTime(*at)),
                    (None, None, None, None, Some(from), Some(to)) if from > to => Err(invalid("from_n", "must not be above to_n")),
                    (None, None, None, None, Some(from), Some(to)) => Ok(HistoryQuery::Numbers { from: N(*from), to: N(*to) }),
                    (None, None, None, None, ..) => Err(refuse(Code::MalformedRequest, "from_n and to_n are given together")),
                    _ => Err(exclusive()),
                }
            }
            HistoryParameters { cursor: Some(_), .. } => Err(exclusive()),
        }
    }
}

fn exclusive() -> crate::refusal::Refusal {
    refuse(Code::MalformedRequest, "give at most one of cursor, before, after, around, before_time, or from_n with to_n")
}

/// A conversation's messages by page, newest first.
#[utoipa::path(get, path = "/v1/conversations/{conversation}/messages", tag = "messages", operation_id = "get_history",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa"), HistoryParameters),
    responses((status = 200, body = Page<Message>), (status = 404, body = Problem)))]
pub(super) async fn history(
    State(api): State<Api>,
    Caller(caller): Caller,
    Path(conversation): Path<String>,
    Query(parameters): Query<HistoryParameters>,
) -> Result<Answer<Page<Message>>> {
    let conversation = extract::conversation(&conversation)?;
    let (query, limit) = (parameters.query(conversation)?, extract::limit(parameters.limit)?);
    at_least(&api, parameters.at_least.as_deref()).await?;
    Ok(Answer(show::history(conversation, api.app.history(&caller, conversation, query, limit).await?)))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadParameters {
    /// Waits until what this token names can be seen.
    pub(super) at_least: Option<String>,
}

/// One message.
#[utoipa::path(get, path = "/v1/conversations/{conversation}/messages/{seq}", tag = "messages", operation_id = "get_message",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa"), ("seq" = String, Path, example = "2199023255552"), ReadParameters),
    responses((status = 200, body = Message), (status = 404, body = Problem)))]
pub(super) async fn get(
    State(api): State<Api>,
    Caller(caller): Caller,
    Path((conversation, seq)): Path<(String, String)>,
    Query(parameters): Query<ReadParameters>,
) -> Result<Answer<Message>> {
    let (conversation, seq) = (extract::conversation(&conversation)?, extract::message(&seq)?);
    at_least(&api, parameters.at_least.as_deref()).await?;
    Ok(Answer(show::message(conversation, api.app.message(&caller, conversation, seq).await?)))
}

/// Replaces the content of a message of one's own. The message is marked as edited.
#[utoipa::path(patch, path = "/v1/conversations/{conversation}/messages/{seq}", tag = "messages", operation_id = "edit_message",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa"), ("seq" = String, Path, example = "2199023255552")), request_body = EditBody,
    responses((status = 200, body = Change), (status = 202, description = "Durable; what becomes of it is told later", body = Change),
        (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, description = "It was deleted", body = Problem), (status = 422, body = Problem)))]
pub(super) async fn edit(
    State(api): State<Api>,
    Caller(caller): Caller,
    Path((conversation, seq)): Path<(String, String)>,
    Json(body): Json<EditBody>,
) -> Result<Response> {
    let (conversation, seq) = (extract::conversation(&conversation)?, extract::message(&seq)?);
    let content = content(body.text, body.opaque)?;
    Ok(change(api.app.edit(&caller, conversation, seq, content).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeleteParameters {
    /// For oneself only, or for everyone, which only the sender may and which leaves a marker.
    #[param(inline)]
    r#for: DeleteFor,
}

#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum DeleteFor {
    Me,
    Everyone,
}

/// Deletes a message, for oneself or for everyone.
#[utoipa::path(delete, path = "/v1/conversations/{conversation}/messages/{seq}", tag = "messages", operation_id = "delete_message",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa"), ("seq" = String, Path, example = "2199023255552"), DeleteParameters),
    responses((status = 200, body = Change), (status = 202, description = "Durable; what becomes of it is told later", body = Change),
        (status = 403, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn delete(
    State(api): State<Api>,
    Caller(caller): Caller,
    Path((conversation, seq)): Path<(String, String)>,
    Query(parameters): Query<DeleteParameters>,
) -> Result<Response> {
    let (conversation, seq) = (extract::conversation(&conversation)?, extract::message(&seq)?);
    Ok(change(match parameters.r#for {
        DeleteFor::Me => api.app.delete_for_me(&caller, conversation, seq).await?,
        DeleteFor::Everyone => api.app.delete_for_everyone(&caller, conversation, seq).await?,
    }))
}

/// Reacts to a message.
#[utoipa::path(put, path = "/v1/conversations/{conversation}/messages/{seq}/reactions/{emoji}", tag = "messages", operation_id = "react",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa"), ("seq" = String, Path, example = "2199023255552"), ("emoji" = String, Path, example = "👍", description = "Any short text, percent-encoded")),
    responses((status = 200, body = Change), (status = 202, description = "Durable; what becomes of it is told later", body = Change),
        (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, description = "It was deleted", body = Problem), (status = 422, body = Problem)))]
pub(super) async fn react(State(api): State<Api>, caller: Caller, path: Path<(String, String, String)>) -> Result<Response> {
    set_reaction(&api, caller, path, true).await
}

/// Takes a reaction back.
#[utoipa::path(delete, path = "/v1/conversations/{conversation}/messages/{seq}/reactions/{emoji}", tag = "messages", operation_id = "unreact",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa"), ("seq" = String, Path, example = "2199023255552"), ("emoji" = String, Path, example = "👍")),
    responses((status = 200, body = Change), (status = 202, description = "Durable; what becomes of it is told later", body = Change),
        (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, description = "It was deleted", body = Problem), (status = 422, body = Problem)))]
pub(super) async fn unreact(State(api): State<Api>, caller: Caller, path: Path<(String, String, String)>) -> Result<Response> {
    set_reaction(&api, caller, path, false).await
}

async fn set_reaction(api: &Api, Caller(caller): Caller, path: Path<(String, String, String)>, on: bool) -> Result<Response> {
    let Path((conversation, seq, emoji)) = path;
    let (conversation, seq) = (extract::conversation(&conversation)?, extract::message(&seq)?);
    let emoji = Emoji::parse(&emoji).map_err(|why| invalid("emoji", why))?;
    Ok(change(api.app.react(&caller, conversation, seq, emoji, on).await?))
}

/// Who has a message, and who has read it.
#[utoipa::path(get, path = "/v1/conversations/{conversation}/messages/{seq}/receipts", tag = "messages", operation_id = "get_receipts",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa"), ("seq" = String, Path, example = "2199023255552"), ReadParameters),
    responses((status = 200, body = Receipts), (status = 404, body = Problem)))]
pub(super) async fn receipts(
    State(api): State<Api>,
    Caller(caller): Caller,
    Path((conversation, seq)): Path<(String, String)>,
    Query(parameters): Query<ReadParameters>,
) -> Result<Answer<Receipts>> {
    let (conversation, seq) = (extract::conversation(&conversation)?, extract::message(&seq)?);
    at_least(&api, parameters.at_least.as_deref()).await?;
    Ok(Answer(show::receipts(api.app.receipts(&caller, conversation, seq).await?)))
}
