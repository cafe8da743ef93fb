//! What the driver's errors mean to a caller. Mapped here and nowhere else.

use dunlin_ports::StoreError;
use redis::{ErrorKind, RedisError};

pub const TIMED_OUT: &str = "Redis did not answer in time";

/// Always `Unavailable`, even where a write may have been done before it failed: nobody relies on what these ports lose or keep, so
/// there is nothing to find out by repeating it.
pub fn unavailable(error: &RedisError) -> StoreError {
    StoreError::Unavailable(reason(error))
}

pub fn timed_out() -> StoreError {
    StoreError::Unavailable(TIMED_OUT.to_owned())
}

/// The driver's words hold addresses and what Redis said, never a password.
pub fn reason(error: &RedisError) -> String {
    // Of what is no Redis, the driver shows what it said.
    format!("Redis: {}", error.to_string().lines().next().unwrap_or_default())
}

/// Whether Redis itself refused: then it is there, and other calls may well succeed.
pub fn was_answered(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::UnexpectedReturnType)
}
