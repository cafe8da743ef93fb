//! Conversations, as lists and pages show them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Message, Page, Time};

/// A conversation as one of its members sees it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Conversation {
    pub id: String,
    #[schema(example = "direct")]
    pub kind: String,
    /// The other participant; oneself in notes to self.
    pub other: Option<String>,
    pub last_message: Option<LastMessage>,
    /// What lists are ordered by: when the last message was sent, or when it was opened.
    pub active_at: Time,
    pub unread: u64,
    pub first_unread_at: Option<Time>,
    pub visibility: Visibility,
    pub blocked_by_me: bool,
    pub blocked_me: bool,
    /// Only if it is so: what came last is missing until the operator has mended it, and nothing can be sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub degraded: bool,
    /// The newest messages, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Page<Message>>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LastMessage {
    pub seq: u64,
    pub created_at: Time,
    pub sender: Option<String>,
    #[serde(rename = "type")]
    pub message_type: String,
    /// Its first 140 characters; null for opaque content, and for a deleted message.
    pub preview: Option<String>,
    pub deleted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    Displayed,
    Archived,
    Deleted,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Member {
    pub user: String,
    /// The seq up to which they said that they have read; null if they never did.
    pub read_up_to: Option<u64>,
    /// The seq up to which a device of theirs has everything.
    pub delivered_up_to: Option<u64>,
}

/// Everything up to a message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkBody {
    /// The seq of the last message that it covers.
    #[schema(maximum = 9_007_199_254_740_991_u64, example = 2_199_023_255_881_u64)]
    pub up_to: u64,
}

/// What a user has not seen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Unread {
    pub messages: u64,
    /// How many conversations have unread messages.
    pub conversations: u64,
    /// Those conversations, most recent first; at most `limit`.
    pub data: Vec<ConversationUnread>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConversationUnread {
    pub conversation: String,
    pub unread: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Block {
    pub user: String,
    pub since: Time,
}
