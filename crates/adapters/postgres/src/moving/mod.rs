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

use std::{sync::Arc, time::Duration};

use tracing::warn;

use crate::{
    error::StartError,
    options::Options,
    places::{Phase, Stay},
    pool::Pool,
    schema::{self, shards, told},
    server,
    shard::{Shard, ShardSet},
};

mod table;
#[cfg(all(test, feature = "engines"))]
mod tests;
mod under_way;

use under_way::Move;

const TAKE_BACK_TRIES_MAX: usize = 20;
const TAKE_BACK_PAUSE: Duration = Duration::from_millis(250);

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
