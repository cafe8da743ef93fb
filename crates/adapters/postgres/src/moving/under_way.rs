//! A move that someone makes: what it does at each step, by the session that holds the mover's lock.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::{SinkExt as _, TryStreamExt as _};
use tokio::time::Instant;
use tokio_postgres::types::Type;
use tracing::info;

use super::{
    MoveError, Shards, Step,
    table::{self, Table},
};
use crate::{
    error::{Fault, StartError, reason},
    places::{Phase, Stay},
    pool::{Loan, Pool},
    router::LOCK_CLASS,
    schema::{self, shards, told},
    shard::Shard,
};

/// However much there is to copy.
const MOVE_MAX: Duration = Duration::from_secs(4 * 60 * 60);

/// How many changes are brought over at once. When fewer are left, writes are stopped for the rest.
const CHANGES_AT_ONCE: usize = 1_000;

/// Where writes come faster than they are brought over, they have to stop some time.
const ROUNDS_MAX: usize = 10_000;

/// The locks of those who move shards come after those of writers.
const MOVER_LOCK: i32 = 2000;

/// For statements as long as a move; texts of values look alike everywhere.
const LIMITS: &str = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '10s'; \
                      SET LOCAL bytea_output = 'hex'";

/// A move under way: the session that holds the mover's lock.
pub(super) struct Move {
    shard: Shard,
    pub from: Arc<Pool>,
    to: Arc<Pool>,
    session: Loan,
}

impl Move {
    /// None if there is nothing to do.
    pub async fn begin(shards: &Shards, shard: Shard, to: &str) -> Result<Option<Move>, MoveError> {
        let to = shards.pools.iter().find(|pool| pool.name == to).cloned().ok_or_else(|| MoveError::NoDatabase(to.to_owned()))?;
        let mut found = Vec::new();
        for pool in &shards.pools {
            if let Some(stay) = stay(pool, shard).await? {
                found.push((Arc::clone(pool), stay));
            }
        }
        let holder = found.iter().find(|(_, stay)| matches!(stay.phase, Phase::Active | Phase::Frozen));
        let from = match holder {
            Some((pool, Stay { peer: Some(peer), .. })) if pool.name != to.name && *peer != to.name => {
                return Err(MoveError::OnItsWay { shard, from: pool.name.clone(), to: peer.clone() });
            }
            Some((pool, _)) if pool.name != to.name => Arc::clone(pool),
            Some((pool, Stay { peer: Some(_), .. })) => {
                let moving = Move { shard, session: locked(pool, shard).await?, from: Arc::clone(pool), to };
                moving.take_back().await?;
                moving.end().await;
                return Ok(None);
            }
            // It is there, or about to be. Something may be left to do where it was.
            _ => {
                if let Some((heir, stay)) = found.iter().find(|(_, stay)| holder.is_none() && stay.phase == Phase::Ready)
                    && heir.name != to.name
                {
                    let from = stay.peer.clone().unwrap_or_default();
                    return Err(MoveError::OnItsWay { shard, from, to: heir.name.clone() });
                }
                let has_left = |stay: &Stay| stay.phase == Phase::Moved && stay.peer.as_ref() == Some(&to.name);
                let Some((left, _)) = found.iter().find(|(_, stay)| has_left(stay)) else { return Ok(None) };
                Arc::clone(left)
            }
        };
        Ok(Some(Move { shard, session: locked(&from, shard).await?, from, to }))
    }

