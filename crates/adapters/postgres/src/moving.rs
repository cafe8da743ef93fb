//! Moving a shard to another database while nodes go on: reads are served throughout, writes wait while it is copied.
//!
//! What is done next follows from the phases that both databases tell, so a move that broke off anywhere goes on when it is asked for again:
//!
//! | from | to | next |
//! |---|---|---|
//! | active | anything old | drop what is old; **freeze**: no write is under way any more, and none begins |
//! | frozen | – | **copy** all tables, compare counts and checksums, and say ready, in one transaction |
//! | frozen | ready | **leave**: say moved; from now on reads go to the copy |
//! | moved | ready | **arrive**: say active; writes go on |
//! | moved | active | **clear**: drop the old tables |
//!
//! One at a time for each shard: whoever moves it holds a lock in the session, in the database that it leaves, by which all that is
//! done there is done.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{SinkExt as _, TryStreamExt as _};
use tokio::time::Instant;
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
    #[error("shard {shard} is on its way from {from} to {to}: let it go there, or take it back with --to {from}")]
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
    Freeze,
    Copy,
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
            let (active, moving): (Vec<Stay>, Vec<Stay>) = stays.into_iter().partition(|stay| stay.phase == Phase::Active);
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
        let find = |name: &str| shards.pools.iter().find(|pool| pool.name == name).cloned();
        let to = find(to).ok_or_else(|| MoveError::NoDatabase(to.to_owned()))?;
        let mut holder = None;
        for pool in &shards.pools {
            let stay = stay(pool, shard).await?;
            if let Some(stay) = stay.filter(|stay| matches!(stay.phase, Phase::Active | Phase::Frozen)) {
                holder = Some((Arc::clone(pool), stay));
            }
        }
        let (from, is_back) = match holder {
            Some((from, stay)) if from.name != to.name => {
                if let Some(peer) = stay.peer.filter(|peer| *peer != to.name) {
                    return Err(MoveError::OnItsWay { shard, from: from.name.clone(), to: peer });
                }
                (from, false)
            }
            // It is there. Then either it never went, or it is to be taken back, or the old tables are still to be cleared.
            Some((holder, stay)) if stay.phase == Phase::Frozen => (holder, true),
            Some(_) | None => {
                let mut left = None;
                for pool in &shards.pools {
                    let has_left = |stay: &Stay| stay.phase == Phase::Moved && stay.peer.as_ref() == Some(&to.name);
                    if stay(pool, shard).await?.is_some_and(|stay| has_left(&stay)) {
                        left = Some(Arc::clone(pool));
                    }
                }
                let Some(left) = left else { return Ok(None) };
                (left, false)
            }
        };
        let session = locked(&from, shard).await?;
        let moving = Move { shard, from, to, session };
        if is_back {
            moving.take_back().await?;
            moving.end().await;
            return Ok(None);
        }
        Ok(Some(moving))
    }

    /// One transition. Whatever happens within, the next one finds out where it stands.
    pub async fn step(&self) -> Result<Step, MoveError> {
        let here = stay(&self.from, self.shard).await?;
        let there = stay(&self.to, self.shard).await?.map(|stay| stay.phase);
        let step = match (here.as_ref().map(|stay| stay.phase), there) {
            (Some(Phase::Active), None | Some(Phase::Moved | Phase::Ready)) => Step::Freeze,
            (Some(Phase::Frozen), None | Some(Phase::Moved)) => Step::Copy,
            (Some(Phase::Frozen), Some(Phase::Ready)) => Step::Leave,
            (Some(Phase::Moved), Some(Phase::Ready)) => Step::Arrive,
            (Some(Phase::Moved), Some(Phase::Active)) if self.has_tables().await? => Step::Clear,
            (Some(Phase::Moved), Some(Phase::Active)) => Step::Done,
            _ => return Err(MoveError::Surprised(self.shard)),
        };
        match step {
            Step::Freeze => {
                let found = here.map_or(0, |stay| stay.version);
                if found != schema::VERSION {
                    return Err(MoveError::Version { shard: self.shard, found, wanted: schema::VERSION });
                }
                self.discard().await?;
                self.change("phase = 'frozen', peer = $peer", "phase = 'active'").await?;
            }
            Step::Copy => self.copy().await?,
            Step::Leave => self.change("phase = 'moved'", "phase = 'frozen' AND peer = $peer").await?,
            Step::Arrive => self.arrive().await?,
            Step::Clear => self.clear().await?,
            Step::Done => {}
        }
        info!(shard = %self.shard, from = self.from.name, to = self.to.name, ?step, "a step of moving a shard was made");
        Ok(step)
    }

    /// Lets writes go on where they were. Nothing happens if the shard has left, or never was frozen.
    pub async fn take_back(&self) -> Result<(), MoveError> {
        if stay(&self.from, self.shard).await?.is_none_or(|stay| stay.phase != Phase::Frozen) {
            return Ok(());
        }
        // The copy, if there is one, no longer counts, and goes before the next is made.
        self.change("phase = 'active', peer = NULL", "phase = 'frozen'").await
    }

    pub async fn end(self) {
        let unlock = format!("ROLLBACK; SELECT pg_advisory_unlock({LOCK_CLASS}, {})", mover_lock(self.shard));
        // If it fails, the connection closes, and the lock goes with it.
        if self.session.run(&unlock).await.is_ok() {
            self.session.give_back();
        }
    }

    /// Changes the shard's row where it leaves, alone, if it is as expected.
    async fn change(&self, set: &str, expected: &str) -> Result<(), MoveError> {
        let peer = |text: &str| text.replace("$peer", &format!("'{}'", self.to.name));
        let lock = format!("BEGIN; {LIMITS}; SELECT pg_advisory_xact_lock({LOCK_CLASS}, {})", schema::lock_of(self.shard));
        let update = format!("UPDATE dunlin.shards SET {} WHERE shard = {} AND {} RETURNING shard", peer(set), self.shard, peer(expected));
        self.here(self.session.run(&lock).await)?;
        let changed = self.here(self.session.run(&update).await)?;
        let end = if changed.is_empty() { "ROLLBACK" } else { "COMMIT" };
        self.here(self.session.run(end).await)?;
        if changed.is_empty() { Err(MoveError::Surprised(self.shard)) } else { Ok(()) }
    }

    /// What an earlier move has left where this one goes.
    async fn discard(&self) -> Result<(), MoveError> {
        let sql = format!(
            "DELETE FROM dunlin.shards WHERE shard = {} AND phase IN ('ready', 'moved'); DROP SCHEMA IF EXISTS {} CASCADE",
            self.shard,
            self.shard.schema()
        );
        self.change_there(&sql).await
    }

    async fn arrive(&self) -> Result<(), MoveError> {
        let sql = format!("UPDATE dunlin.shards SET phase = 'active', peer = NULL WHERE shard = {} AND phase = 'ready'", self.shard);
        self.change_there(&sql).await
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

    /// All or nothing: until the end nobody there sees anything of it.
    async fn copy(&self) -> Result<(), MoveError> {
        let work = self.there(self.begin_there().await)?;
        let insert = format!(
            "DELETE FROM dunlin.shards WHERE shard = {shard};
             INSERT INTO dunlin.shards (shard, version, phase, peer) VALUES ({shard}, 0, 'ready', '{peer}');
             DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}",
            shard = self.shard,
            peer = self.from.name,
            schema = self.shard.schema(),
        );
        self.there(work.run(&insert).await)?;
        self.there(schema::tables(&work, self.shard, 0).await)?;
        self.here(self.session.run(&format!("BEGIN; {LIMITS}")).await)?;
        for (table, columns) in self.tables().await? {
            self.copy_table(&work, &table, &columns).await?;
            let here = self.here(sum(&self.session, &table, &columns).await)?;
            let there = self.there(sum(&work, &table, &columns).await)?;
            if here != there {
                self.here(self.session.run("ROLLBACK").await)?;
                return Err(MoveError::Differs { table, here, there });
            }
        }
        self.here(self.session.run("COMMIT").await)?;
        self.there(work.commit().await)
    }

    /// All tables of the shard with their columns. There are no sequences or other things that would have to come along.
    async fn tables(&self) -> Result<Vec<(String, String)>, MoveError> {
        let sql = format!(
            "SELECT format('%I.%I', table_schema, table_name), string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position)
             FROM information_schema.columns WHERE table_schema = '{}' GROUP BY table_schema, table_name ORDER BY table_name",
            self.shard.schema()
        );
        let rows = self.here(self.session.query(&sql, &[]).await)?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    async fn copy_table(&self, work: &Loan, table: &str, columns: &str) -> Result<(), MoveError> {
        let of = |pool: &Pool, error| StartError::Unreachable { database: pool.name.clone(), why: reason(&error) };
        let out = format!("COPY {table} ({columns}) TO STDOUT (FORMAT binary)");
        let into = format!("COPY {table} ({columns}) FROM STDIN (FORMAT binary)");
        let mut out = pin!(self.session.client().copy_out(&out).await.map_err(|error| of(&self.from, error))?);
        let mut into = pin!(work.client().copy_in(&into).await.map_err(|error| of(&self.to, error))?);
        while let Some(bytes) = out.try_next().await.map_err(|error| of(&self.from, error))? {
            into.send(bytes).await.map_err(|error| of(&self.to, error))?;
        }
        into.finish().await.map_err(|error| of(&self.to, error))?;
        Ok(())
    }

    async fn has_tables(&self) -> Result<bool, MoveError> {
        let sql = format!("SELECT 1 FROM information_schema.schemata WHERE schema_name = '{}'", self.shard.schema());
        Ok(!self.here(self.session.run(&sql).await)?.is_empty())
    }

    async fn clear(&self) -> Result<(), MoveError> {
        let sql = format!("BEGIN; {LIMITS}; DROP SCHEMA {} CASCADE; COMMIT", self.shard.schema());
        self.here(self.session.run(&sql).await).map(drop)
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

/// How many rows, and the sum of their hashes: the same rows in another order are the same.
async fn sum(loan: &Loan, table: &str, columns: &str) -> Result<String, Fault> {
    let sql =
        format!("SELECT count(*), coalesce(sum(('x' || left(md5(ROW({columns})::text), 16))::bit(64)::bigint::numeric), 0) FROM {table}");
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
    use dunlin_model::{Field, Millis, Name, NodeId, ServerKeyId, UserChange, UserId};
    use dunlin_ports::{Directory as _, StoreError};

    use super::*;
    use crate::{Directory, support, users};

    fn seven() -> Shard {
        Shard::numbered(7).expect("there are 64")
    }

    fn user_of(shard: Shard) -> UserId {
        std::iter::repeat_with(ids::user).find(|id| Shard::of(id.as_str()) == shard).expect("ids are random")
    }

    fn named(name: &str) -> UserChange {
        UserChange { display_name: Field::Set(Name::parse(name).expect("a name")), ..UserChange::default() }
    }

    /// All shards in `a`, none in `b`. Calls that can't be served are given up soon.
    async fn two_databases() -> Options {
        let options = support::options(&[("a", "0-63"), ("b", "")]).await;
        schema::apply(&options).await.expect("apply the schema");
        Options { call_timeout: Duration::from_millis(300), ..options }
    }

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
        let steps = [Step::Freeze, Step::Copy, Step::Leave, Step::Arrive, Step::Clear, Step::Done];
        for made in 0..=steps.len() {
            let options = two_databases().await;
            let (directory, shards) = (support::open(&options).await, Shards::open(&options).await.unwrap());
            let id = user_of(seven());
            let user = directory.upsert_user(&id, named("Ann"), Millis(5)).await.unwrap();

            let moving = Move::begin(&shards, seven(), "b").await.unwrap().unwrap();
            for step in &steps[..made] {
                assert_eq!(moving.step().await.unwrap(), *step);
                assert_eq!(directory.user(&id).await.unwrap().as_ref(), Some(&user), "after {step:?}");
                assert_eq!(support::open(&options).await.user(&id).await.unwrap().as_ref(), Some(&user), "a node that starts now");
            }
            drop(moving); // as if the process had died
            let written = directory.upsert_user(&id, named("Anna"), Millis(6)).await;
            let is_paused = (1..=3).contains(&made);
            assert_eq!(matches!(written, Err(StoreError::Unavailable(_))), is_paused, "{made} steps: {written:?}");

            moved(&shards, "b").await;
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
        users::upsert(&work, &id, named("Ann"), Millis(5)).await.unwrap();
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

    #[tokio::test]
    async fn everything_of_a_shard_comes_along_and_back() {
        let options = two_databases().await;
        let (directory, shards) = (support::open(&options).await, Shards::open(&options).await.unwrap());
        let (id, other) = (user_of(seven()), ids::user());
        directory.upsert_user(&id, named("Ann"), Millis(5)).await.unwrap();
        let user = directory.set_phone(&id, Some(&ids::phone()), Millis(6)).await.unwrap();
        directory.revoke_tokens(&id, Millis(7)).await.unwrap();
        let at = dunlin_model::Seq::from_u64(9).unwrap();
        let block = dunlin_model::BlockRow { blocker: id.clone(), blocked: other, at, since: Millis(8), on: true };
        directory.copy_block(&block).await.unwrap();
        let is_here = |text: &String| Shard::of(text) == seven();
        let task = dunlin_model::TaskName::parse(&std::iter::repeat_with(ids::hex).find(is_here).unwrap()).unwrap();
        let lease = dunlin_model::Lease { holder: NodeId(3), until: Millis(100) };
        directory.take_task(&task, lease, Millis(9)).await.unwrap();
        let key = dunlin_model::ServerKey {
            id: ServerKeyId::parse(&std::iter::repeat_with(ids::hex).find(is_here).unwrap()).unwrap(),
            name: Name::parse("shop").unwrap(),
            scopes: Default::default(),
            secret_hash: dunlin_model::SecretHash([7; 32]),
            created_at: Millis(1),
            revoked_at: None,
        };
        directory.create_server_key(&key).await.unwrap();
        for to in ["b", "a", "b"] {
            moved(&shards, to).await;
            assert_eq!(directory.user(&id).await.unwrap(), user);
            assert_eq!(directory.tokens_valid_from(&id).await.unwrap(), Some(Millis(7)));
            assert_eq!(directory.blocks_copied(&id, None, 9).await.unwrap(), std::slice::from_ref(&block));
            let taken = directory.take_task(&task, dunlin_model::Lease { holder: NodeId(4), ..lease }, Millis(50)).await.unwrap();
            assert_eq!(taken, lease);
            assert_eq!(directory.server_key(&key.id).await.unwrap().as_ref(), Some(&key));
        }
        let (resting, others) = shards.list().await.unwrap();
        assert_eq!(resting[1].1.to_string(), "7");
        assert!(others.iter().any(|placed| placed.database == "a" && placed.phase == "moved"));
    }

    #[tokio::test]
    async fn a_shard_can_be_taken_back_and_its_old_copy_is_forgotten() {
        for steps in [1, 2] {
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
        let options = Options { call_timeout: Duration::from_secs(10), ..two_databases().await };
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
