//! The tables, and how a file from an earlier version becomes one of this version.

use std::path::Path;

use dunlin_ports::StoreError;
use rusqlite::{Connection, TransactionBehavior};

use crate::error::{self, Attempt};

/// Each brings a file from the version of its index to the next. Never changed once released: a change is a new entry.
const MIGRATIONS: [&str; 4] = [include_str!("v1.sql"), include_str!("v2.sql"), include_str!("v3.sql"), include_str!("v4.sql")];

/// Brings a file to this version; refuses one of a later version.
pub fn migrate(connection: &mut Connection, file: &Path) -> Result<(), StoreError> {
    let version = apply(connection).map_err(|error| error::sqlite(file, Attempt::Doubtful, &error))?;
    if version > MIGRATIONS.len() {
        return Err(StoreError::Conflict(format!(
            "{} has schema version {version}, and this dunlin knows versions up to {}: start the dunlin that wrote it, or a later one, or restore a backup \
             from before that was installed",
            file.display(),
            MIGRATIONS.len(),
        )));
    }
    Ok(())
}

/// One transaction for all, so that a crash leaves the old version or the new one. Gives the file's version.
fn apply(connection: &mut Connection) -> rusqlite::Result<usize> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let version = version as usize;
    for (next, sql) in (1u32..).zip(MIGRATIONS).skip(version) {
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "user_version", next)?;
    }
    transaction.commit()?;
    Ok(version.max(MIGRATIONS.len()))
}