    /// One transition. Whatever happens within, the next one finds out where it stands.
    pub async fn step(&self) -> Result<Step, MoveError> {
        let Some(here) = stay(&self.from, self.shard).await? else { return Err(MoveError::Surprised(self.shard)) };
        let there = stay(&self.to, self.shard).await?.map(|stay| stay.phase);
        let step = match (here.phase, &here.peer, there) {
            (Phase::Active, None, Some(Phase::Active | Phase::Frozen)) => return Err(MoveError::Surprised(self.shard)),
            (Phase::Active, None, _) => Step::Follow,
            (Phase::Active, Some(_), None) => Step::Copy,
            (Phase::Active, Some(_), Some(Phase::Behind)) => Step::Freeze,
            (Phase::Frozen, _, Some(Phase::Behind)) => Step::Finish,
            (Phase::Frozen, _, Some(Phase::Ready)) => Step::Leave,
            (Phase::Moved, _, Some(Phase::Ready)) => Step::Arrive,
            (Phase::Moved, _, Some(Phase::Active)) if self.has_tables().await? => Step::Clear,
            (Phase::Moved, _, Some(Phase::Active)) => Step::Done,
            _ => return Err(MoveError::Surprised(self.shard)),
        };
        match step {
            Step::Follow => self.follow(here.version).await?,
            Step::Copy => self.copy().await?,
            Step::Freeze => self.freeze().await?,
            Step::Finish => self.finish().await?,
            Step::Leave => self.change("", "phase = 'moved'", "phase = 'frozen'").await?,
            Step::Arrive => self.arrive().await?,
            Step::Clear => self.clear().await?,
            Step::Done => {}
        }
        info!(shard = %self.shard, from = self.from.name, to = self.to.name, ?step, "a step of moving a shard was made");
        Ok(step)
    }

    /// Lets writes go on where they were, and no longer notes them. The copy, if there is one, no longer counts, and goes before the next is
    /// made.
    async fn take_back(&self) -> Result<(), MoveError> {
        let unfollow = self.unfollow().await?;
        self.change(&unfollow, "phase = 'active', peer = NULL", "phase IN ('active', 'frozen')").await
    }

    pub async fn end(self) {
        let unlock = format!("ROLLBACK; SELECT pg_advisory_unlock({LOCK_CLASS}, {})", mover_lock(self.shard));
        // If it fails, the connection closes, and the lock goes with it.
        if self.session.run(&unlock).await.is_ok() {
            self.session.give_back();
        }
    }

    async fn follow(&self, version: usize) -> Result<(), MoveError> {
        if version != schema::VERSION {
            return Err(MoveError::Version { shard: self.shard, found: version, wanted: schema::VERSION });
        }
        self.change_there(&format!(
            "DELETE FROM dunlin.shards WHERE shard = {} AND phase IN ('behind', 'ready', 'moved'); DROP SCHEMA IF EXISTS {} CASCADE",
            self.shard,
            self.shard.schema()
        ))
        .await?;
        let mut sql = self.unfollow().await?;
        for Table { name, key, .. } in self.tables().await? {
            let arguments: String = key.iter().map(|column| format!(", '{column}'")).collect();
            sql += &format!(
                "CREATE TRIGGER dunlin_follow AFTER INSERT OR UPDATE OR DELETE ON {name}
                   FOR EACH ROW EXECUTE FUNCTION dunlin.note_change('{}'{arguments});",
                self.shard
            );
        }
        self.change(&sql, &format!("peer = '{}'", self.to.name), "phase = 'active'").await
    }

    async fn unfollow(&self) -> Result<String, MoveError> {
        let mut sql = format!("DELETE FROM dunlin.changes WHERE shard = {};", self.shard);
        for table in self.tables().await? {
            sql += &format!("DROP TRIGGER IF EXISTS dunlin_follow ON {};", table.name);
        }
        Ok(sql)
    }

