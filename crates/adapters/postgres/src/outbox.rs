//! What all nodes must hear of. In each database beside its shards: what was announced does not move with them.

use std::sync::Arc;

use dunlin_model::{Announcement, Millis, ServerKeyId, UserId};
use dunlin_ports::ANNOUNCED_LATE_MS;
use tokio::time::Instant;
use tokio_postgres::{Row, types::Type};

use crate::{
    columns::{get, millis, ms, parsed},
    error::Fault,
    pool::{Loan, Pool},
};

const PUT: &str = "INSERT INTO dunlin.outbox (kind, subject, value) VALUES ($1, $2, $3)";
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Ends the transaction of the change.
pub async fn commit_tokens_revoked(work: Loan, user: &UserId, issued_before: Millis) -> Result<(), Fault> {
    commit(work, "tokens_revoked", user.as_str(), Some(ms(issued_before))).await
}

/// Ends the transaction of the change.
pub async fn commit_key_revoked(work: Loan, id: &ServerKeyId) -> Result<(), Fault> {
    commit(work, "key_revoked", id.as_str(), None).await
}

async fn commit(work: Loan, kind: &str, subject: &str, value: Option<i64>) -> Result<(), Fault> {
    work.commit_with(PUT, &[(&kind, Type::TEXT), (&subject, Type::TEXT), (&value, Type::INT8)]).await.map(drop)
}

/// Of one database; and its time.
pub async fn since(pool: &Arc<Pool>, heard: Option<Millis>, deadline: Instant) -> Result<(Vec<Announcement>, Millis), Fault> {
    let loan = pool.get(deadline).await?;
    // Nothing is as late as null.
    let from = heard.map(|heard| ms(heard.minus(ANNOUNCED_LATE_MS)));
    let sql = format!(
        "SELECT now.at AS now, found.kind, found.subject, found.value FROM (SELECT {NOW} AS at) now
         LEFT JOIN (SELECT * FROM dunlin.outbox WHERE at >= $1) found ON true ORDER BY found.id"
    );
    let rows = loan.query_prepared(&sql, &[(&from, Type::INT8)]).await?;
    loan.give_back();
    let now = rows.first().map_or(Ok(Millis::ZERO), |row| millis(row, "now"))?;
    let announced = rows.iter().filter_map(|row| announcement(row).transpose()).collect::<Result<_, _>>()?;
    Ok((announced, now))
}

pub async fn forget(pool: &Arc<Pool>, older_than_ms: u64, deadline: Instant) -> Result<(), Fault> {
    let loan = pool.get(deadline).await?;
    let older_than = i64::try_from(older_than_ms).unwrap_or(i64::MAX);
    loan.query(&format!("DELETE FROM dunlin.outbox WHERE at < {NOW} - $1"), &[(&older_than, Type::INT8)]).await?;
    loan.give_back();
    Ok(())
}

/// None for what a later version announces, and where nothing was.
fn announcement(row: &Row) -> Result<Option<Announcement>, Fault> {
    let Some(kind) = get::<Option<&str>>(row, "kind")? else { return Ok(None) };
    let subject: &str = get(row, "subject")?;
    Ok(match kind {
        "tokens_revoked" => {
            Some(Announcement::TokensRevoked { user: parsed("subject", UserId::parse(subject))?, issued_before: millis(row, "value")? })
        }
        "key_revoked" => Some(Announcement::KeyRevoked(parsed("subject", ServerKeyId::parse(subject))?)),
        _ => None,
    })
}
