//! The connections to one database: so many and no more, and nobody waits for one without end.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dunlin_ports::Breaker;
use futures::future::join;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};
use tokio_postgres::{
    Client, Config, Row, SimpleQueryMessage, SimpleQueryRow, Statement,
    config::Host,
    types::{ToSql, Type},
};
use tracing::debug;

use crate::{
    error::{Fault, of_commit, of_connect, of_statement, reason},
    tls::Connector,
};

/// How many calls wait for a connection to one database. More are turned away, rather than kept for longer than anyone waits.
const WAITING_MAX: usize = 1024;

/// How many statements the server keeps for a connection: two for each shard. Each takes some memory there.
const PREPARED_MAX: usize = 128;

/// How long a commit that is not confirmed keeps its connection. Not for ever: the server may hang, and another have taken its place.
const LINGER_MAX: Duration = Duration::from_secs(600);

type Answer<T> = Result<T, tokio_postgres::Error>;

/// A value that a statement is given.
pub type Given<'a> = (&'a (dyn ToSql + Sync), Type);

pub struct Pool {
    pub name: String,
    /// One for each host, tried in their order.
    hosts: Vec<Config>,
    connector: Connector,
    wait_max: Duration,
    /// As many as there may be connections.
    turns: Arc<Semaphore>,
    /// Writes take no more than half of them: commits may wait for a standby, and reads are to go on.
    writes: Arc<Semaphore>,
    /// Whether the last commit was not confirmed in time.
    is_unconfirmed: AtomicBool,
    places: Semaphore,
    idle: Mutex<Vec<Link>>,
    breaker: Breaker,
}

impl Pool {
    /// One that does not answer for as long as a call may take is not asked any more.
    pub fn new(
        name: &str,
        config: Config,
        connector: Connector,
        connections_max: usize,
        wait_max: Duration,
        call_timeout: Duration,
    ) -> Arc<Pool> {
        Arc::new(Pool {
            name: name.to_owned(),
            hosts: each_host(&config),
            connector,
            wait_max,
            turns: Arc::new(Semaphore::new(connections_max)),
            writes: Arc::new(Semaphore::new(connections_max.div_ceil(2))),
            is_unconfirmed: AtomicBool::new(false),
            places: Semaphore::new(WAITING_MAX),
            idle: Mutex::default(),
            breaker: Breaker::new(format!("PostgreSQL {name}"), call_timeout),
        })
    }

    /// The same as [`Pool::get`], for a transaction that writes.
    pub async fn get_to_write(self: &Arc<Pool>, deadline: Instant) -> Result<Loan, Fault> {
        // Before the wait, too.
        self.breaker.check().map_err(Fault::Final)?;
        let until = deadline.min(Instant::now() + self.wait_max);
        let Ok(write) = timeout_at(until, Arc::clone(&self.writes).acquire_owned()).await else {
            return Err(Fault::Passing(format!("no connection to PostgreSQL {} got free in time", self.name)));
        };
        let loan = self.get(deadline).await?;
        Ok(Loan { write: Some(write.expect("the semaphore is never closed")), ..loan })
    }

    /// A connection for a call that must end by `deadline`.
    pub async fn get(self: &Arc<Pool>, deadline: Instant) -> Result<Loan, Fault> {
        self.breaker.check().map_err(Fault::Final)?;
        let Ok(_place) = self.places.try_acquire() else {
            return Err(Fault::Passing(format!("{WAITING_MAX} calls wait for PostgreSQL {} already", self.name)));
        };
        let until = deadline.min(Instant::now() + self.wait_max);
        let Ok(turn) = timeout_at(until, Arc::clone(&self.turns).acquire_owned()).await else {
            return Err(Fault::Passing(format!("no connection to PostgreSQL {} got free in time", self.name)));
        };
        let turn = turn.expect("the semaphore is never closed");
        let link = match self.open_idle() {
            Some(link) => link,
            None => Link { client: self.connect(deadline).await?, prepared: Mutex::default() },
        };
        let half = deadline.saturating_duration_since(Instant::now()) / 2;
        Ok(Loan { pool: Arc::clone(self), link, deadline, half, turn, write: None })
    }

    fn open_idle(&self) -> Option<Link> {
        let mut idle = self.idle();
        idle.retain(|link| !link.client.is_closed());
        idle.pop()
    }

    async fn connect(self: &Arc<Pool>, deadline: Instant) -> Result<Client, Fault> {
        let reached = self.reach(deadline).await;
        if let Err(fault) = &reached {
            self.failed(&fault.why());
        }
        reached
    }

