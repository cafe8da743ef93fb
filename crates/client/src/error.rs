//! Why a call did not do what was asked.

use std::{error::Error as _, time::Duration};

use dunlin_protocol::{Code, Problem};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server said no, and why.
    #[error("{} ({}): {}", .0.title, .0.code, .0.detail)]
    Problem(Box<Problem>),
    /// The server could not be reached, or the connection broke. What was sent may or may not have arrived.
    #[error("the server could not be reached: {0}")]
    Transport(String),
    #[error("there was no answer within {0:?}")]
    Timeout(Duration),
    #[error("the request can't be made: {0}")]
    Request(String),
    #[error("the answer can't be read: {0}")]
    Answer(String),
}

impl Error {
    pub(crate) fn transport(error: &hyper_util::client::legacy::Error) -> Error {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        Error::Transport(format!("{error}{cause}"))
    }

    /// Whether the same call may succeed if it is made again.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Problem(problem) => problem.retryable,
            Error::Transport(_) | Error::Timeout(_) => true,
            Error::Request(_) | Error::Answer(_) => false,
        }
    }

    pub fn code(&self) -> Option<Code> {
        match self {
            Error::Problem(problem) => problem.known_code(),
            _ => None,
        }
    }
}
