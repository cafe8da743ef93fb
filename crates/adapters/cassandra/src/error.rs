//! What the driver's errors mean to the port, and why a start may fail.

use dunlin_model::DecodeError;
use dunlin_ports::StoreError;
use scylla::errors::{
    DeserializationError, ExecutionError, IntoRowsResultError, MaybeFirstRowError, NewSessionError, RowsError, TypeCheckError,
};

use crate::SchemaError;

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("failed to reach Cassandra at {nodes}: {why}")]
    Unreachable { nodes: String, why: String },
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("Cassandra did not get ready within {0} s")]
    Slow(u64),
    #[error("Cassandra refused a statement: {0}")]
    Statement(String),
}

impl ConnectError {
    pub(crate) fn unreachable(nodes: &[String], error: &NewSessionError) -> ConnectError {
        ConnectError::Unreachable { nodes: nodes.join(", "), why: error.to_string() }
    }
}

/// A read that failed can be made again.
pub(crate) fn of_read(error: ExecutionError) -> StoreError {
    match error {
        ExecutionError::BadQuery(_) => corrupt(&error),
        _ => StoreError::Unavailable(format!("Cassandra: {error}")),
    }
}

/// A write that failed may have been made by some replicas, or by all.
pub(crate) fn of_write(error: ExecutionError) -> StoreError {
    match error {
        ExecutionError::BadQuery(_) => corrupt(&error),
        _ => StoreError::Unknown(format!("Cassandra: {error}")),
    }
}

pub(crate) fn corrupt(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt(format!("Cassandra: {error}"))
}

pub(crate) trait OrCorrupt<T> {
    fn or_corrupt(self) -> Result<T, StoreError>;
}

macro_rules! or_corrupt {
    ($($error:ty),*) => {
        $(impl<T> OrCorrupt<T> for Result<T, $error> {
            fn or_corrupt(self) -> Result<T, StoreError> {
                self.map_err(|error| corrupt(&error))
            }
        })*
    };
}
or_corrupt!(IntoRowsResultError, MaybeFirstRowError, RowsError, DeserializationError, TypeCheckError, DecodeError);