    /// Notes that it did not answer. Once that was so for too long, only this asks it, until it does.
    fn failed(self: &Arc<Pool>, why: &str) {
        if !self.breaker.failed(why) {
            return;
        }
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Breaker::PAUSE).await;
                // Gone with its pool.
                let Some(pool) = pool.upgrade().filter(|pool| pool.breaker.trouble().is_some()) else { return };
                if pool.answers().await {
                    pool.breaker.answered();
                }
            }
        });
    }

    async fn answers(&self) -> bool {
        let deadline = Instant::now() + self.wait_max;
        let Ok(client) = self.reach(deadline).await else { return false };
        timeout_at(deadline, client.simple_query("SELECT 1")).await.is_ok_and(|answer| answer.is_ok())
    }

    /// To the first host that takes writes. One that hangs costs no more than a wait.
    async fn reach(&self, deadline: Instant) -> Result<Client, Fault> {
        let mut fault = Fault::Passing(format!("PostgreSQL {} has no host", self.name));
        for host in &self.hosts {
            let failed = match timeout_at(deadline.min(Instant::now() + self.wait_max), self.connect_to(host)).await {
                Ok(Ok(client)) => return Ok(client),
                Ok(Err(error)) => of_connect(&self.name, &error),
                Err(_) => Fault::Passing(format!("PostgreSQL {}: connecting took too long", self.name)),
            };
            // A host that is away says less than one that is there and refuses.
            if matches!(fault, Fault::Passing(_)) {
                fault = failed;
            }
        }
        Err(fault)
    }

    #[cfg_attr(not(feature = "tls"), expect(clippy::clone_on_copy, reason = "what connects without TLS is Copy"))]
    async fn connect_to(&self, host: &Config) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = host.connect(self.connector.clone()).await?;
        let name = self.name.clone();
        // Ends with its client, or with the server.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(database = name, reason = reason(&error), "a connection to PostgreSQL broke");
            }
        });
        // All that is prepared finds rows by their keys: there is no better plan for one value than for another, and no use in making five.
        client.batch_execute("SET plan_cache_mode = force_generic_plan").await?;
        Ok(client)
    }

    /// Why it is not asked at present, or can only be read.
    pub fn trouble(&self) -> Option<String> {
        let unconfirmed = || format!("PostgreSQL {} does not confirm what is written: is its standby there?", self.name);
        self.breaker.trouble().or_else(|| self.is_unconfirmed.load(Ordering::Relaxed).then(unconfirmed))
    }

    fn confirmed(&self, in_time: bool) {
        self.is_unconfirmed.store(!in_time, Ordering::Relaxed);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same for one host at a time. The driver tries them in turn too, but one that takes the connection and says nothing would keep it.
fn each_host(config: &Config) -> Vec<Config> {
    let mut each = Vec::new();
    for (index, host) in config.get_hosts().iter().enumerate() {
        let mut one = Config::new();
        match host {
            Host::Tcp(name) => one.host(name),
            Host::Unix(path) => one.host_path(path),
        };
        let first_or = |index: usize| config.get_ports().get(index).or(config.get_ports().first());
        first_or(index).map(|port| one.port(*port));
        config.get_hostaddrs().get(index).map(|address| one.hostaddr(*address));
        config.get_user().map(|user| one.user(user));
        config.get_password().map(|password| one.password(password));
        config.get_dbname().map(|name| one.dbname(name));
        config.get_options().map(|options| one.options(options));
        config.get_application_name().map(|name| one.application_name(name));
        config.get_connect_timeout().map(|limit| one.connect_timeout(*limit));
        config.get_tcp_user_timeout().map(|limit| one.tcp_user_timeout(*limit));
        one.keepalives_idle(config.get_keepalives_idle());
        one.ssl_mode(config.get_ssl_mode()).ssl_negotiation(config.get_ssl_negotiation()).channel_binding(config.get_channel_binding());
        one.target_session_attrs(config.get_target_session_attrs());
        each.push(one);
    }
    each
}

/// A connection, and what the server has prepared for it.
struct Link {
    client: Client,
    prepared: Mutex<HashMap<String, Statement>>,
}

impl Link {
    fn prepared(&self) -> MutexGuard<'_, HashMap<String, Statement>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, sql: &str, statement: Statement) {
        let mut prepared = self.prepared();
        if prepared.len() >= PREPARED_MAX {
            prepared.clear();
        }
        prepared.insert(sql.to_owned(), statement);
    }
}

/// A connection that goes back to its pool only if it is given back. Dropped, as when a call fails or its caller stops waiting, it is closed,
/// and with it whatever transaction it was in.
pub struct Loan {
    pool: Arc<Pool>,
    link: Link,
    deadline: Instant,
    /// No answer is waited for longer, so that there is time for another attempt if a server hangs.
    half: Duration,
    turn: OwnedSemaphorePermit,
    write: Option<OwnedSemaphorePermit>,
}

