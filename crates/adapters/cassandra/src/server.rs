//! What Cassandra says about itself: its version, and its time.

use dunlin_model::Millis;
use dunlin_ports::StoreError;
use scylla::{client::session::Session, errors::ExecutionError, value::CqlTimestamp};

use crate::{
    ConnectError, Messages,
    error::{OrCorrupt as _, of_read},
    row::millis,
};

/// Unified compaction, which the tables ask for, came with it.
const MAJOR_MIN: u32 = 5;

/// Whether its version is one that the schema and the statements were written for.
pub(crate) async fn check(session: &Session, datacenter: &str) -> Result<(), ConnectError> {
    let refused = |error: &dyn std::fmt::Display| ConnectError::Statement(error.to_string());
    let rows = match session.query_unpaged("SELECT release_version FROM system.local", ()).await {
        // Nobody to ask there.
        Err(ExecutionError::EmptyPlan) => return Err(ConnectError::Datacenter(datacenter.to_owned())),
        rows => rows.map_err(|error| refused(&error))?,
    };
    let rows = rows.into_rows_result().map_err(|error| refused(&error))?;
    let (found,) = rows.single_row::<(String,)>().map_err(|error| refused(&error))?;
    if is_new_enough(&found) { Ok(()) } else { Err(ConnectError::TooOld { found, needed: MAJOR_MIN }) }
}

fn is_new_enough(version: &str) -> bool {
    version.split('.').next().and_then(|major| major.parse().ok()).is_some_and(|major: u32| major >= MAJOR_MIN)
}

impl Messages {
    /// What the clock of the node that is asked says.
    pub async fn now(&self) -> Result<Millis, StoreError> {
        let rows = self.session.query_unpaged("SELECT to_timestamp(now()) FROM system.local", ()).await.map_err(of_read)?;
        let (now,) = rows.into_rows_result().or_corrupt()?.single_row::<(CqlTimestamp,)>().or_corrupt()?;
        Ok(millis(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_from_5_on_are_right() {
        assert!(is_new_enough("5.0.9") && is_new_enough("5.1-beta1") && is_new_enough("12.0"));
        assert!(!is_new_enough("4.1.7") && !is_new_enough("3.11.19") && !is_new_enough("none"));
        let why = ConnectError::TooOld { found: "4.1.7".to_owned(), needed: MAJOR_MIN }.to_string();
        assert!(why.contains("Cassandra has version 4.1.7, and at least 5.0 is needed"), "{why}");
    }
}
