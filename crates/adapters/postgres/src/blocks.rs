//! Copies of blocks, in the shard of whoever blocks, and how far they have come.

use dunlin_model::{BlockRow, Partition, Seq, UserId};
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

/// Where it is noted up to where a partition was copied.
pub fn shard_of(partition: Partition) -> Shard {
    Shard::of(&format!("partition-{}", partition.0))
}

pub async fn copied_up_to(router: &Router, partition: Partition, deadline: Instant) -> Result<Option<Seq>, Fault> {
    let given = [(&i64::from(partition.0) as _, Type::INT8)];
    let rows = router.read(shard_of(partition), deadline, "seq", "copied WHERE partition = $1", &given).await?;
    rows.first().map(seq).transpose()
}

pub async fn set_copied_up_to(work: Loan, partition: Partition, seq: Seq) -> Result<(), Fault> {
    let sql = "INSERT INTO copied (partition, seq) VALUES ($1, $2)
               ON CONFLICT (partition) DO UPDATE SET seq = greatest(copied.seq, excluded.seq)";
    let seq = i64::try_from(seq.get()).expect("a seq is below 2^53");
    work.commit_with(sql, &[(&i64::from(partition.0), Type::INT8), (&seq, Type::INT8)]).await.map(drop)
}

fn seq(row: &Row) -> Result<Seq, Fault> {
    let seq: i64 = get(row, "seq")?;
    u64::try_from(seq).ok().and_then(Seq::from_u64).ok_or_else(|| corrupt("seq", &seq))
}

fn read(blocker: &UserId, row: &Row) -> Result<BlockRow, Fault> {
    Ok(BlockRow {
        blocker: blocker.clone(),
        blocked: parsed("blocked", UserId::parse(get(row, "blocked")?))?,
        at: seq(row)?,
        since: millis(row, "since")?,
        on: get(row, "is_on")?,
    })
}
