//! The tables, and how older ones become these. Only forward: what this version does not know is refused.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tracing::info;

use crate::{
    error::{Fault, StartError},
    options::Options,
    places::{Map, Phase, Stay, stays},
    pool::{Loan, Pool},
    router::{LOCK_CLASS, named},
    server,
    shard::{Shard, ShardSet},
};

/// What one version adds to the one before. Never changed once released: a change is a new entry.
const DATABASE: &[&str] = &[include_str!("sql/database_v1.sql"), include_str!("sql/database_v2.sql")];
const LOOKUP: &[&str] = &[include_str!("sql/lookup_v1.sql")];
const SHARD: &[&str] = &[include_str!("sql/shard_v1.sql"), include_str!("sql/shard_v2.sql")];

/// Of the tables in a shard.
pub const VERSION: usize = SHARD.len();

/// The tables of a database that are not in a shard.
struct Frame {
    schema: &'static str,
    migrations: &'static [&'static str],
    /// What the first of them leaves to be noted.
    first_row: &'static str,
    /// The lock of whoever changes them; shards have their numbers.
    lock: i32,
}

const OF_DATABASE: Frame = Frame { schema: "dunlin", migrations: DATABASE, first_row: "(version, founded) VALUES (1, false)", lock: 1000 };
const OF_LOOKUP: Frame = Frame { schema: "dunlin_lookup", migrations: LOOKUP, first_row: "(version) VALUES (1)", lock: 1001 };

/// How long one migration of one shard may take, and how long it may stand in the way of writes to wait for others.
const MIGRATION_LIMITS: &str = "SET LOCAL statement_timeout = '10min'; SET LOCAL lock_timeout = '10s'";

#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("the PostgreSQL database {0} has no tables of dunlin, or not all of them: run `dunlin schema apply`")]
    Missing(String),
    #[error(
        "{what} of the PostgreSQL database {database} has schema version {found}, this program needs {wanted}: run `dunlin schema apply`"
    )]
    Older { database: String, what: String, found: usize, wanted: usize },
    #[error(
        "{what} of the PostgreSQL database {database} has schema version {found}, this program knows up to {wanted}: use the program that \
         made it, or a newer one"
    )]
    Newer { database: String, what: String, found: usize, wanted: usize },
    #[error("these shards are in none of the PostgreSQL databases: {0}. Is one missing in the configuration?")]
    Nowhere(ShardSet),
    #[error(
        "shard {shard} is in two databases, {one} and {other}. If both names stand for one database, name it once; otherwise one of them \
         has an old copy. Don't start or delete anything before you know which"
    )]
    Doubled { shard: Shard, one: String, other: String },
}

/// Everything that `apply` would say to empty databases, about one shard.
pub fn statements() -> Vec<String> {
    let database = DATABASE.iter().chain(LOOKUP).map(|sql| (*sql).to_owned());
    let shard = SHARD.iter().map(|sql| format!("-- in a schema for each shard, such as {}\n{sql}", Shard::of("alice").schema()));
    database.chain(shard).collect()
}

/// Makes what is missing and brings the rest to this version. Repeatable, and so many may do it at once.
pub async fn apply(options: &Options) -> Result<(), StartError> {
    server::within_start_max(async {
        let (pools, lookup) = reach(options).await?;
        told(&lookup, bring_forward(&lookup, &OF_LOOKUP).await)?;
        check_lookup(&lookup).await?;
        for pool in &pools {
            told(pool, bring_forward(pool, &OF_DATABASE).await)?;
        }
        found(options, &pools).await?;
        for pool in &pools {
            told(pool, bring_shards_forward(pool).await)?;
        }
        check(&pools).await.map(drop)
    })
    .await
}

/// Whether every database lets us in and is such as `apply` can use.
pub async fn may_apply(options: &Options) -> Result<(), StartError> {
    server::within_start_max(reach(options)).await.map(drop)
}

async fn reach(options: &Options) -> Result<(Vec<Arc<Pool>>, Arc<Pool>), StartError> {
    let (pools, lookup) = server::pools(options)?;
    for pool in std::iter::once(&lookup).chain(&pools) {
        server::check(pool, options.require_synchronous).await?;
    }
    Ok((pools, lookup))
}

