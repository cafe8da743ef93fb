//! What happened to a user, for a device that was away.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Feed {
    /// By time, oldest first. References without content: read the messages that you want.
    pub data: Vec<FeedItem>,
    /// Pass it as `cursor` to go on now; null at the end.
    pub next: Option<String>,
    /// Store it and pass it as `cursor` the next time: nothing can still appear before it. What comes again is known by conversation and seq.
    pub safe: String,
    /// The cursor was older than what is kept (400 days): read the inbox anew, then go on from here.
    pub reset: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedItem {
    pub event: Happening,
    pub conversation: String,
    pub seq: u64,
    pub at: Time,
    /// What became of it: `GET /v1/sends/{token}`. Reads take it as `at_least`.
    pub token: String,
    /// The message that it is about, where that is not the event itself.
    pub target: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Happening {
    Opened,
    Message,
    Edited,
    Deleted,
    Hidden,
    Reacted,
    Read,
    Archived,
    Activated,
    ConversationDeleted,
    Blocked,
    Unblocked,
    Rejected,
}
