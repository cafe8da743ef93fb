//! Copies of blocks.

use dunlin_model::{BlockRow, Partition, Seq, UserId};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::columns::{millis, ms, parsed};

pub fn copy(connection: &Connection, block: &BlockRow) -> rusqlite::Result<()> {
    let seq = i64::try_from(block.at.get()).expect("a seq is below 2^53");
    connection.execute(
        "INSERT INTO block_copies (blocker, blocked, seq, since, is_on) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (blocker, blocked) DO UPDATE SET seq = excluded.seq, since = excluded.since, is_on = excluded.is_on
           WHERE excluded.seq > block_copies.seq",
        params![block.blocker.as_str(), block.blocked.as_str(), seq, ms(block.since), block.on],
    )?;
    Ok(())
}

pub fn copied_up_to(connection: &Connection, partition: Partition) -> rusqlite::Result<Option<Seq>> {
    connection.query_row("SELECT seq FROM copied WHERE partition = ?1", [partition.0], |row| seq(row, 0)).optional()
}

pub fn set_copied_up_to(connection: &Connection, partition: Partition, seq: Seq) -> rusqlite::Result<()> {
    let seq = i64::try_from(seq.get()).expect("a seq is below 2^53");
    let sql = "INSERT INTO copied (partition, seq) VALUES (?1, ?2) ON CONFLICT (partition) DO UPDATE SET seq = max(seq, excluded.seq)";
    connection.execute(sql, params![partition.0, seq]).map(drop)
}

fn seq(row: &Row<'_>, column: usize) -> rusqlite::Result<Seq> {
    let seq: i64 = row.get(column)?;
    u64::try_from(seq).ok().and_then(Seq::from_u64).ok_or(rusqlite::Error::IntegralValueOutOfRange(column, seq))
}

pub fn page(connection: &Connection, blocker: &UserId, after: Option<&UserId>, limit: usize) -> rusqlite::Result<Vec<BlockRow>> {
    let mut select = connection.prepare_cached(
        "SELECT blocked, seq, since, is_on FROM block_copies WHERE blocker = ?1 AND blocked > ?2 ORDER BY blocked LIMIT ?3",
    )?;
    // No id is empty, so all of them come after the empty text.
    let after = after.map_or("", UserId::as_str);
    let read = |row: &Row<'_>| {
        let at = seq(row, 1)?;
        Ok(BlockRow {
            blocker: blocker.clone(),
            blocked: parsed(0, UserId::parse(&row.get::<_, String>(0)?))?,
            at,
            since: millis(row, 2)?,
            on: row.get(3)?,
        })
    };
    select.query_map(params![blocker.as_str(), after, i64::try_from(limit).unwrap_or(i64::MAX)], read)?.collect()
}
