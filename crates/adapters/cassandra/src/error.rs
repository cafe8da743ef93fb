//! What the driver's errors mean to the port, and why a start may fail.

use dunlin_model::DecodeError;
use dunlin_ports::StoreError;
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, DeserializationError, ExecutionError,
    IntoRowsResultError, MaybeFirstRowError, MetadataError, NewSessionError, RowsError, SingleRowError, TypeCheckError,
};

use crate::SchemaError;

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("failed to reach Cassandra at {nodes}: {why}")]
    Unreachable { nodes: String, why: String },
    #[error("Cassandra at {nodes} does not let us in: {why}; look at cassandra.user and cassandra.password_file")]
    NotLetIn { nodes: String, why: String },
    #[error("Cassandra has version {found}, and at least {needed}.0 is needed, with which unified compaction came")]
    TooOld { found: String, needed: u32 },
    #[error("no node of Cassandra that answers is in the datacenter {0}: look at cassandra.datacenter")]
    Datacenter(String),
    #[error("TLS to Cassandra can't be had: {0}")]
    Tls(String),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("Cassandra did not get ready within {0} s")]
    Slow(u64),
    #[error("Cassandra refused a statement: {0}")]
    Statement(String),
}

impl ConnectError {
    pub(crate) fn of_session(nodes: &[String], error: NewSessionError) -> ConnectError {
        let nodes = nodes.join(", ");
        let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken { last_connection_error })) =
            error
        else {
            return ConnectError::Unreachable { nodes, why: error.to_string() };
        };
        match not_let_in(&last_connection_error) {
            Some(why) => ConnectError::NotLetIn { nodes, why },
            None => ConnectError::Unreachable { nodes, why: last_connection_error.to_string() },
        }
    }
}

fn not_let_in(error: &ConnectionError) -> Option<String> {
    let ConnectionError::ConnectionSetupRequestError(request) = error else { return None };
    match request.get_error() {
        ConnectionSetupRequestErrorKind::MissingAuthentication => Some("it asks for a user and a password".to_owned()),
        ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, said) => Some(said.clone()),
        _ => None,
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
or_corrupt!(IntoRowsResultError, MaybeFirstRowError, RowsError, SingleRowError, DeserializationError, TypeCheckError, DecodeError);
