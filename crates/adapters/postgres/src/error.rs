//! What the driver's errors mean to a call, to the port and to a start. Mapped here and nowhere else.

use std::error::Error as _;

use dunlin_ports::StoreError;
use tokio_postgres::error::SqlState;

use crate::{options::InvalidOptions, schema::SchemaError, tls};

/// Why one attempt at a call failed: what can be done about it.
#[derive(Debug)]
pub enum Fault {
    /// Nothing was done. It may work if tried again.
    Passing(String),
    /// The server is there and knows us not, or not by this password or way.
    NotLetIn(String),
    /// The server is there and is not known to be the one that was meant.
    NotTrusted(String),
    /// Nothing was done, for the shard is no longer where it was thought to be.
    Elsewhere(String),
    /// The connection broke while a commit was under way: it may or may not have been done.
    Doubtful(String),
    /// Trying again would not help.
    Final(StoreError),
}

impl Fault {
    pub fn why(&self) -> String {
        match self {
            Fault::Passing(why) | Fault::NotLetIn(why) | Fault::NotTrusted(why) | Fault::Elsewhere(why) | Fault::Doubtful(why) => {
                why.clone()
            }
            Fault::Final(error) => error.to_string(),
        }
    }
}

/// Of an attempt to connect.
pub fn of_connect(database: &str, error: &tokio_postgres::Error) -> Fault {
    let why = reason(error);
    let is_not_let_in = error.code().is_some_and(|code| code.code().starts_with("28"));
    // The driver has these two in words only: no password was given, TLS was asked for.
    if is_not_let_in || ["password missing", "server does not support TLS"].iter().any(|words| why.contains(words)) {
        return Fault::NotLetIn(why);
    }
    if error.source().is_some_and(tls::is_not_trusted) {
        return Fault::NotTrusted(why);
    }
    Fault::Passing(format!("PostgreSQL {database}: {why}"))
}

/// Of a statement before the commit: whatever broke, nothing was done.
pub fn of_statement(database: &str, error: &tokio_postgres::Error) -> Fault {
    let why = format!("PostgreSQL {database}: {}", reason(error));
    match error.code() {
        // A schema that was there before has gone with its shard.
        Some(code) if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::INVALID_SCHEMA_NAME => Fault::Elsewhere(why),
        // What was prepared no longer fits the tables.
        Some(code) if *code == SqlState::FEATURE_NOT_SUPPORTED => Fault::Passing(why),
        Some(code) if !passes(code) => Fault::Final(StoreError::Corrupt(why)),
        _ => Fault::Passing(why),
    }
}

/// Of a commit: it may have been done, even if the server was still able to say something (that it is shut down, say).
pub fn of_commit(database: &str, error: &tokio_postgres::Error) -> Fault {
    Fault::Doubtful(format!("PostgreSQL {database}: {}", reason(error)))
}

/// Whether this comes from the moment (a failover, too much load, others in the way), not from what was asked.
fn passes(code: &SqlState) -> bool {
    // Classes: connection, transaction state (a standby is read only), log-in, rollback, resources, locks, operator, system.
    const PASSING: [&str; 8] = ["08", "25", "28", "40", "53", "55", "57", "58"];
    PASSING.iter().any(|class| code.code().starts_with(class))
}

/// What the driver and the server say. Details and hints are left out: they may quote what is stored.
pub fn reason(error: &tokio_postgres::Error) -> String {
    if let Some(told) = error.as_db_error() {
        return format!("{} ({})", told.message(), told.code().code());
    }
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

/// What is stored can't be.
pub fn corrupt(what: &str, why: &dyn std::fmt::Display) -> Fault {
    Fault::Final(StoreError::Corrupt(format!("PostgreSQL: {what} {why}")))
}

/// Why a start may fail. Never holds a URL or a password.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Options(#[from] InvalidOptions),
    #[error("failed to ask the PostgreSQL database {database}: {why}")]
    Unreachable { database: String, why: String },
    #[error("the PostgreSQL database {database} does not let us in: {why}; look at postgres.user, postgres.password_file and postgres.tls")]
    NotLetIn { database: String, why: String },
    #[error("the PostgreSQL database {database} shows a certificate that is not trusted: {why}; look at postgres.ca_file")]
    NotTrusted { database: String, why: String },
    #[error("the PostgreSQL database {database} has version {found}, and at least {wanted} is needed")]
    Version { database: String, found: u32, wanted: u32 },
    #[error("the PostgreSQL database {database} has encoding {found}: make one with UTF8")]
    Encoding { database: String, found: String },
    #[error(
        "commits to the PostgreSQL database {database} don't wait for a standby: {why}. Mend that, or, where losing the last writes \
         is acceptable, set require_synchronous to false"
    )]
    NotSynchronous { database: String, why: String },
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("the certificates to trust can't be used: {0}; look at postgres.ca_file")]
    Tls(String),
    #[error("PostgreSQL did not get ready within {0} s")]
    Slow(u64),
}

impl StartError {
    pub(crate) fn of(database: &str, fault: &Fault) -> StartError {
        let (database, why) = (database.to_owned(), fault.why());
        match fault {
            Fault::NotLetIn(_) => StartError::NotLetIn { database, why },
            Fault::NotTrusted(_) => StartError::NotTrusted { database, why },
            _ => StartError::Unreachable { database, why },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_the_moment_is_tried_again_and_what_was_asked_wrongly_is_not() {
        for passing in ["57P01", "08006", "25006", "40001", "53300", "55P03", "57014", "28P01"] {
            assert!(passes(&SqlState::from_code(passing)), "{passing}");
        }
        for wrong in ["42601", "42501", "23505", "22001"] {
            assert!(!passes(&SqlState::from_code(wrong)), "{wrong}");
        }
    }
}
