//! Messages, and what becomes of what is sent.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use utoipa::ToSchema;

use crate::{Metadata, Time};

/// A message as one of its conversation's members sees it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Message {
    pub conversation: String,
    /// Its place in the log: with the conversation, its identity. Rises within a conversation.
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    pub seq: u64,
    /// Its number among the conversation's messages: 1, 2, 3 … A gap shows that something is missing.
    pub n: u64,
    pub created_at: Time,
    /// Null for a system message.
    pub sender: Option<String>,
    #[serde(rename = "type")]
    pub message_type: String,
    pub client_id: String,
    /// Null for opaque content, and for a deleted message.
    pub text: Option<String>,
    /// Null for text, and for a deleted message.
    pub opaque: Option<Opaque>,
    /// The seq of the message that it answers.
    pub reply_to: Option<u64>,
    pub metadata: Metadata,
    /// When it was last edited.
    pub edited_at: Option<Time>,
    /// When it was deleted for everyone. The marker stays.
    pub deleted_at: Option<Time>,
    pub deleted_by: Option<String>,
    pub reactions: Vec<Reaction>,
    pub status: Status,
}

/// Content that only the clients understand, such as what is encrypted end to end.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Opaque {
    #[schema(min_length = 1, max_length = 128, pattern = "^[ -~]+$", example = "application/vnd.example.sealed")]
    pub content_type: String,
    /// Base64 (with padding) of at most 64 KiB.
    #[schema(content_encoding = "base64", min_length = 4, max_length = 87_384, example = "c2VhbGVk")]
    pub data: String,
}

/// From an object only: derived code would also take a list of the fields' values.
impl<'de> Deserialize<'de> for Opaque {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Opaque, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            content_type: String,
            data: String,
        }
        struct AnObject;
        impl<'de> Visitor<'de> for AnObject {
            type Value = Opaque;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Opaque, A::Error> {
                let Fields { content_type, data } = Fields::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Opaque { content_type, data })
            }
        }
        deserializer.deserialize_map(AnObject)
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Reaction {
    pub emoji: String,
    pub users: Vec<String>,
}

/// How far a message has come with everyone but its sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Sent,
    Delivered,
    Read,
}

/// A message to a conversation: either `text` or `opaque`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendBody {
    /// The sender's own id for this message, 1 to 64 characters. The same one sent again within a day is the same message.
    #[schema(min_length = 1, max_length = 64, example = "7b0c1e")]
    pub client_id: String,
    /// At most 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 65_536, example = "Is the bicycle still there?")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Opaque>,
    /// What sort of message it is; `text` if not given. `system` and `robot` are reserved.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 32, pattern = "^[a-z0-9_.-]+$")]
    pub message_type: Option<String>,
    /// The seq of a message of the same conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    pub reply_to: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// A message to a user; opens the conversation if there is none. Either `text` or `opaque`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendToBody {
    /// Whom; may be the sender, for notes to self.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._:@-]+$", example = "bob")]
    pub to: String,
    /// The sender's own id for this message, 1 to 64 characters. The same one sent again within a day is the same message.
    #[schema(min_length = 1, max_length = 64, example = "7b0c1e")]
    pub client_id: String,
    /// At most 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 65_536, example = "Is the bicycle still there?")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Opaque>,
    /// What sort of message it is; `text` if not given. `system` and `robot` are reserved.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 32, pattern = "^[a-z0-9_.-]+$")]
    pub message_type: Option<String>,
    /// The seq of a message of the same conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    pub reply_to: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

impl SendToBody {
    /// Who it is for, and what.
    pub fn split(self) -> (String, SendBody) {
        let SendToBody { to, client_id, text, opaque, message_type, reply_to, metadata } = self;
        (to, SendBody { client_id, text, opaque, message_type, reply_to, metadata })
    }
}

/// New content for a message of one's own: either `text` or `opaque`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 65_536, example = "Is the blue bicycle still there?")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Opaque>,
}

/// A message that the log holds durably.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Sent {
    /// `accepted` (201), `duplicate` (200), or `pending` (202): then ask `GET /v1/sends/{token}`.
    pub outcome: Outcome,
    pub conversation: String,
    pub client_id: String,
    /// Names this send; reads take it as `at_least`.
    pub token: String,
    /// Null while pending.
    pub seq: Option<u64>,
    pub n: Option<u64>,
    pub created_at: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Durable in the log; what becomes of it is not known yet.
    Pending,
    Accepted,
    /// The same message as an earlier one, whose place is told.
    Duplicate,
    /// Changed nothing.
    Rejected,
    /// A change that is no message took effect.
    Done,
}

/// What became of something that was sent or changed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SendStatus {
    pub outcome: Outcome,
    pub conversation: String,
    pub seq: Option<u64>,
    pub n: Option<u64>,
    pub created_at: Option<Time>,
    /// Why it was rejected: the code of the problem.
    pub code: Option<String>,
}

/// A change that the log holds durably.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// `done` (200), or `pending` (202): then ask `GET /v1/sends/{token}`.
    pub outcome: Outcome,
    pub conversation: String,
    /// Names this change; reads take it as `at_least`.
    pub token: String,
}

/// Who has a message, beside its sender.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Receipts {
    pub status: Status,
    pub read_by: Vec<String>,
    /// Who has it, but did not say that they read it.
    pub delivered_to: Vec<String>,
}
