//! Moving a shard to another database while nodes go on: reads are served throughout, writes wait while the last changes are copied.
//!
//! What is done next follows from the phases that both databases tell, so a move that broke off anywhere goes on when it is asked for again:
//!
//! | from | to | next |
//! |---|---|---|
//! | active | anything old | **follow**: drop what is old; from now on whatever changes is noted (and the row names the peer) |
//! | active, followed | – | **copy** all tables as of one moment, compare counts and checksums, and say behind |
//! | active, followed | behind | bring over what changed until little is left; **freeze**: no write is under way any more, and none begins |
//! | frozen | behind | **finish**: bring over the rest, compare all that changed, and say ready |
//! | frozen | ready | **leave**: say moved; from now on reads go to the copy |
//! | moved | ready | **arrive**: say active; writes go on |
//! | moved | active | **clear**: drop the old tables |
//!
//! A row that did not change since the copy's moment was compared then, any other at the end. One at a time for each shard: whoever moves it
//! holds a lock in the session, in the database that it leaves, by which all that is done there is done.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::{SinkExt as _, TryStreamExt as _};
use tokio::time::Instant;
use tokio_postgres::types::Type;
use tracing::{info, warn};

use crate::{
    error::{Fault, StartError, reason},
    options::Options,
    places::{Phase, Stay},
    pool::{Loan, Pool},
    router::LOCK_CLASS,
    schema::{self, shards, told},
    server,
    shard::{Shard, ShardSet},
};

/// However much there is to copy.
const MOVE_MAX: Duration = Duration::from_secs(4 * 60 * 60);

const TAKE_BACK_TRIES_MAX: usize = 20;
const TAKE_BACK_PAUSE: Duration = Duration::from_millis(250);

/// How many changes are brought over at once. When fewer are left, writes are stopped for the rest.
const CHANGES_AT_ONCE: usize = 1_000;

/// Where writes come faster than they are brought over, they have to stop some time.
const ROUNDS_MAX: usize = 10_000;

/// The locks of those who move shards come after those of writers.
const MOVER_LOCK: i32 = 2000;

/// For statements as long as a move; texts of values look alike everywhere.
const LIMITS: &str = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '10s'; \
                      SET LOCAL bytea_output = 'hex'";

#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error("there is no PostgreSQL database {0} in the configuration")]
    NoDatabase(String),
    #[error("shard {0} is being moved by someone else at this moment")]
    Busy(Shard),
    #[error(
        "shard {shard} is on its way from {from} to {to}: let it go there with --to {to}, or, unless it has left, take it back with --to {from}"
    )]
    OnItsWay { shard: Shard, from: String, to: String },
    #[error("table {table} of the copy differs from the original ({there} instead of {here})")]
    Differs { table: String, here: String, there: String },
    #[error("shard {shard} has schema version {found}, this program needs {wanted}: run `dunlin schema apply`")]
    Version { shard: Shard, found: usize, wanted: usize },
    #[error("shard {0} changed its phase in an unforeseen way: look at `dunlin shards list`, and try again")]
    Surprised(Shard),
    #[error(transparent)]
    Failed(#[from] StartError),
}

/// What a move did, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Follow,
    Copy,
    Freeze,
    Finish,
    Leave,
    Arrive,
    Clear,
    /// There is nothing left to do.
    Done,
}

/// What an operator sees of shards.
pub struct Shards {
    pools: Vec<Arc<Pool>>,
}

/// A shard in one of the databases.
pub struct Placed {
    pub database: String,
    pub shard: Shard,
    pub phase: &'static str,
    pub peer: Option<String>,
}

impl Shards {
    pub async fn open(options: &Options) -> Result<Shards, StartError> {
        server::within_start_max(async {
            let (pools, _) = server::pools(options)?;
            for pool in &pools {
                server::check(pool, options.require_synchronous).await?;
            }
            schema::check(&pools).await?;
            Ok(Shards { pools })
        })
        .await
    }

    /// The shards of each database that nothing is the matter with, and apart from them those that move or have moved.
    pub async fn list(&self) -> Result<(Vec<(String, ShardSet)>, Vec<Placed>), StartError> {
        let (mut resting, mut others) = (Vec::new(), Vec::new());
        for pool in &self.pools {
            let stays = told(pool, shards(pool).await)?;
            let rests = |stay: &Stay| stay.phase == Phase::Active && stay.peer.is_none();
            let (active, moving): (Vec<Stay>, Vec<Stay>) = stays.into_iter().partition(rests);
            resting.push((pool.name.clone(), active.iter().map(|stay| stay.shard).collect()));
            others.extend(moving.into_iter().map(|stay| Placed {
                database: pool.name.clone(),
                shard: stay.shard,
                phase: stay.phase.as_str(),
                peer: stay.peer,
            }));
        }
        Ok((resting, others))
    }

