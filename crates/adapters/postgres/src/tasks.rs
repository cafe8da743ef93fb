//! Tasks, and who does them.

use dunlin_model::{Lease, Millis, NodeId, TaskName};
use tokio_postgres::types::Type;

use crate::{
    columns::{get, millis, ms, parsed},
    error::Fault,
    pool::Loan,
};

pub async fn take(work: &Loan, task: &TaskName, lease: Lease, now: Millis) -> Result<Lease, Fault> {
    let sql = "INSERT INTO tasks (name, holder, until) VALUES ($1, $2, $3)
               ON CONFLICT (name) DO UPDATE SET holder = $2, until = $3 WHERE tasks.holder = $2 OR tasks.until <= $4";
    let given = [
        (&task.as_str() as _, Type::TEXT),
        (&lease.holder.to_string() as _, Type::TEXT),
        (&ms(lease.until) as _, Type::INT8),
        (&ms(now) as _, Type::INT8),
    ];
    work.query(sql, &given).await?;
    let rows = work.query("SELECT holder, until FROM tasks WHERE name = $1", &[(&task.as_str(), Type::TEXT)]).await?;
    // Given back by its holder in between.
    let Some(row) = rows.first() else { return Err(Fault::Passing(format!("task {task} has just been released"))) };
    let holder = parsed("holder", u64::from_str_radix(get(row, "holder")?, 16))?;
    Ok(Lease { holder: NodeId(holder), until: millis(row, "until")? })
}

pub async fn release(work: &Loan, task: &TaskName, holder: NodeId) -> Result<(), Fault> {
    let given = [(&task.as_str() as _, Type::TEXT), (&holder.to_string() as _, Type::TEXT)];
    work.query("DELETE FROM tasks WHERE name = $1 AND holder = $2", &given).await.map(drop)
}
