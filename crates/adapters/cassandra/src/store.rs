//! The open store: a session, its statements, and how they are run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dunlin_model::{ConversationId, Head, MemberRow, MessageRow, ReactionRow, UserId};
use dunlin_ports::{Breaker, Order, SeqRange, StoreError};
use futures::{Stream, StreamExt as _, TryStreamExt as _, future::BoxFuture};
use scylla::{
    client::{execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder},
    deserialize::row::DeserializeRow,
    errors::ExecutionError,
    policies::{load_balancing::DefaultPolicy, speculative_execution::SimpleSpeculativeExecutionPolicy},
    serialize::row::SerializeRow,
    statement::{
        Consistency,
        batch::{Batch, BatchType},
        prepared::PreparedStatement,
    },
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    ConnectError, Options,
    buckets::Buckets,
    error::{OrCorrupt as _, of_read, of_write},
    feed_months::FeedMonths,
    flights::Flights,
    schema, server,
    statements::Statements,
    tls,
};

/// How long calls fail one after the other before it is not asked any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// When a node that was asked says nothing for so long, another is asked as well: one that hangs must not make everyone wait for the timeout.
/// Everything here may be asked and said twice.
const ANOTHER_NODE: SimpleSpeculativeExecutionPolicy =
    SimpleSpeculativeExecutionPolicy { max_retry_count: 2, retry_interval: Duration::from_secs(1) };

/// After twice this long a node that hangs is not asked any more.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// How many reads wait for their turn, and for how long. More are turned away, rather than kept for longer than anyone waits.
const WAITING_MAX: usize = 4_096;
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Requests to Cassandra; what is written together is one.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    pub writes: u64,
    pub reads: u64,
}

/// A statement with what it says.
pub(crate) struct Line<'a> {
    pub statement: &'a PreparedStatement,
    pub values: Box<dyn SerializeRow + Send + Sync + 'a>,
}

/// What many ask for at once when a conversation is in the news.
#[derive(Default)]
pub(crate) struct Shared {
    pub heads: Flights<ConversationId, Option<Head>>,
    pub messages: Flights<(ConversationId, SeqRange, Order, usize), Vec<MessageRow>>,
    pub reactions: Flights<(ConversationId, SeqRange, usize), Vec<ReactionRow>>,
    pub members: Flights<(ConversationId, Option<UserId>, usize), Vec<MemberRow>>,
}

pub struct Messages {
    pub(crate) session: Arc<Session>,
    pub(crate) statements: Statements,
    pub(crate) feed_months: FeedMonths,
    pub(crate) buckets: Buckets,
    pub(crate) shared: Shared,
    /// How many requests may be under way.
    turns: Semaphore,
    places: Semaphore,
    breaker: Arc<Breaker>,
    writes: AtomicU64,
    reads: AtomicU64,
    pub(crate) options: Options,
}

impl Messages {
    /// Connects to a cluster whose schema is there, and is the one that this program knows.
    pub async fn open(options: Options) -> Result<Messages, ConnectError> {
        within_start_max(Messages::connected(options)).await
    }

    async fn connected(options: Options) -> Result<Messages, ConnectError> {
        let session = connect(&options).await?;
        schema::check(&session, &options).await?;
        let statements = Statements::prepare(&session, &options.keyspace).await?;
        let turns = Semaphore::new(options.in_flight_max);
        Ok(Messages {
            session: Arc::new(session),
            statements,
            feed_months: FeedMonths::default(),
            buckets: Buckets::default(),
            shared: Shared::default(),
            turns,
            places: Semaphore::new(WAITING_MAX),
            breaker: Arc::new(Breaker::new("Cassandra", PATIENCE)),
            writes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            options,
        })
    }

    /// Durable on a quorum of the replicas on return.
    pub(crate) async fn write(&self, statement: &PreparedStatement, values: impl SerializeRow) -> Result<(), StoreError> {
        let _turn = self.turn_to_write().await?;
        self.answer(self.session.execute_unpaged(statement, values).await, of_write).map(drop)
    }

    /// Writes what goes to one partition, maybe of several tables, as one mutation: all of it or nothing.
    pub(crate) async fn write_together(&self, lines: Vec<Line<'_>>) -> Result<(), StoreError> {
        if let [line] = &lines[..] {
            return self.write(line.statement, &line.values).await;
        }
        let _turn = self.turn_to_write().await?;
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_is_idempotent(true);
        let mut values = Vec::with_capacity(lines.len());
        for line in lines {
            batch.append_statement(line.statement.clone());
            values.push(line.values);
        }
        self.answer(self.session.batch(&batch, values).await, of_write).map(drop)
    }

