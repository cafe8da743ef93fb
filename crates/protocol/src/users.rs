//! Users and their tokens.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::{Metadata, Time};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct User {
    #[schema(example = "alice")]
    pub id: String,
    pub display_name: Option<String>,
    pub metadata: Metadata,
    pub created_at: Time,
    pub updated_at: Time,
}

/// What is not named stays as it is; null takes it away.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UserBody {
    /// 1 to 100 characters.
    #[serde(deserialize_with = "named", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 100, example = "Alice Moreau")]
    pub display_name: Option<Option<String>>,
    /// Replaces all of it: at most 32 entries, names of at most 64 bytes, values of at most 1,024 bytes.
    #[serde(deserialize_with = "named", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Metadata>)]
    pub metadata: Option<Option<Metadata>>,
}

/// A field that is there, if only as null.
fn named<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TokenBody {
    /// For how many seconds it is good; an hour if not given, 30 days at most.
    #[schema(minimum = 1, maximum = 2_592_000, example = 3600)]
    pub ttl_s: Option<u64>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Goes into the header `Authorization: Bearer …`.
    pub token: String,
    pub user: String,
    pub expires_at: Time,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct TokensRevoked {
    /// Tokens of the user that were issued before this moment are refused.
    pub issued_before: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_null_and_named_are_three_things() {
        let read = |json| serde_json::from_str::<UserBody>(json).unwrap().display_name;
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"display_name": null}"#), Some(None));
        assert_eq!(read(r#"{"display_name": "Ann"}"#), Some(Some("Ann".into())));
        assert!(serde_json::from_str::<UserBody>(r#"{"displayname": "Ann"}"#).is_err());
    }
}