    /// Moves a shard, or goes on with it. If it can't be copied, it stays where it was. To where it comes from, it is taken back.
    pub async fn move_to(&self, shard: Shard, to: &str, mut tell: impl FnMut(Step)) -> Result<(), MoveError> {
        let Some(moving) = Move::begin(self, shard, to).await? else { return Ok(()) };
        let moved = loop {
            match moving.step().await {
                Ok(Step::Done) => break Ok(()),
                Ok(step) => tell(step),
                Err(error) => break Err(error),
            }
        };
        let from = moving.from.name.clone();
        moving.end().await;
        if moved.is_err() {
            self.take_back(shard, &from).await;
        }
        moved
    }

    /// After a failure: writes are to go on, unless reads go to the copy already. The session of the failed move may take a moment to end.
    async fn take_back(&self, shard: Shard, from: &str) {
        for _ in 0..TAKE_BACK_TRIES_MAX {
            match Move::begin(self, shard, from).await {
                Ok(_) => return,
                Err(error) => warn!(%shard, %error, "a shard could not be taken back yet"),
            }
            tokio::time::sleep(TAKE_BACK_PAUSE).await;
        }
    }
}

/// A move under way: the session that holds the mover's lock.
pub(crate) struct Move {
    shard: Shard,
    from: Arc<Pool>,
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
        let here = self.here(sum(&self.session, table, filter).await)?;
        let there = self.there(sum(work, table, filter).await)?;
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