    /// As of one moment, all or nothing: until the end nobody there sees anything of it.
    async fn copy(&self) -> Result<(), MoveError> {
        let work = self.there(self.begin_there().await)?;
        let make = format!(
            "INSERT INTO dunlin.shards (shard, version, phase, peer) VALUES ({}, 0, 'behind', '{}'); CREATE SCHEMA {}",
            self.shard,
            self.from.name,
            self.shard.schema(),
        );
        self.there(work.run(&make).await)?;
        self.there(schema::tables(&work, self.shard, 0).await)?;
        self.here(self.session.run(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {LIMITS}")).await)?;
        for table in self.tables().await? {
            self.copy_rows(&work, &table, "").await?;
            self.compare(&work, &table, "").await?;
        }
        self.here(self.session.run("COMMIT").await)?;
        self.there(work.commit().await)
    }

    async fn freeze(&self) -> Result<(), MoveError> {
        for _ in 0..ROUNDS_MAX {
            let work = self.there(self.begin_there().await)?;
            let applied = self.bring_changes(&work, 0).await?;
            self.there(work.commit().await)?;
            self.note_applied(&applied).await?;
            if applied.len() < CHANGES_AT_ONCE {
                break;
            }
        }
        self.change("", "phase = 'frozen'", "phase = 'active'").await
    }

    /// Nothing changes here any more.
    async fn finish(&self) -> Result<(), MoveError> {
        let work = self.there(self.begin_there().await)?;
        // Not noted as applied: until the end they are not.
        let mut last = self.bring_changes(&work, 0).await?.last().copied();
        while let Some(after) = last {
            last = self.bring_changes(&work, after).await?.last().copied();
        }
        self.here(self.session.run(&format!("BEGIN; {LIMITS}")).await)?;
        for table in self.tables().await? {
            let sql = format!("SELECT DISTINCT key::text FROM dunlin.changes WHERE shard = {} AND relation = $1", self.shard);
            let rows = self.here(self.session.query(&sql, &[(&table.relation, Type::TEXT)]).await)?;
            let keys: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            for keys in keys.chunks(CHANGES_AT_ONCE) {
                self.compare(&work, &table, &table.with_keys(keys)).await?;
            }
        }
        self.here(self.session.run("COMMIT").await)?;
        let ready = format!("UPDATE dunlin.shards SET phase = 'ready' WHERE shard = {} AND phase = 'behind'", self.shard);
        self.there(work.run(&ready).await)?;
        self.there(work.commit().await)
    }

    /// Brings rows over that have changed, as they now are: a later change is noted anew. Gives the notes that are done with.
    async fn bring_changes(&self, work: &Loan, after: i64) -> Result<Vec<i64>, MoveError> {
        let sql = format!(
            "SELECT id, relation, key::text FROM dunlin.changes
             WHERE shard = {} AND NOT is_applied AND id > {after} ORDER BY id LIMIT {CHANGES_AT_ONCE}",
            self.shard
        );
        let rows = self.here(self.session.query(&sql, &[]).await)?;
        let mut changed = BTreeMap::<String, BTreeSet<String>>::new();
        for row in &rows {
            changed.entry(row.get(1)).or_default().insert(row.get(2));
        }
        for table in self.tables().await? {
            let Some(keys) = changed.remove(&table.relation) else { continue };
            let filter = table.with_keys(&keys.into_iter().collect::<Vec<_>>());
            self.there(work.run(&format!("DELETE FROM {} {filter}", table.name)).await)?;
            self.copy_rows(work, &table, &filter).await?;
        }
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn note_applied(&self, ids: &[i64]) -> Result<(), MoveError> {
        let sql = "UPDATE dunlin.changes SET is_applied = true WHERE id = ANY($1)";
        self.here(self.session.query(sql, &[(&ids, Type::INT8_ARRAY)]).await).map(drop)
    }

    async fn copy_rows(&self, work: &Loan, table: &Table, filter: &str) -> Result<(), MoveError> {
        let of = |pool: &Pool, error| StartError::Unreachable { database: pool.name.clone(), why: reason(&error) };
        let Table { name, columns, .. } = table;
        let out = format!("COPY (SELECT {columns} FROM {name} {filter}) TO STDOUT (FORMAT binary)");
        let into = format!("COPY {name} ({columns}) FROM STDIN (FORMAT binary)");
        let mut out = pin!(self.session.client().copy_out(&out).await.map_err(|error| of(&self.from, error))?);
        let mut into = pin!(work.client().copy_in(&into).await.map_err(|error| of(&self.to, error))?);
        while let Some(bytes) = out.try_next().await.map_err(|error| of(&self.from, error))? {
            into.send(bytes).await.map_err(|error| of(&self.to, error))?;
        }
        into.finish().await.map_err(|error| of(&self.to, error))?;
        Ok(())
    }

    async fn compare(&self, work: &Loan, table: &Table, filter: &str) -> Result<(), MoveError> {
        let here = self.here(table.sum(&self.session, filter).await)?;
        let there = self.there(table.sum(work, filter).await)?;
        if here != there {
            return Err(MoveError::Differs { table: table.name.clone(), here, there });
        }
        Ok(())
    }

    async fn arrive(&self) -> Result<(), MoveError> {
        let sql = format!("UPDATE dunlin.shards SET phase = 'active', peer = NULL WHERE shard = {} AND phase = 'ready'", self.shard);
        self.change_there(&sql).await
    }

    async fn clear(&self) -> Result<(), MoveError> {
        let (shard, schema) = (self.shard, self.shard.schema());
        let sql = format!("BEGIN; {LIMITS}; DELETE FROM dunlin.changes WHERE shard = {shard}; DROP SCHEMA {schema} CASCADE; COMMIT");
        self.here(self.session.run(&sql).await).map(drop)
    }

    async fn has_tables(&self) -> Result<bool, MoveError> {
        let sql = format!("SELECT 1 FROM information_schema.schemata WHERE schema_name = '{}'", self.shard.schema());
        Ok(!self.here(self.session.run(&sql).await)?.is_empty())
    }

    /// Does something where the shard leaves and changes its row, if that is as expected. No write is under way meanwhile.
    async fn change(&self, first: &str, set: &str, expected: &str) -> Result<(), MoveError> {
        let lock = format!("BEGIN; {LIMITS}; SELECT pg_advisory_xact_lock({LOCK_CLASS}, {})", schema::lock_of(self.shard));
        self.here(self.session.run(&lock).await)?;
        let update = format!("UPDATE dunlin.shards SET {set} WHERE shard = {} AND {expected} RETURNING shard", self.shard);
        let changed = self.here(self.session.run(&update).await)?;
        if changed.is_empty() {
            self.here(self.session.run("ROLLBACK").await)?;
            return Err(MoveError::Surprised(self.shard));
        }
        self.here(self.session.run(first).await)?;
        self.here(self.session.run("COMMIT").await).map(drop)
    }

    async fn change_there(&self, sql: &str) -> Result<(), MoveError> {
        let done = async {
            let work = self.begin_there().await?;
            work.run(sql).await?;
            work.commit().await
        };
        self.there(done.await)
    }

    async fn begin_there(&self) -> Result<Loan, Fault> {
        let work = self.to.get(far_off()).await?;
        let lock = format!("BEGIN; {LIMITS}; SELECT pg_advisory_xact_lock({LOCK_CLASS}, {})", schema::lock_of(self.shard));
        work.run(&lock).await?;
        Ok(work)
    }

    async fn tables(&self) -> Result<Vec<Table>, MoveError> {
        self.here(table::all(&self.session, self.shard).await)
    }

    fn here<T>(&self, result: Result<T, Fault>) -> Result<T, MoveError> {
        Ok(told(&self.from, result)?)
    }

    fn there<T>(&self, result: Result<T, Fault>) -> Result<T, MoveError> {
        Ok(told(&self.to, result)?)
    }
}

async fn stay(pool: &Arc<Pool>, shard: Shard) -> Result<Option<Stay>, StartError> {
    Ok(told(pool, shards(pool).await)?.into_iter().find(|stay| stay.shard == shard))
}

async fn locked(pool: &Arc<Pool>, shard: Shard) -> Result<Loan, MoveError> {
    let session = told(pool, pool.get(far_off()).await)?;
    let lock = format!("SELECT pg_try_advisory_lock({LOCK_CLASS}, {})", mover_lock(shard));
    let rows = told(pool, session.run(&lock).await)?;
    if rows.first().and_then(|row| row.get(0)) == Some("t") { Ok(session) } else { Err(MoveError::Busy(shard)) }
}

fn mover_lock(shard: Shard) -> i32 {
    MOVER_LOCK + schema::lock_of(shard)
}

pub(super) fn far_off() -> Instant {
    Instant::now() + MOVE_MAX
}
