//! Conversations: opening, the inbox, one of them, visibility, unread.

use axum::{
    Json as Answer,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use dunlin_app::{HistoryQuery, InboxQuery};
use dunlin_model::{ConversationId, Shown, UserId, VisibilityChange};
use dunlin_protocol::{Change, Code, Conversation, ConversationUnread, Member, Page, Problem, Unread, Visibility};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{change, messages::ReadParameters, sends::at_least};
use crate::{
    Api,
    auth::Caller,
    etag::tagged,
    extract::{self, Path, Query},
    refusal::{Result, invalid, refuse},
    show,
};

/// Opens the conversation with a user, or finds it open.
#[utoipa::path(put, path = "/v1/direct/{user}", tag = "conversations", operation_id = "open_direct",
    params(("user" = String, Path, example = "bob", description = "The other; oneself for notes to self")),
    responses((status = 200, body = Conversation), (status = 202, description = "Durable; what becomes of it is told later", body = Change),
        (status = 403, description = "One of the two has blocked the other", body = Problem), (status = 404, description = "No such user", body = Problem)))]
pub(super) async fn open_direct(State(api): State<Api>, Caller(caller): Caller, Path(user): Path<String>) -> Result<Response> {
    let user = extract::user("user", &user).map_err(|_| refuse(Code::UserNotFound, "there is no such user"))?;
    let opened = api.app.open_direct(&caller, &user).await?;
    if !opened.settled {
        return Ok((StatusCode::ACCEPTED, Answer(show::changed(opened))).into_response());
    }
    Ok(Answer(show::conversation(api.app.conversation(&caller, opened.token.conversation).await?)).into_response())
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct InboxParameters {
    /// How many conversations, 50 if not given.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// From the `next` of a page.
    cursor: Option<String>,
    /// Only these: `displayed` or `archived`; both if not given.
    #[param(inline)]
    visibility: Option<Visibility>,
    /// Waits until what this token names can be seen.
    at_least: Option<String>,
}

/// The caller's conversations, most recent first.
#[utoipa::path(get, path = "/v1/conversations", tag = "conversations", operation_id = "get_inbox", params(InboxParameters),
    responses((status = 200, body = Page<Conversation>)))]
pub(super) async fn inbox(
    State(api): State<Api>,
    Caller(caller): Caller,
    Query(parameters): Query<InboxParameters>,
) -> Result<Answer<Page<Conversation>>> {
    let shown = match parameters.visibility {
        None => None,
        Some(Visibility::Displayed) => Some(Shown::Displayed),
        Some(Visibility::Archived) => Some(Shown::Archived),
        Some(Visibility::Deleted) => return Err(invalid("visibility", "must be displayed or archived")),
    };
    let query = InboxQuery { limit: extract::limit(parameters.limit)?, cursor: parameters.cursor, shown };
    at_least(&api, parameters.at_least.as_deref()).await?;
    let page = api.app.inbox(&caller, query).await?;
    Ok(Answer(Page { data: page.conversations.into_iter().map(show::conversation).collect(), next: page.next, prev: None }))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ConversationParameters {
    /// With so many of the newest messages.
    #[param(minimum = 1, maximum = 200)]
    messages: Option<usize>,
    /// Waits until what this token names can be seen.
    at_least: Option<String>,
}

/// One conversation, with a page of its messages if asked for.
#[utoipa::path(get, path = "/v1/conversations/{conversation}", tag = "conversations", operation_id = "get_conversation",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa"), ConversationParameters),
    responses((status = 200, body = Conversation), (status = 304, description = "Unchanged"), (status = 404, body = Problem)))]
pub(super) async fn get(
    State(api): State<Api>,
    Caller(caller): Caller,
    Path(conversation): Path<String>,
    Query(parameters): Query<ConversationParameters>,
    headers: HeaderMap,
) -> Result<Response> {
    let conversation = extract::conversation(&conversation)?;
    let messages = parameters.messages.map(|wanted| extract::page_len("messages", wanted)).transpose()?;
    at_least(&api, parameters.at_least.as_deref()).await?;
    tagged(&headers, &view(&api, &caller, conversation, messages).await?)
}