/// Makes the shards, where there have never been any.
async fn found(options: &Options, pools: &[Arc<Pool>]) -> Result<(), StartError> {
    let mut is_founded = false;
    for pool in pools {
        is_founded |= told(pool, founded(pool).await)?;
    }
    for (pool, database) in pools.iter().zip(&options.databases) {
        if !is_founded {
            told(pool, make_shards(pool, database.shards).await)?;
        }
    }
    // Only when all of them are there. A database that joins later is told too.
    for pool in pools {
        told(pool, run(pool, "UPDATE dunlin.database SET founded = true WHERE NOT founded").await)?;
    }
    Ok(())
}

/// Where shards are, if everything is as this program needs it. Databases are asked one after the other, so one that is moved meanwhile may seem
/// to be in two, or in none: what does not fit is looked at again.
pub(crate) async fn check(pools: &[Arc<Pool>]) -> Result<(Map, Vec<Vec<Stay>>), StartError> {
    const LOOKS_MAX: usize = 5;
    const LOOK_AGAIN: Duration = Duration::from_millis(200);
    for _ in 1..LOOKS_MAX {
        match look(pools).await {
            Err(StartError::Schema(SchemaError::Nowhere(_) | SchemaError::Doubled { .. })) => tokio::time::sleep(LOOK_AGAIN).await,
            looked => return looked,
        }
    }
    look(pools).await
}

async fn look(pools: &[Arc<Pool>]) -> Result<(Map, Vec<Vec<Stay>>), StartError> {
    let mut all = Vec::new();
    for pool in pools {
        check_frame(pool, &OF_DATABASE).await?;
        if !told(pool, founded(pool).await)? {
            return Err(SchemaError::Missing(pool.name.clone()).into());
        }
        let stays = told(pool, shards(pool).await)?;
        for stay in stays.iter().filter(|stay| stay.phase.can_be_read()) {
            compare(pool, format!("shard {}", stay.shard), stay.version, SHARD.len())?;
        }
        all.push(stays);
    }
    let map = Map::of(&named(pools, &all))?;
    Ok((map, all))
}

pub(crate) async fn check_lookup(pool: &Arc<Pool>) -> Result<(), StartError> {
    check_frame(pool, &OF_LOOKUP).await
}

async fn check_frame(pool: &Arc<Pool>, frame: &Frame) -> Result<(), StartError> {
    let found = told(pool, frame_version(pool, frame).await)?.ok_or_else(|| SchemaError::Missing(pool.name.clone()))?;
    Ok(compare(pool, format!("schema {}", frame.schema), found, frame.migrations.len())?)
}