impl Loan {
    /// One round trip; nothing stays prepared, so that 64 shards don't mean 64 plans of everything in every connection.
    pub async fn query(&self, sql: &str, given: &[Given<'_>]) -> Result<Vec<Row>, Fault> {
        self.in_time(self.client().query_typed(sql, given)).await
    }

    /// For what is asked most: the server plans it once for each connection.
    pub async fn query_prepared(&self, sql: &str, given: &[Given<'_>]) -> Result<Vec<Row>, Fault> {
        let known = self.link.prepared().get(sql).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let types: Vec<Type> = given.iter().map(|(_, of)| of.clone()).collect();
                let statement = self.in_time(self.client().prepare_typed(sql, &types)).await?;
                self.link.keep(sql, statement.clone());
                statement
            }
        };
        let values: Vec<&(dyn ToSql + Sync)> = given.iter().map(|(value, _)| *value).collect();
        let answer = self.in_time(self.client().query(&statement, &values)).await;
        if answer.is_err() {
            // Tables may have changed under it.
            self.link.prepared().clear();
        }
        answer
    }

    /// Statements without values, all in one round trip; the rows of all of them.
    pub async fn run(&self, sql: &str) -> Result<Vec<SimpleQueryRow>, Fault> {
        let messages = self.in_time(self.client().simple_query(sql)).await?;
        Ok(messages.into_iter().filter_map(|message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None }).collect())
    }

    /// Ends a transaction well.
    pub async fn commit(self) -> Result<(), Fault> {
        match timeout_at(self.patience(), self.client().batch_execute("COMMIT")).await {
            Ok(Ok(())) => {
                self.confirmed();
                Ok(())
            }
            Ok(Err(error)) => Err(of_commit(&self.pool.name, &error)),
            Err(_) => Err(self.unconfirmed()),
        }
    }

    /// A last statement, and the end of its transaction, in one round trip. Nothing is committed if it fails.
    pub async fn commit_with(self, sql: &str, given: &[Given<'_>]) -> Result<Vec<Row>, Fault> {
        let client = self.client();
        // Sent in this order.
        let both = join(client.query_typed(sql, given), client.batch_execute("COMMIT"));
        let ended = timeout_at(self.patience(), both).await.ok();
        self.ended(ended)
    }

    /// What begins a transaction, a statement and the end, in one round trip. Nothing is committed if either fails.
    pub async fn transaction(self, begin: &str, sql: &str, given: &[Given<'_>]) -> Result<Vec<Row>, Fault> {
        let client = self.client();
        let both = join(client.query_typed(sql, given), client.batch_execute("COMMIT"));
        // Sent in this order.
        let (begun, ended) = join(self.in_time(client.simple_query(begin)), timeout_at(self.patience(), both)).await;
        match (begun, ended) {
            // It is not a standby that is waited for. What was sent may still be done.
            (Err(fault), Err(_)) => Err(Fault::Doubtful(fault.why())),
            (_, ended) => self.ended(ended.ok()),
        }
    }

    /// What came of a last statement and the commit behind it; none in time.
    fn ended(self, ended: Option<(Answer<Vec<Row>>, Answer<()>)>) -> Result<Vec<Row>, Fault> {
        match ended {
            Some((Ok(rows), Ok(()))) => {
                self.confirmed();
                Ok(rows)
            }
            // The server has refused it, and so the transaction.
            Some((Err(error), _)) if error.code().is_some() => Err(of_statement(&self.pool.name, &error)),
            Some((Err(error), _) | (_, Err(error))) => Err(of_commit(&self.pool.name, &error)),
            None => Err(self.unconfirmed()),
        }
    }

    fn confirmed(self) {
        self.pool.breaker.answered();
        self.pool.confirmed(true);
        self.give_back();
    }

    /// The server goes on waiting for its standby, whoever listens: until that ends its connection counts, else more and more would be opened.
    fn unconfirmed(self) -> Fault {
        self.pool.confirmed(false);
        let fault = Fault::Doubtful(format!("PostgreSQL {} did not confirm a commit in time", self.pool.name));
        // Answered after whatever was said before.
        tokio::spawn(async move { timeout(LINGER_MAX, self.client().simple_query("")).await.is_ok() });
        fault
    }

    /// Only outside of a transaction.
    pub fn give_back(self) {
        let Loan { pool, link, turn, write, .. } = self;
        pool.idle().push(link);
        // After the connection, so that whoever has a turn finds it.
        drop((turn, write));
    }

    /// For what none of the above does.
    pub fn client(&self) -> &Client {
        &self.link.client
    }

    pub fn database(&self) -> &str {
        &self.pool.name
    }

    fn patience(&self) -> Instant {
        self.deadline.min(Instant::now() + self.half)
    }

    async fn in_time<T>(&self, asked: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Fault> {
        match timeout_at(self.patience(), asked).await {
            Ok(answer) => {
                match &answer {
                    // It broke off.
                    Err(error) if error.code().is_none() => self.pool.failed(&reason(error)),
                    _ => self.pool.breaker.answered(),
                }
                answer.map_err(|error| of_statement(&self.pool.name, &error))
            }
            Err(_) => {
                self.pool.failed("no answer in time");
                Err(Fault::Passing(format!("PostgreSQL {} did not answer in time", self.pool.name)))
            }
        }
    }
}