    /// All tables of the shard. There are no sequences or other things that would have to come along.
    async fn tables(&self) -> Result<Vec<Table>, MoveError> {
        let sql = "SELECT c.oid::regclass::text, c.relname::text,
                     (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
                        WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
                     ARRAY(SELECT attname::text FROM pg_attribute a JOIN pg_index i ON i.indrelid = c.oid AND a.attnum = ANY(i.indkey)
                        WHERE a.attrelid = c.oid AND i.indisprimary ORDER BY attnum)
                   FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE n.nspname = $1 AND c.relkind = 'r' ORDER BY c.relname";
        let rows = self.here(self.session.query(sql, &[(&self.shard.schema(), Type::TEXT)]).await)?;
        Ok(rows.iter().map(|row| Table { name: row.get(0), relation: row.get(1), columns: row.get(2), key: row.get(3) }).collect())
    }

    fn here<T>(&self, result: Result<T, Fault>) -> Result<T, MoveError> {
        Ok(told(&self.from, result)?)
    }

    fn there<T>(&self, result: Result<T, Fault>) -> Result<T, MoveError> {
        Ok(told(&self.to, result)?)
    }
}

struct Table {
    /// With its schema.
    name: String,
    /// Without it.
    relation: String,
    columns: String,
    /// Columns, all of them texts.
    key: Vec<String>,
}

impl Table {
    /// For rows with these keys, each an object of JSON.
    fn with_keys(&self, keys: &[String]) -> String {
        let list = keys.join(", ").replace('\'', "''");
        let parts: Vec<String> = self.key.iter().map(|column| format!("k ->> '{column}'")).collect();
        format!("WHERE ({}) IN (SELECT {} FROM jsonb_array_elements('[{list}]') k)", self.key.join(", "), parts.join(", "))
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

/// How many rows, and the sum of their hashes: the same rows in another order are the same.
async fn sum(loan: &Loan, table: &Table, filter: &str) -> Result<String, Fault> {
    let Table { name, columns, .. } = table;
    let sql = format!(
        "SELECT count(*), coalesce(sum(('x' || left(md5(ROW({columns})::text), 16))::bit(64)::bigint::numeric), 0) FROM {name} {filter}"
    );
    let rows = loan.run(&sql).await?;
    let word = |index| rows.first().and_then(|row| row.get(index)).unwrap_or("nothing").to_owned();
    Ok(format!("{} rows with checksum {}", word(0), word(1)))
}

fn far_off() -> Instant {
    Instant::now() + MOVE_MAX
}

#[cfg(all(test, feature = "engines"))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use dunlin_contract::ids;
    use dunlin_model::{
        BlockRow, Field, Lease, Millis, Name, NodeId, SecretHash, Seq, ServerKey, ServerKeyId, TaskName, UserChange, UserId,
    };
    use dunlin_ports::{Directory as _, StoreError};

    use super::*;
    use crate::{Directory, support};

    fn seven() -> Shard {
        Shard::numbered(7).expect("there are 64")
    }

    fn user_of(shard: Shard) -> UserId {
        std::iter::repeat_with(ids::user).find(|id| Shard::of(id.as_str()) == shard).expect("ids are random")
    }

    fn named(name: &str) -> UserChange {
        UserChange { display_name: Field::Set(Name::parse(name).expect("a name")), ..UserChange::default() }
    }

    /// All shards in `a`, none in `b`.
    async fn two_databases() -> Options {
        let options = support::options(&[("a", "0-63"), ("b", "")]).await;
        schema::apply(&options).await.expect("apply the schema");
        Options { call_timeout: PATIENCE, ..options }
    }

    /// For calls that have to succeed, however busy the machine is.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Whoever moved the shard before may take a moment to be gone.
    async fn moved(shards: &Shards, to: &str) {
        for _ in 0..50 {
            match shards.move_to(seven(), to, |_| {}).await {
                Ok(()) => return,
                Err(MoveError::Busy(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("someone else moves it for ever");
    }

    async fn holds(options: &Options, database: usize, sql: &str) -> bool {
        let client = support::connect(&options.databases[database].url).await;
        client.query(sql, &[]).await.is_ok_and(|rows| !rows.is_empty())
    }

    #[tokio::test]
    async fn a_move_that_breaks_off_anywhere_is_read_throughout_and_goes_on_when_asked_again() {
        let steps = [Step::Follow, Step::Copy, Step::Freeze, Step::Finish, Step::Leave, Step::Arrive, Step::Clear, Step::Done];
        let is_paused = |step: &Step| [Step::Freeze, Step::Finish, Step::Leave].contains(step);
        let is_here = |text: &String| Shard::of(text) == seven();
        for made in 0..=steps.len() {
            let options = two_databases().await;
            // It gives up soon what can't be served.
            let hasty = support::open(&Options { call_timeout: Duration::from_millis(300), ..options.clone() }).await;
            let (directory, shards) = (support::open(&options).await, Shards::open(&options).await.unwrap());
            let id = user_of(seven());
            let task = TaskName::parse(&std::iter::repeat_with(ids::hex).find(is_here).unwrap()).unwrap();
            let lease = Lease { holder: NodeId(3), until: Millis(100) };
            directory.take_task(&task, lease, Millis(0)).await.unwrap();
            let mut user = directory.upsert_user(&id, named("Ann"), Millis(5)).await.unwrap();
            let mut others = Vec::new();

            let moving = Move::begin(&shards, seven(), "b").await.unwrap().unwrap();
            for step in &steps[..made] {
                assert_eq!(moving.step().await.unwrap(), *step);
                assert_eq!(directory.user(&id).await.unwrap().as_ref(), Some(&user), "after {step:?}");
                assert_eq!(support::open(&options).await.user(&id).await.unwrap().as_ref(), Some(&user), "a node that starts now");
                let change = named(&format!("Ann after {step:?}"));
                if is_paused(step) {
                    assert!(matches!(hasty.upsert_user(&id, change, Millis(6)).await, Err(StoreError::Unavailable(_))), "{step:?}");
                    continue;
                }
                user = directory.upsert_user(&id, change, Millis(6)).await.unwrap();
                others.push(user_of(seven()));
                directory.upsert_user(others.last().unwrap(), UserChange::default(), Millis(6)).await.unwrap();
                directory.release_task(&task, lease.holder).await.unwrap();
            }
            drop(moving); // as if the process had died

            moved(&shards, "b").await;
            assert_eq!(directory.user(&id).await.unwrap().as_ref(), Some(&user), "after {made} steps and the rest");
            assert_eq!(directory.exist(&others).await.unwrap(), vec![true; others.len()]);
            let other_lease = Lease { holder: NodeId(4), ..lease };
            let holder = directory.take_task(&task, other_lease, Millis(1)).await.unwrap().holder;
            assert_eq!(holder == lease.holder, others.is_empty(), "what was deleted stays so");
            let written = directory.upsert_user(&id, named("Anne"), Millis(7)).await.unwrap();
            assert_eq!(directory.user(&id).await.unwrap(), Some(written));
            assert!(holds(&options, 1, &format!("SELECT id FROM dunlin_shard_07.users WHERE id = '{id}'")).await);
            assert!(!holds(&options, 0, "SELECT 1 FROM information_schema.schemata WHERE schema_name = 'dunlin_shard_07'").await);
            moved(&shards, "b").await; // there is nothing left to do
        }
    }

    #[tokio::test]
    async fn a_write_under_way_is_waited_for_and_comes_along() {
        let options = two_databases().await;
        let (directory, shards) = (support::open(&options).await, Shards::open(&options).await.unwrap());
        let id = user_of(seven());
        let work = directory.router.begin(seven(), far_off()).await.unwrap();
        let insert = "INSERT INTO users (id, created_at, updated_at) VALUES ($1, 5, 5)";
        work.query(insert, &[(&id.as_str(), Type::TEXT)]).await.unwrap();
        let commit = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            work.commit().await.unwrap();
            Instant::now()
        };
        let moving = async {
            moved(&shards, "b").await;
            Instant::now()
        };
        let (committed_at, moved_at) = tokio::join!(commit, moving);
        assert!(moved_at > committed_at);
        assert_eq!(directory.user(&id).await.unwrap().map(|user| user.id), Some(id));
    }

    /// Nobody restarted it when the database was added.
    #[tokio::test]
    async fn a_node_that_does_not_know_the_database_of_a_shard_says_so() {
        let options = two_databases().await;
        let alone = Options { databases: options.databases[..1].to_vec(), call_timeout: Duration::from_secs(2), ..options.clone() };
        let (directory, shards) = (support::open(&alone).await, Shards::open(&options).await.unwrap());
        assert_eq!(directory.troubles(), Vec::<String>::new());
        moved(&shards, "b").await;
        assert!(directory.user(&user_of(seven())).await.is_err());
        assert!(directory.troubles()[0].contains("these shards are in none of the PostgreSQL databases: 7"), "{:?}", directory.troubles());
        moved(&shards, "a").await;
        assert_eq!(directory.user(&user_of(seven())).await.unwrap(), None);
        directory.router.look(Instant::now() + Duration::from_secs(5)).await;
        assert_eq!(directory.troubles(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn everything_of_a_shard_comes_along_and_back() {
        let options = two_databases().await;
        let (directory, shards) = (support::open(&options).await, Shards::open(&options).await.unwrap());
        let (id, other) = (user_of(seven()), ids::user());
        directory.upsert_user(&id, named("Ann"), Millis(5)).await.unwrap();
        let user = directory.set_phone(&id, Some(&ids::phone()), Millis(6)).await.unwrap();
        directory.revoke_tokens(&id, Millis(7)).await.unwrap();
        let at = Seq::from_u64(9).unwrap();
        let block = BlockRow { blocker: id.clone(), blocked: other, at, since: Millis(8), on: true };
        directory.copy_block(&block).await.unwrap();
        let is_here = |text: &String| Shard::of(text) == seven();
        let task = TaskName::parse(&std::iter::repeat_with(ids::hex).find(is_here).unwrap()).unwrap();
        let lease = Lease { holder: NodeId(3), until: Millis(100) };
        directory.take_task(&task, lease, Millis(9)).await.unwrap();
        let key = ServerKey {
            id: ServerKeyId::parse(&std::iter::repeat_with(ids::hex).find(is_here).unwrap()).unwrap(),
            name: Name::parse("shop").unwrap(),
            scopes: Default::default(),
            secret_hash: SecretHash([7; 32]),
            created_at: Millis(1),
            revoked_at: None,
        };
        directory.create_server_key(&key).await.unwrap();
        for to in ["b", "a", "b"] {
            moved(&shards, to).await;
            assert_eq!(directory.user(&id).await.unwrap(), user);
            assert_eq!(directory.tokens_valid_from(&id).await.unwrap(), Some(Millis(7)));
            assert_eq!(directory.blocks_copied(&id, None, 9).await.unwrap(), std::slice::from_ref(&block));
            let taken = directory.take_task(&task, Lease { holder: NodeId(4), ..lease }, Millis(50)).await.unwrap();
            assert_eq!(taken, lease);
            assert_eq!(directory.server_key(&key.id).await.unwrap().as_ref(), Some(&key));
        }
        let (resting, others) = shards.list().await.unwrap();
        assert_eq!(resting[1].1.to_string(), "7");
        assert!(others.iter().any(|placed| placed.database == "a" && placed.phase == "moved"));
    }

    #[tokio::test]
    async fn a_shard_can_be_taken_back_and_its_old_copy_is_forgotten() {
        for steps in [1, 2, 3, 4] {
            let options = two_databases().await;
            let (directory, shards) = (support::open(&options).await, Shards::open(&options).await.unwrap());
            let id = user_of(seven());
            directory.upsert_user(&id, named("Ann"), Millis(5)).await.unwrap();
            let moving = Move::begin(&shards, seven(), "b").await.unwrap().unwrap();
            for _ in 0..steps {
                moving.step().await.unwrap();
            }
            assert!(matches!(shards.move_to(seven(), "b", |_| {}).await, Err(MoveError::Busy(_))), "one at a time");
            moving.end().await;
            moved(&shards, "a").await;
            let later = directory.upsert_user(&id, named("Anna"), Millis(6)).await.unwrap();
            moved(&shards, "b").await;
            assert_eq!(directory.user(&id).await.unwrap(), Some(later));
        }
    }

    #[tokio::test]
    async fn a_copy_that_differs_is_refused_and_the_shard_stays() {
        let options = two_databases().await;
        let (directory, shards) = (support::open(&options).await, Shards::open(&options).await.unwrap());
        let id = user_of(seven());
        directory.upsert_user(&id, named("Ann"), Millis(5)).await.unwrap();
        let spoil = "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.display_name = 'Ahn'; RETURN NEW; END $$;
                     CREATE FUNCTION spoil_users() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
                       IF to_regclass('dunlin_shard_07.users') IS NOT NULL THEN
                         CREATE OR REPLACE TRIGGER spoil BEFORE INSERT ON dunlin_shard_07.users FOR EACH ROW EXECUTE FUNCTION public.spoil();
                       END IF; END $$;
                     CREATE EVENT TRIGGER spoil ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION spoil_users()";
        support::connect(&options.databases[1].url).await.batch_execute(spoil).await.unwrap();
        let refused = shards.move_to(seven(), "b", |_| {}).await.unwrap_err();
        assert!(matches!(&refused, MoveError::Differs { table, .. } if table == "dunlin_shard_07.users"), "{refused}");
        directory.upsert_user(&id, named("Anna"), Millis(6)).await.unwrap();
        assert!(!holds(&options, 1, "SELECT 1 FROM dunlin.shards").await);
    }

    #[tokio::test]
    async fn what_can_not_be_is_refused() {
        let options = two_databases().await;
        let shards = Shards::open(&options).await.unwrap();
        let refused = shards.move_to(seven(), "c", |_| {}).await.unwrap_err();
        assert_eq!(refused.to_string(), "there is no PostgreSQL database c in the configuration");
        shards.move_to(seven(), "a", |_| panic!("it is there already")).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn nodes_that_read_and_write_all_the_time_see_nothing_of_a_move() {
        let options = two_databases().await;
        let nodes = [Arc::new(support::open(&options).await), Arc::new(support::open(&options).await)];
        let stop = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..4)
            .map(|index: usize| {
                let [one, other] = [Arc::clone(&nodes[index % 2]), Arc::clone(&nodes[(index + 1) % 2])];
                tokio::spawn(write_here_read_there(one, other, Arc::clone(&stop)))
            })
            .collect();
        let shards = Shards::open(&options).await.unwrap();
        for to in ["b", "a", "b", "a", "b"] {
            moved(&shards, to).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        stop.store(true, Ordering::Relaxed);
        let mut writes = 0;
        for caller in callers {
            writes += caller.await.unwrap();
        }
        assert!(writes > 100, "{writes}");
    }

    /// What one node has written, the other reads.
    async fn write_here_read_there(one: Arc<Directory>, other: Arc<Directory>, stop: Arc<AtomicBool>) -> u64 {
        let id = user_of(seven());
        let mut writes = 0;
        while !stop.load(Ordering::Relaxed) {
            writes += 1;
            let written = one.upsert_user(&id, named(&format!("Ann {writes}")), Millis(writes)).await.expect("write");
            assert_eq!(other.user(&id).await.expect("read"), Some(written));
        }
        writes
    }
}
