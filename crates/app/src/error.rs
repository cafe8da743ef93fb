//! Why a use case did not do what was asked.

use dunlin_model::{Rejection, UserId};
use dunlin_ports::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// Also what the caller may not see.
    #[error("there is no such conversation")]
    NoConversation,
    #[error("there is no such message")]
    NoMessage,
    #[error("there is no user {0}")]
    NoUser(UserId),
    #[error("the cursor does not belong to this query")]
    InvalidCursor,
    #[error("a user can't block themselves")]
    BlocksSelf,
    #[error("the type {0} is reserved")]
    ReservedType(&'static str),
    #[error("there are too many reactions of this user to this message")]
    TooManyReactions,
    #[error(transparent)]
    Rejected(Rejection),
    /// Nothing was done: an event of this conversation could not be read, and whatever follows it waits for the operator.
    #[error("this conversation is parked")]
    Parked,
    /// Nothing was done; come back in a moment.
    #[error("too many events wait to be projected")]
    Busy,
    /// Nothing was done: the log might delete what waits before it is projected.
    #[error("what waits to be projected is too old")]
    Overdue,
    /// Nothing was read: what the caller wants to see is not projected yet.
    #[error("the state is not that far yet")]
    NotYet,
    #[error("the token was revoked")]
    TokenRevoked,
    /// Unknown, revoked, or with another secret.
    #[error("there is no such server key")]
    NoServerKey,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Rejection> for AppError {
    fn from(rejection: Rejection) -> AppError {
        match rejection {
            Rejection::NoConversation => AppError::NoConversation,
            Rejection::NoMessage => AppError::NoMessage,
            other => AppError::Rejected(other),
        }
    }
}
