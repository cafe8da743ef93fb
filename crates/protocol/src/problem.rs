//! Problems: RFC 9457 answers with a stable code each.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request was not served.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Where the code is described.
    #[serde(rename = "type")]
    #[schema(example = "/docs#blocked")]
    pub problem_type: String,
    /// The same for every problem of this code.
    pub title: String,
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What was wrong this time.
    pub detail: String,
    /// Stable; meant for programs.
    #[schema(example = "blocked")]
    pub code: String,
    /// What of the request was wrong, field by field.
    pub errors: Vec<FieldError>,
    /// Also in the header `X-Request-Id`, and in the server's log.
    pub request_id: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// A JSON pointer into the body, or the name of a parameter or header.
    #[schema(example = "/client_id")]
    pub pointer: String,
    pub message: String,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident, $status:literal, $code:literal, $title:literal, $retryable:literal;)*) => {
        /// Every code that there is.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Code {
            $($(#[$doc])* $name),*
        }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name),*];

            pub fn status(self) -> u16 {
                match self { $(Code::$name => $status),* }
            }

            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $code),* }
            }

            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title),* }
            }

            /// Whether the same request may succeed later.
            pub fn is_retryable(self) -> bool {
                match self { $(Code::$name => $retryable),* }
            }
        }
    };
}

codes! {
    MalformedJson, 400, "malformed_json", "The body is not valid JSON", false;
    MalformedRequest, 400, "malformed_request", "The path, the query or a header can't be read", false;
    InvalidCursor, 400, "invalid_cursor", "The cursor or token does not belong to this query", false;
    Unauthenticated, 401, "unauthenticated", "Credentials are missing", false;
    InvalidToken, 401, "invalid_token", "The token or key is not valid here", false;
    TokenExpired, 401, "token_expired", "The token has expired", false;
    TokenRevoked, 401, "token_revoked", "The token was revoked", false;
    ScopeMissing, 403, "scope_missing", "The credentials do not cover this", false;
    Blocked, 403, "blocked", "One of the two has blocked the other", false;
    NotSender, 403, "not_sender", "Only its sender may change a message", false;
    NotFound, 404, "not_found", "There is nothing at this address", false;
    ConversationNotFound, 404, "conversation_not_found", "There is no such conversation, or it is not yours to see", false;
    MessageNotFound, 404, "message_not_found", "There is no such message, or it is not yours to see", false;
    UserNotFound, 404, "user_not_found", "There is no such user", false;
    MethodNotAllowed, 405, "method_not_allowed", "This address does not take this method", false;
    RequestTimeout, 408, "request_timeout", "The request took too long to arrive", true;
    ClientIdReused, 409, "client_id_reused", "The client_id was used for another message", false;
    MessageDeleted, 409, "message_deleted", "The message was deleted", false;
    IdempotencyKeyReused, 409, "idempotency_key_reused", "The idempotency key was used for another request", false;
    IdempotencyKeyInUse, 409, "idempotency_key_in_use", "A request with this idempotency key is being served", true;
    TooManyReactions, 409, "too_many_reactions", "A user may put only so many emojis on one message", false;
    TokensNotMinted, 409, "tokens_not_minted", "This server has no secret to sign tokens with", false;
    BodyTooLarge, 413, "body_too_large", "The body is too large", false;
    UnsupportedMediaType, 415, "unsupported_media_type", "The body must be application/json", false;
    InvalidField, 422, "invalid_field", "A field has a value that it can't have", false;
    BeyondHead, 422, "beyond_head", "The mark lies beyond the conversation's last message", false;
    RateLimited, 429, "rate_limited", "Too many requests", true;
    Internal, 500, "internal", "Something went wrong here", false;
    OutcomeUnknown, 503, "outcome_unknown", "It may or may not have been done: send the same again", true;
    Unavailable, 503, "unavailable", "A part of the server does not work at the moment", true;
    Busy, 503, "busy", "The server has more to do than it can", true;
    NotYet, 503, "not_yet", "What at_least names is not visible yet", true;
    ConversationParked, 503, "conversation_parked", "This conversation waits for the operator", true;
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            problem_type: format!("/docs#{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            code: code.as_str().to_owned(),
            errors: Vec::new(),
            request_id: String::new(),
            retryable: code.is_retryable(),
        }
    }

    pub fn at(mut self, pointer: impl Into<String>, message: impl Into<String>) -> Problem {
        self.errors.push(FieldError { pointer: pointer.into(), message: message.into() });
        self
    }

    /// `None` for a code of a later version.
    pub fn known_code(&self) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == self.code)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_code_stands_once_and_reads_back() {
        let names: HashSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for &code in Code::ALL {
            assert_eq!(Problem::new(code, "").known_code(), Some(code));
            assert!(code.as_str().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        }
    }
}
