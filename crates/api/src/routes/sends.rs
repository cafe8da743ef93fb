//! What became of something that was sent.

use axum::{Json as Answer, extract::State};
use dunlin_app::SendToken;
use dunlin_protocol::{Code, Problem, SendStatus};

use crate::{
    Api,
    auth::Identity,
    extract::Path,
    refusal::{Result, refuse},
    show,
};

/// What became of a send or a change, by its token.
///
/// Told to whoever sent it (a server key that acts for nobody is the system), and of what took effect to the conversation's members.
#[utoipa::path(get, path = "/v1/sends/{token}", tag = "messages", operation_id = "get_send",
    params(("token" = String, Path, example = "drqwz4566wtaz7bozcmntbrvcxa.2199023255552")), responses((status = 200, body = SendStatus), (status = 404, body = Problem)))]
pub(super) async fn status(State(api): State<Api>, identity: Identity, Path(token): Path<String>) -> Result<Answer<SendStatus>> {
    let token: SendToken = token.parse().map_err(|_| refuse(Code::InvalidCursor, "this is no token of a send"))?;
    let outcome = api.app.send_status(identity.sender()?.as_ref(), token).await?;
    Ok(Answer(show::send_status(token.conversation, outcome)))
}

/// Waits until a read can see what a token names.
pub(super) async fn at_least(api: &Api, token: Option<&str>) -> Result<()> {
    match token {
        None => Ok(()),
        Some(token) => {
            let token = token.parse().map_err(|_| refuse(Code::InvalidCursor, "at_least is no token of a send"))?;
            Ok(api.app.at_least(token).await?)
        }
    }
}
