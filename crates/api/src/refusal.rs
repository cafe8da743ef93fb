//! Problems as answers, and which problem each error of a use case is.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use dunlin_app::{AppError, StoreError};
use dunlin_model::{Rejection, limits};
use dunlin_protocol::{Code, Problem};
use tracing::{debug, error, warn};

/// When to come back, where nothing better is known.
const RETRY_AFTER_S: u64 = 1;
/// It takes an operator to go on.
const PARKED_RETRY_AFTER_S: u64 = 30;

/// A request that is not served. `layers` gives the answer its request id.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) problem: Box<Problem>,
    pub(crate) retry_after_s: Option<u64>,
}

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

pub(crate) fn refuse(code: Code, detail: impl Into<String>) -> Refusal {
    let wait = if code == Code::ConversationParked { PARKED_RETRY_AFTER_S } else { RETRY_AFTER_S };
    let retry_after_s = (code.is_retryable() && matches!(code.status(), 429 | 503)).then_some(wait);
    Refusal { problem: Box::new(Problem::new(code, detail)), retry_after_s }
}

/// One field has a value that it can't have.
pub(crate) fn invalid(pointer: &str, why: impl ToString) -> Refusal {
    let why = why.to_string();
    refuse(Code::InvalidField, format!("{} {why}", pointer.trim_start_matches('/'))).at(pointer, why)
}

impl Refusal {
    pub(crate) fn at(mut self, pointer: &str, message: impl Into<String>) -> Refusal {
        *self.problem = self.problem.at(pointer, message);
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal { problem, retry_after_s } = self;
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        if let Some(seconds) = retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // Written out once its request id is known.
        response.extensions_mut().insert(Unwritten(problem));
        response
    }
}

/// A problem on its way out.
#[derive(Clone)]
pub(crate) struct Unwritten(pub(crate) Box<Problem>);

impl From<AppError> for Refusal {
    fn from(error: AppError) -> Refusal {
        match error {
            AppError::NoConversation => refuse(Code::ConversationNotFound, "there is no such conversation"),
            AppError::NoMessage => refuse(Code::MessageNotFound, "there is no such message"),
            AppError::NoUser(user) => refuse(Code::UserNotFound, format!("there is no user {user}")),
            AppError::InvalidCursor => refuse(Code::InvalidCursor, "the cursor or token is not one of this query"),
            AppError::BlocksSelf => invalid("user", "must be someone else"),
            AppError::ReservedType(kind) => invalid(
                "/type",
                format!(
                    "does not fit the sender: {kind} is for {}",
                    if kind == "system" { "messages without one, and those have no other" } else { "robots" }
                ),
            ),
            AppError::TooManyReactions => refuse(
                Code::TooManyReactions,
                format!("at most {} emojis a user and message, also those taken back", limits::REACTIONS_PER_USER_MAX),
            ),
            AppError::Rejected(rejection) => rejected(rejection),
            AppError::Parked => refuse(Code::ConversationParked, "an event of this conversation could not be read by this version"),
            AppError::Overdue => refuse(Code::Busy, "what waits to be made visible is too old; nothing more is taken until it is visible"),
            AppError::Busy => refuse(Code::Busy, "too much waits to be made visible"),
            AppError::NotYet => refuse(Code::NotYet, "what at_least names is not visible yet"),
            AppError::TokenRevoked => refuse(Code::TokenRevoked, "this token was issued before the user's tokens were revoked"),
            AppError::NoServerKey => refuse(Code::InvalidToken, "this server key is not valid"),
            AppError::Store(error) => store(&error),
        }
    }
}

/// The code of a rejection, also where it is told later.
pub(crate) fn rejection_code(rejection: Rejection) -> Code {
    match rejection {
        Rejection::NoConversation => Code::ConversationNotFound,
        Rejection::Blocked => Code::Blocked,
        Rejection::ClientIdReused => Code::ClientIdReused,
        Rejection::NoMessage => Code::MessageNotFound,
        Rejection::NotSender => Code::NotSender,
        Rejection::MessageDeleted => Code::MessageDeleted,
        Rejection::BeyondHead => Code::BeyondHead,
        Rejection::Mismatch => Code::InvalidField,
    }
}

pub(crate) fn rejected(rejection: Rejection) -> Refusal {
    refuse(rejection_code(rejection), rejection.to_string())
}

/// What went wrong inside is for the operator's log; the caller learns what to do.
fn store(error: &StoreError) -> Refusal {
    match error {
        StoreError::Unavailable(_) => {
            // Thousands a minute while an engine is away; that it is, others say once.
            debug!(%error, "a store was not there for a request");
            refuse(Code::Unavailable, "nothing was done; try again")
        }
        StoreError::Unknown(_) => {
            warn!(%error, "what became of a request is not known");
            refuse(Code::OutcomeUnknown, "send the same request again; a message with the same client_id is the same message")
        }
        StoreError::Conflict(_) | StoreError::Corrupt(_) => {
            error!(%error, "a store failed a request");
            refuse(Code::Internal, "the operator's log says more")
        }
    }
}
