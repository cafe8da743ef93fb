//! What running servers must hear of.

use dunlin_model::{Announcement, Millis, ServerKeyId, UserId};
use dunlin_ports::{ANNOUNCED_LATE_MS, Heard};
use rusqlite::{Connection, Row, params};

use super::columns::{millis, ms, parsed};

const NOW: &str = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// Within the transaction of the change.
pub fn tokens_revoked(connection: &Connection, user: &UserId, issued_before: Millis) -> rusqlite::Result<()> {
    put(connection, "tokens_revoked", user.as_str(), Some(issued_before))
}

/// Within the transaction of the change.
pub fn key_revoked(connection: &Connection, id: &ServerKeyId) -> rusqlite::Result<()> {
    put(connection, "key_revoked", id.as_str(), None)
}

fn put(connection: &Connection, kind: &str, subject: &str, value: Option<Millis>) -> rusqlite::Result<()> {
    let sql = format!("INSERT INTO outbox (at, kind, subject, value) VALUES ({NOW}, ?1, ?2, ?3)");
    connection.execute(&sql, params![kind, subject, value.map(ms)]).map(drop)
}

pub fn since(connection: &Connection, heard: Option<&Heard>) -> rusqlite::Result<(Vec<Announcement>, Heard)> {
    let now = connection.query_row(&format!("SELECT {NOW}"), [], |row| millis(row, 0))?;
    let Some(from) = heard.and_then(|heard| heard.0.first()) else { return Ok((Vec::new(), Heard(vec![now]))) };
    let mut select = connection.prepare_cached("SELECT kind, subject, value FROM outbox WHERE at >= ?1 ORDER BY id")?;
    let rows = select.query_map([ms(from.minus(ANNOUNCED_LATE_MS))], announcement)?;
    Ok((rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect(), Heard(vec![now])))
}

pub fn forget(connection: &Connection, older_than_ms: u64) -> rusqlite::Result<()> {
    let older_than = i64::try_from(older_than_ms).unwrap_or(i64::MAX);
    connection.execute(&format!("DELETE FROM outbox WHERE at < {NOW} - ?1"), [older_than]).map(drop)
}

/// None for what a later version announces.
fn announcement(row: &Row<'_>) -> rusqlite::Result<Option<Announcement>> {
    let (kind, subject): (String, String) = (row.get(0)?, row.get(1)?);
    Ok(match kind.as_str() {
        "tokens_revoked" => Some(Announcement::TokensRevoked { user: parsed(1, UserId::parse(&subject))?, issued_before: millis(row, 2)? }),
        "key_revoked" => Some(Announcement::KeyRevoked(parsed(1, ServerKeyId::parse(&subject))?)),
        _ => None,
    })
}
