//! Brings each call to the database that has its shard, and tries again what failed for the moment.
//!
//! Every attempt asks the database whether the shard is there, in the same statement or transaction as what it came for. So what this
//! process believes about places may be old: it costs a detour, never a wrong answer.
//! - A write holds a share of the shard's lock until its end. Whoever freezes a shard takes that lock alone, so no write is under way
//!   when it is frozen, and every later one sees that it is.
//! - A read sees the shard's phase in the snapshot of its data. A shard says `moved` here before it takes writes there.

use std::{
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use dunlin_ports::StoreError;
use tokio::{sync::Semaphore, time::Instant};
use tokio_postgres::{Row, SimpleQueryRow};
use tracing::{info, warn};

use crate::{
    error::Fault,
    places::{Map, Phase, Stay, stays},
    pool::{Given, Loan, Pool},
    shard::Shard,
};

/// The first of the numbers of our advisory locks; the second is the shard's. ("dunl")
pub const LOCK_CLASS: i32 = 0x6475_6e6c;

/// Between attempts: first this long, then twice as long each time.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

pub struct Router {
    pools: Vec<Arc<Pool>>,
    call_timeout: Duration,
    known: RwLock<Known>,
    /// One look at all databases at a time.
    looking: Semaphore,
    /// What did not fit at the last look.
    disagreement: Mutex<Option<String>>,
}

struct Known {
    map: Arc<Map>,
    /// What each database last told; one that is away is believed to have what it had.
    told: Vec<Vec<Stay>>,
}

impl Router {
    pub fn new(pools: Vec<Arc<Pool>>, map: Map, told: Vec<Vec<Stay>>, call_timeout: Duration) -> Router {
        let known = RwLock::new(Known { map: Arc::new(map), told });
        Router { pools, call_timeout, known, looking: Semaphore::new(1), disagreement: Mutex::default() }
    }

    /// Makes attempts, each told until when it may take, until one succeeds, or fails for good, or time is up. An attempt may be made
    /// although one before it has succeeded unheard: it must be repeatable.
    pub async fn call<T, F>(&self, attempt: impl Fn(Instant) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let deadline = Instant::now() + self.call_timeout;
        let mut pause = PAUSE_MIN;
        let mut doubt = None;
        loop {
            let why = match attempt(deadline).await {
                Ok(answer) => return Ok(answer),
                Err(Fault::Final(error)) => return Err(error),
                // Passwords and certificates are changed while nodes run.
                Err(Fault::Passing(why) | Fault::NotLetIn(why) | Fault::NotTrusted(why)) => why,
                Err(Fault::Doubtful(why)) => {
                    doubt = Some(why.clone());
                    why
                }
                Err(Fault::Elsewhere(why)) => {
                    self.look(deadline).await;
                    why
                }
            };
            if Instant::now() + pause >= deadline {
                return Err(doubt.map_or(StoreError::Unavailable(why), StoreError::Unknown));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The rows of `SELECT columns FROM rest`, where `rest` begins with a table of the shard. Columns are found by their names.
    pub async fn read(&self, shard: Shard, deadline: Instant, columns: &str, rest: &str, given: &[Given<'_>]) -> Result<Vec<Row>, Fault> {
        let loan = self.pool(shard).get(deadline).await?;
        let schema = shard.schema();
        let sql = format!(
            "SELECT stay.phase, found.* FROM dunlin.shards stay
             LEFT JOIN LATERAL (SELECT true AS is_there, {columns} FROM {schema}.{rest}) found ON true
             WHERE stay.shard = {shard}"
        );
        let mut rows = loan.query_prepared(&sql, given).await?;
        let phase = rows.first().map(|row| Phase::parse(row.get("phase"))).transpose()?;
        if !phase.is_some_and(Phase::can_be_read) {
            return Err(elsewhere(shard, loan));
        }
        loan.give_back();
        rows.retain(|row| row.get::<_, Option<bool>>("is_there").is_some());
        Ok(rows)
    }

    /// Begins a transaction in which the shard stays where it is. Its tables go by their bare names.
    pub async fn begin(&self, shard: Shard, deadline: Instant) -> Result<Loan, Fault> {
        let loan = self.pool(shard).get_to_write(deadline).await?;
        let begun = loan.run(&beginning(shard)).await?;
        standing(shard, loan, &begun).await
    }

    /// The rows of a statement that is a transaction of its own, in which the shard stays where it is; all in one round trip. It must write only
    /// where [`takes_writes`] is true.
    pub async fn write(&self, shard: Shard, deadline: Instant, sql: &str, given: &[Given<'_>]) -> Result<Vec<Row>, Fault> {
        let loan = self.pool(shard).get_to_write(deadline).await?;
        loan.transaction(&locking(shard), sql, given).await
    }

    /// In the order of the configuration.
    pub fn pools(&self) -> &[Arc<Pool>] {
        &self.pools
    }

    /// Why some databases, or some shards, are not asked at present.
    pub fn troubles(&self) -> impl Iterator<Item = String> {
        let disagreement = self.disagreement.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.pools.iter().filter_map(|pool| pool.trouble()).chain(disagreement)
    }

    /// Asks all databases anew where shards are, unless someone does already. Whether all that were asked have answered.
    pub async fn look(&self, deadline: Instant) -> bool {
        let Ok(_looking) = self.looking.try_acquire() else { return true };
        let mut have_answered = true;
        let mut told = self.known.read().unwrap_or_else(PoisonError::into_inner).told.clone();
        for (pool, told) in self.pools.iter().zip(&mut told) {
            match ask(pool, deadline).await {
                Ok(now) => *told = now,
                Err(fault) => {
                    have_answered = false;
                    warn!(database = pool.name, why = fault.why(), "failed to ask a database for its shards");
                }
            }
        }
        let disagreement = match Map::of(&named(&self.pools, &told)) {
            Ok(map) => {
                self.learn(map, told);
                None
            }
            Err(error) => {
                warn!(%error, "databases disagree about where shards are; going on with what was known");
                Some(error.to_string())
            }
        };
        *self.disagreement.lock().unwrap_or_else(PoisonError::into_inner) = disagreement;
        have_answered
    }

    fn learn(&self, map: Map, told: Vec<Vec<Stay>>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for shard in Shard::all().filter(|&shard| known.map.place(shard) != map.place(shard)) {
            info!(%shard, database = self.pools[map.place(shard)].name, "a shard is in another database now");
        }
        *known = Known { map: Arc::new(map), told };
    }

    fn pool(&self, shard: Shard) -> &Arc<Pool> {
        let map = Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner).map);
        &self.pools[map.place(shard)]
    }
}

/// Whether a shard is here and takes writes, for a statement after the lock.
pub fn takes_writes(shard: Shard) -> String {
    format!("EXISTS (SELECT FROM dunlin.shards WHERE shard = {shard} AND phase = '{}')", Phase::Active.as_str())
}

/// Each statement has a snapshot of its own, so a shard's phase is as of after the lock.
fn locking(shard: Shard) -> String {
    format!("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock_shared({LOCK_CLASS}, {shard})")
}

fn beginning(shard: Shard) -> String {
    let (lock, schema) = (locking(shard), shard.schema());
    format!("{lock}; SET LOCAL search_path TO {schema}; SELECT phase FROM dunlin.shards WHERE shard = {shard}")
}

/// The loan, if what the beginning found is a shard that takes writes.
async fn standing(shard: Shard, loan: Loan, begun: &[SimpleQueryRow]) -> Result<Loan, Fault> {
    // The first row is the lock's.
    let phase = begun.get(1).and_then(|row| row.get(0)).map(Phase::parse).transpose()?;
    match phase {
        Some(Phase::Active) => Ok(loan),
        Some(Phase::Frozen | Phase::Ready) => {
            loan.run("ROLLBACK").await?;
            loan.give_back();
            Err(being_moved(shard))
        }
        Some(Phase::Behind | Phase::Moved) | None => {
            loan.run("ROLLBACK").await?;
            Err(elsewhere(shard, loan))
        }
    }
}

pub fn being_moved(shard: Shard) -> Fault {
    Fault::Passing(format!("shard {shard} is being moved and can only be read for a moment"))
}

/// Gives back the connection: there is nothing wrong with that.
fn elsewhere(shard: Shard, loan: Loan) -> Fault {
    let why = format!("shard {shard} is no longer in PostgreSQL {}", loan.database());
    loan.give_back();
    Fault::Elsewhere(why)
}

pub async fn ask(pool: &Arc<Pool>, deadline: Instant) -> Result<Vec<Stay>, Fault> {
    let loan = pool.get(deadline).await?;
    let stays = stays(&loan).await?;
    loan.give_back();
    Ok(stays)
}

pub fn named<'a>(pools: &'a [Arc<Pool>], told: &'a [Vec<Stay>]) -> Vec<(&'a str, &'a [Stay])> {
    pools.iter().zip(told).map(|(pool, stays)| (pool.name.as_str(), stays.as_slice())).collect()
}