pub(super) async fn view(api: &Api, caller: &UserId, conversation: ConversationId, messages: Option<usize>) -> Result<Conversation> {
    let mut shown = show::conversation(api.app.conversation(caller, conversation).await?);
    if let Some(limit) = messages {
        let page = api.app.history(caller, conversation, HistoryQuery::Newest, limit).await?;
        shown.messages = Some(show::history(conversation, page));
    }
    Ok(shown)
}

/// Who is in a conversation, and how far they have come.
#[utoipa::path(get, path = "/v1/conversations/{conversation}/members", tag = "conversations", operation_id = "get_members",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa"), ReadParameters), responses((status = 200, body = Page<Member>), (status = 404, body = Problem)))]
pub(super) async fn members(
    State(api): State<Api>,
    Caller(caller): Caller,
    Path(conversation): Path<String>,
    Query(parameters): Query<ReadParameters>,
) -> Result<Answer<Page<Member>>> {
    let conversation = extract::conversation(&conversation)?;
    at_least(&api, parameters.at_least.as_deref()).await?;
    let members = api.app.members(&caller, conversation).await?;
    Ok(Answer(Page { data: members.into_iter().map(show::member).collect(), next: None, prev: None }))
}

/// Archives a conversation for the caller; a new message brings it back.
#[utoipa::path(post, path = "/v1/conversations/{conversation}/archive", tag = "conversations", operation_id = "archive",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa")),
    responses((status = 200, body = Change), (status = 202, description = "Durable; what becomes of it is told later", body = Change), (status = 404, body = Problem)))]
pub(super) async fn archive(State(api): State<Api>, caller: Caller, path: Path<String>) -> Result<Response> {
    set_visibility(&api, caller, path, VisibilityChange::Archive).await
}

/// Brings an archived conversation back for the caller.
#[utoipa::path(post, path = "/v1/conversations/{conversation}/activate", tag = "conversations", operation_id = "activate",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa")),
    responses((status = 200, body = Change), (status = 202, description = "Durable; what becomes of it is told later", body = Change), (status = 404, body = Problem)))]
pub(super) async fn activate(State(api): State<Api>, caller: Caller, path: Path<String>) -> Result<Response> {
    set_visibility(&api, caller, path, VisibilityChange::Activate).await
}

/// Deletes a conversation for the caller: what was there stays hidden; a new message brings it back with what is new.
#[utoipa::path(delete, path = "/v1/conversations/{conversation}", tag = "conversations", operation_id = "delete_conversation",
    params(("conversation" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa")),
    responses((status = 200, body = Change), (status = 202, description = "Durable; what becomes of it is told later", body = Change), (status = 404, body = Problem)))]
pub(super) async fn delete(State(api): State<Api>, caller: Caller, path: Path<String>) -> Result<Response> {
    set_visibility(&api, caller, path, VisibilityChange::Delete).await
}

async fn set_visibility(api: &Api, Caller(caller): Caller, Path(conversation): Path<String>, to: VisibilityChange) -> Result<Response> {
    let conversation = extract::conversation(&conversation)?;
    Ok(change(api.app.set_visibility(&caller, conversation, to).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UnreadParameters {
    /// How many conversations to list, 50 if not given. The totals are of all.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// Waits until what this token names can be seen.
    at_least: Option<String>,
}

/// How much the caller has not seen: in total, and in which conversations.
#[utoipa::path(get, path = "/v1/unread", tag = "conversations", operation_id = "get_unread", params(UnreadParameters),
    responses((status = 200, body = Unread)))]
pub(super) async fn unread(
    State(api): State<Api>,
    Caller(caller): Caller,
    Query(parameters): Query<UnreadParameters>,
) -> Result<Answer<Unread>> {
    let limit = extract::limit(parameters.limit)?;
    at_least(&api, parameters.at_least.as_deref()).await?;
    let unread = api.app.unread(&caller, limit).await?;
    let list = unread.conversations.into_iter();
    Ok(Answer(Unread {
        messages: unread.totals.messages,
        conversations: unread.totals.conversations,
        data: list.map(|(conversation, unread)| ConversationUnread { conversation: conversation.to_string(), unread }).collect(),
    }))
}
