//! Tasks, and who does them.

use dunlin_model::{Lease, Millis, NodeId, TaskName};
use rusqlite::{Connection, TransactionBehavior, params, types::Type};

use super::columns::{millis, ms};

pub fn take(connection: &mut Connection, task: &TaskName, lease: Lease, now: Millis) -> rusqlite::Result<Lease> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(
        "INSERT INTO tasks (name, holder, until) VALUES (?1, ?2, ?3)
         ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until WHERE holder = excluded.holder OR until <= ?4",
        params![task.as_str(), lease.holder.to_string(), ms(lease.until), ms(now)],
    )?;
    let stands = transaction.query_row("SELECT holder, until FROM tasks WHERE name = ?1", [task.as_str()], |row| {
        let holder = u64::from_str_radix(&row.get::<_, String>(0)?, 16);
        let holder = holder.map_err(|invalid| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(invalid)))?;
        Ok(Lease { holder: NodeId(holder), until: millis(row, 1)? })
    })?;
    transaction.commit()?;
    Ok(stands)
}

pub fn release(connection: &Connection, task: &TaskName, holder: NodeId) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM tasks WHERE name = ?1 AND holder = ?2", params![task.as_str(), holder.to_string()])?;
    Ok(())
}