    /// How many there were since it was opened.
    pub fn requests(&self) -> Requests {
        Requests { writes: self.writes.load(Ordering::Relaxed), reads: self.reads.load(Ordering::Relaxed) }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Why it is not asked at present.
    pub fn trouble(&self) -> Option<String> {
        self.breaker.trouble()
    }

    /// For projectors, which have so many events in hand as they may: nobody is turned away. Others take a place first.
    async fn turn_to_write(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let turn = self.turns.acquire().await.expect("it is never closed");
        self.breaker.check()?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        Ok(turn)
    }

    /// Among those who wait.
    pub(crate) fn place(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        self.places.try_acquire().map_err(|_| busy())
    }

    async fn turn_to_read(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        self.breaker.check()?;
        let turn = match self.turns.try_acquire() {
            Ok(turn) => turn,
            Err(_) => {
                let _place = self.place()?;
                let turn = tokio::time::timeout(WAIT_MAX, self.turns.acquire()).await.map_err(|_| busy())?;
                turn.expect("it is never closed")
            }
        };
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(turn)
    }

    /// Of what we keep, with the same consistency as everything.
    fn ask_until_it_answers(&self) {
        let (session, breaker, keyspace) = (Arc::downgrade(&self.session), Arc::clone(&self.breaker), self.options.keyspace.clone());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Breaker::PAUSE).await;
                // Gone with its store.
                let Some(session) = session.upgrade().filter(|_| breaker.trouble().is_some()) else { return };
                if schema::version(&session, &keyspace).await.is_ok() {
                    breaker.answered();
                }
            }
        });
    }

    /// What came of a request, noted.
    fn answer<T>(&self, answer: Result<T, ExecutionError>, meaning: impl FnOnce(ExecutionError) -> StoreError) -> Result<T, StoreError> {
        match answer.map_err(meaning) {
            Err(error @ (StoreError::Unavailable(_) | StoreError::Unknown(_))) => {
                if self.breaker.failed(&error.to_string()) {
                    self.ask_until_it_answers();
                }
                Err(error)
            }
            answered => {
                self.breaker.answered();
                answered
            }
        }
    }

    /// All rows of a bounded query.
    pub(crate) async fn rows<R>(&self, statement: &PreparedStatement, values: impl SerializeRow) -> Result<Vec<R>, StoreError>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm>,
    {
        let _turn = self.turn_to_read().await?;
        let answer = self.answer(self.session.execute_unpaged(statement, values).await, of_read)?;
        let result = answer.into_rows_result().or_corrupt()?;
        result.rows::<R>().or_corrupt()?.map(|row| row.or_corrupt()).collect()
    }

    pub(crate) async fn row<R>(&self, statement: &PreparedStatement, values: impl SerializeRow) -> Result<Option<R>, StoreError>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm>,
    {
        Ok(self.rows(statement, values).await?.pop())
    }

    /// A query whose rows are too many to be held at once.
    pub(crate) async fn stream<R, V>(
        &self,
        statement: &PreparedStatement,
        values: V,
    ) -> Result<impl Stream<Item = Result<R, StoreError>> + use<R, V>, StoreError>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm> + 'static,
        V: SerializeRow,
    {
        let unavailable = |error: &dyn std::fmt::Display| StoreError::Unavailable(format!("Cassandra: {error}"));
        let pager = self.session.execute_iter(statement.clone(), values).await.map_err(|error| unavailable(&error))?;
        Ok(pager.rows_stream::<R>().or_corrupt()?.map(move |row| row.map_err(|error| unavailable(&error))))
    }

    /// Runs what is independent of each other, so many at once as the options say; ends with the first error.
    pub(crate) async fn all(&self, futures: Vec<BoxFuture<'_, Result<(), StoreError>>>) -> Result<(), StoreError> {
        futures::stream::iter(futures).map(Ok).try_for_each_concurrent(self.options.in_flight_max, |future| future).await
    }

    /// The answers in the order of the questions.
    pub(crate) async fn each<T: Send>(&self, futures: Vec<BoxFuture<'_, Result<T, StoreError>>>) -> Result<Vec<T>, StoreError> {
        futures::stream::iter(futures).buffered(self.options.in_flight_max).try_collect().await
    }
}

fn busy() -> StoreError {
    StoreError::Unavailable("Cassandra: too many requests are under way".to_owned())
}

/// Whatever it is that does not come to an end, a start does.
pub(crate) async fn within_start_max<T>(start: impl Future<Output = Result<T, ConnectError>>) -> Result<T, ConnectError> {
    const START_MAX: Duration = Duration::from_secs(120);
    tokio::time::timeout(START_MAX, start).await.unwrap_or(Err(ConnectError::Slow(START_MAX.as_secs())))
}

/// A session without a keyspace, with a Cassandra that this program can use.
pub(crate) async fn connect(options: &Options) -> Result<Session, ConnectError> {
    let balancing = DefaultPolicy::builder().prefer_datacenter(options.datacenter.clone()).token_aware(true).build();
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::LocalQuorum)
        .request_timeout(Some(options.request_timeout))
        .load_balancing_policy(Arc::clone(&balancing))
        .speculative_execution_policy(Some(Arc::new(ANOTHER_NODE)))
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.nodes)
        .connection_timeout(options.connect_timeout)
        .keepalive_interval(SILENCE_MAX)
        .keepalive_timeout(SILENCE_MAX)
        .default_execution_profile_handle(profile.into_handle())
        .fetch_full_schema_metadata(false)
        .refresh_metadata_on_auto_schema_agreement(false);
    if !options.user.is_empty() {
        builder = builder.user(&options.user, &options.password);
    }
    if let Some(trusted) = &options.tls {
        builder = builder.tls_context(Some(tls::context(trusted)?));
    }
    /// Something may listen and never answer.
    const CONNECT_MAX: Duration = Duration::from_secs(30);
    let connected = tokio::time::timeout(CONNECT_MAX, builder.build()).await;
    let session = connected.map_err(|_| ConnectError::Unreachable {
        nodes: options.nodes.join(", "),
        why: format!("what listens there did not speak CQL within {} s", CONNECT_MAX.as_secs()),
    })?;
    let session = session.map_err(|error| ConnectError::of_session(&options.nodes, error))?;
    server::check(&session, &options.datacenter).await?;
    Ok(session)
}