fn compare(pool: &Pool, what: String, found: usize, wanted: usize) -> Result<(), SchemaError> {
    let database = pool.name.clone();
    match found.cmp(&wanted) {
        std::cmp::Ordering::Less => Err(SchemaError::Older { database, what, found, wanted }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(SchemaError::Newer { database, what, found, wanted }),
    }
}

/// One transaction for all, so that a crash leaves the old version or the new one.
async fn bring_forward(pool: &Arc<Pool>, frame: &Frame) -> Result<(), Fault> {
    let Frame { schema, migrations, first_row, lock } = frame;
    let loan = begin(pool, *lock).await?;
    let found = version_in(&loan, frame).await?.unwrap_or(0);
    for (number, sql) in (1..).zip(*migrations).skip(found) {
        if number == 1 {
            loan.run(&format!("CREATE SCHEMA {schema}")).await?;
        }
        loan.run(sql).await?;
        let note = match number {
            1 => format!("INSERT INTO {schema}.database {first_row}"),
            _ => format!("UPDATE {schema}.database SET version = {number}"),
        };
        loan.run(&note).await?;
        info!(database = pool.name, version = number, "the tables of a database were brought forward");
    }
    loan.commit().await
}

async fn make_shards(pool: &Arc<Pool>, wanted: ShardSet) -> Result<(), Fault> {
    let there: ShardSet = shards(pool).await?.into_iter().map(|stay| stay.shard).collect();
    for shard in wanted.shards().filter(|&shard| !there.contains(shard)) {
        let loan = begin(pool, lock_of(shard)).await?;
        // Someone else may have been first.
        let made = format!("INSERT INTO dunlin.shards (shard, version, phase) VALUES ({shard}, 0, 'active') ON CONFLICT DO NOTHING");
        loan.run(&format!("CREATE SCHEMA IF NOT EXISTS {}; {made}", shard.schema())).await?;
        loan.commit().await?;
    }
    Ok(())
}

async fn bring_shards_forward(pool: &Arc<Pool>) -> Result<(), Fault> {
    for stay in shards(pool).await? {
        if stay.version < SHARD.len() && matches!(stay.phase, Phase::Active) {
            bring_shard_forward(pool, stay.shard).await?;
        }
    }
    Ok(())
}

/// One transaction, so that a crash leaves the old version or the new one; no write is under way meanwhile.
async fn bring_shard_forward(pool: &Arc<Pool>, shard: Shard) -> Result<(), Fault> {
    let loan = begin(pool, lock_of(shard)).await?;
    let row = loan.run(&format!("SELECT version FROM dunlin.shards WHERE shard = {shard} AND phase = 'active' AND peer IS NULL")).await?;
    let Some(found) = row.first().and_then(|row| row.get(0)?.parse().ok()) else { return Ok(()) };
    tables(&loan, shard, found).await?;
    loan.commit().await
}

/// Brings a shard's tables from a version to this one, within a transaction.
pub(crate) async fn tables(loan: &Loan, shard: Shard, found: usize) -> Result<(), Fault> {
    loan.run(&format!("SET LOCAL search_path TO {}", shard.schema())).await?;
    for sql in SHARD.iter().skip(found) {
        loan.run(sql).await?;
    }
    loan.run(&format!("UPDATE dunlin.shards SET version = {} WHERE shard = {shard}", SHARD.len())).await.map(drop)
}

/// A transaction that alone holds a lock of ours.
pub(crate) async fn begin(pool: &Arc<Pool>, lock: i32) -> Result<Loan, Fault> {
    let loan = pool.get(far_off()).await?;
    loan.run(&format!("BEGIN; {MIGRATION_LIMITS}; SELECT pg_advisory_xact_lock({LOCK_CLASS}, {lock})")).await?;
    Ok(loan)
}

pub(crate) fn lock_of(shard: Shard) -> i32 {
    i32::from(shard.number())
}

async fn frame_version(pool: &Arc<Pool>, frame: &Frame) -> Result<Option<usize>, Fault> {
    let loan = pool.get(far_off()).await?;
    let version = version_in(&loan, frame).await?;
    loan.give_back();
    Ok(version)
}

/// None if there is nothing of ours.
async fn version_in(loan: &Loan, frame: &Frame) -> Result<Option<usize>, Fault> {
    let table = format!("{}.database", frame.schema);
    let row = loan.run(&format!("SELECT to_regclass('{table}')")).await?;
    if row.first().and_then(|row| row.get(0)).is_none() {
        return Ok(None);
    }
    let row = loan.run(&format!("SELECT version FROM {table}")).await?;
    Ok(row.first().and_then(|row| row.get(0)?.parse().ok()))
}

async fn founded(pool: &Arc<Pool>) -> Result<bool, Fault> {
    Ok(run(pool, "SELECT 1 FROM dunlin.database WHERE founded").await? > 0)
}

pub(crate) async fn shards(pool: &Arc<Pool>) -> Result<Vec<Stay>, Fault> {
    let loan = pool.get(far_off()).await?;
    let stays = stays(&loan).await?;
    loan.give_back();
    Ok(stays)
}

/// How many rows a statement gave.
async fn run(pool: &Arc<Pool>, sql: &str) -> Result<usize, Fault> {
    let loan = pool.get(far_off()).await?;
    let rows = loan.run(sql).await?.len();
    loan.give_back();
    Ok(rows)
}

/// The start as a whole has a limit.
pub(crate) fn far_off() -> Instant {
    Instant::now() + server::START_MAX
}

pub(crate) fn told<T>(pool: &Pool, result: Result<T, Fault>) -> Result<T, StartError> {
    result.map_err(|fault| StartError::of(&pool.name, &fault))
}
