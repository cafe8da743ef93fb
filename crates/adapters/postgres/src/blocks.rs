//! Copies of blocks, in the shard of whoever blocks.

use dunlin_model::{BlockRow, Seq, UserId};
use tokio::time::Instant;
use tokio_postgres::{Row, types::Type};

use crate::{
    columns::{get, millis, ms, parsed},
    error::{Fault, corrupt},
    pool::Loan,
    router::Router,
    shard::Shard,
};

pub async fn copy(work: &Loan, block: &BlockRow) -> Result<(), Fault> {
    let sql = "INSERT INTO block_copies (blocker, blocked, seq, since, is_on) VALUES ($1, $2, $3, $4, $5)
               ON CONFLICT (blocker, blocked) DO UPDATE SET seq = excluded.seq, since = excluded.since, is_on = excluded.is_on
                 WHERE excluded.seq > block_copies.seq";
    let given = [
        (&block.blocker.as_str() as _, Type::TEXT),
        (&block.blocked.as_str() as _, Type::TEXT),
        (&i64::try_from(block.at.get()).expect("a seq is below 2^53") as _, Type::INT8),
        (&ms(block.since) as _, Type::INT8),
        (&block.on as _, Type::BOOL),
    ];
    work.query(sql, &given).await.map(drop)
}

pub async fn page(
    router: &Router,
    blocker: &UserId,
    after: Option<&UserId>,
    limit: usize,
    deadline: Instant,
) -> Result<Vec<BlockRow>, Fault> {
    // No id is empty, so all of them come after the empty text.
    let after = after.map_or("", UserId::as_str);
    let given =
        [(&blocker.as_str() as _, Type::TEXT), (&after as _, Type::TEXT), (&i64::try_from(limit).unwrap_or(i64::MAX) as _, Type::INT8)];
    let rest = "block_copies WHERE blocker = $1 AND blocked > $2 ORDER BY blocked LIMIT $3";
    let rows = router.read(Shard::of(blocker.as_str()), deadline, "blocked, seq, since, is_on", rest, &given).await?;
    let mut blocks: Vec<BlockRow> = rows.iter().map(|row| read(blocker, row)).collect::<Result<_, _>>()?;
    // The rows come through a join, which promises no order.
    blocks.sort_by(|one, other| one.blocked.cmp(&other.blocked));
    Ok(blocks)
}

fn read(blocker: &UserId, row: &Row) -> Result<BlockRow, Fault> {
    let seq: i64 = get(row, "seq")?;
    Ok(BlockRow {
        blocker: blocker.clone(),
        blocked: parsed("blocked", UserId::parse(get(row, "blocked")?))?,
        at: u64::try_from(seq).ok().and_then(Seq::from_u64).ok_or_else(|| corrupt("seq", &seq))?,
        since: millis(row, "since")?,
        on: get(row, "is_on")?,
    })
}
