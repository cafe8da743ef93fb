//! The cluster profile, put together: Kafka, Cassandra, Redis and PostgreSQL, this node's share of the projection, and the use cases over them.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use dunlin_app::{App, Copies, Order, Outcomes, Projector, Rules, Seldom, Shares, Ticks};
use dunlin_embedded::{RandomIds, SystemClock};
use dunlin_model::{Epoch, Millis, NodeId, Partition};
use dunlin_ports::{Clock, Directory, Ephemeral, EventLog as _, IdGen, MessageStore, SessionBus};
use dunlin_redis::{Visit, VisitError};
use tokio::{sync::watch, task::JoinHandle};
use tracing::{info, warn};

use crate::{
    clocks,
    config::{Config, DirectoryEngine, EphemeralEngine, Kafka, Sasl},
    life, node,
};

/// A partition without events says so after this.
const TICK_AFTER: Duration = Duration::from_secs(5);
/// How long after a bus that broke off it is listened to again.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often it is looked how old the oldest event is that waits; and while it is too old.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN_SOON: Duration = Duration::from_secs(1);

/// For how long Kafka counts a node that was killed among the living, with some air.
const KILLED_COUNTS_FOR: Duration = Duration::from_secs(13);

pub struct ClusterNode {
    pub app: App,
    pub messages: Arc<dunlin_cassandra::Messages>,
    log: Arc<dunlin_kafka::EventLog>,
    redis: Option<dunlin_redis::Cluster>,
    /// If users are there.
    postgres: Option<Arc<dunlin_postgres::Directory>>,
    shares: Arc<Shares>,
    /// How many other nodes there are where none is expected.
    unexpected: Arc<AtomicUsize>,
    stop: watch::Sender<bool>,
    /// Hear what other nodes tell, and look for what nobody told.
    is_outlived: watch::Receiver<bool>,
    helping: Vec<JoinHandle<()>>,
}

impl ClusterNode {
    /// Connects to everything, and refuses what is not as the configuration says. Nothing is made but the data folder.
    pub async fn open(config: &Config) -> Result<ClusterNode> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ids: Arc<dyn IdGen> = Arc::new(RandomIds);
        let node = NodeId(u64::from_be_bytes(*ids.bits128().first_chunk().expect("16 bytes begin with 8")));
        let (messages, log) = life::open(config).await?;
        if !config.engines.several_nodes {
            alone(config).await?;
        }
        clocks::agree("Cassandra", &*clock, messages.now()).await?;
        let (messages, log) = (Arc::new(messages), Arc::new(log));
        let epoch = log.begins(Partition(0)).epoch();
        let store: Arc<dyn MessageStore> = messages.clone();
        let redis = open_redis(config, &*clock).await?;
        let (ephemeral, bus) = ephemeral_and_bus(config, redis.as_ref(), node, &clock)?;
        if config.engines.directory == DirectoryEngine::Sqlite {
            make_folder(&config.server.data)?;
        }
        let (directory, postgres) = directory_and_postgres(config).await.context("the directory")?;
        make_folder(&config.server.data)?;
        if config.engines.several_nodes && config.engines.directory == DirectoryEngine::Sqlite {
            warn!(folder = %config.server.data.display(), "users and server keys are in SQLite: all nodes must be on this machine and share the folder");
        }
        let rules = Rules { dedup_window_ms: dedup_window(config).as_millis() as u64, ids_in_heads: true, ..Rules::default() };
        let dedup_window_ms = rules.dedup_window_ms;
        let outcomes = Arc::new(Outcomes::new(node, config.log.unprojected_max));
        _ = outcomes.look_for_parked(&*store).await;
        let (outlived, is_outlived) = watch::channel(false);
        let mut helping = vec![
            tokio::spawn(listen(Arc::clone(&outcomes), Arc::clone(&bus))),
            tokio::spawn({
                let (outcomes, store) = (Arc::clone(&outcomes), Arc::clone(&store));
                async move { outcomes.sweep(&*store).await }
            }),
            tokio::spawn(watch_parked(Arc::clone(&outcomes), Arc::clone(&store))),
            tokio::spawn(watch_life(epoch, Arc::clone(&store), outlived)),
            tokio::spawn(watch_backlog(Arc::clone(&outcomes), Arc::clone(&store), Arc::clone(&clock), kafka(config)?)),
        ];
        let app = App {
            log: log.clone(),
            store: Arc::clone(&store),
            directory,
            ephemeral,
            clock,
            ids: Arc::clone(&ids),
            outcomes: Arc::clone(&outcomes),
            drive: None,
            known: Arc::default(),
            identities: Arc::default(),
            node,
            robots: config.robots()?.into(),
            dedup_window_ms,
        };
        let ticks = Some(Ticks { after: TICK_AFTER, ids });
        let projector = Projector { log: log.clone(), store, bus, outcomes, node, rules, order: Order::OfEachKey, ticks };
        let (stop, stopped) = watch::channel(false);
        let shares = Arc::<Shares>::default();
        let copies = Copies { log: log.clone(), store: Arc::clone(&app.store), directory: Arc::clone(&app.directory) };
        helping.push(tokio::spawn({
            let shares = Arc::clone(&shares);
            async move { copies.keep(&shares).await }
        }));
        let unexpected = Arc::<AtomicUsize>::default();
        if !config.engines.several_nodes {
            helping.push(tokio::spawn(watch_alone(Arc::clone(&unexpected), kafka(config)?)));
        }
        tokio::spawn({
            let shares = Arc::clone(&shares);
            // Gone with its receiver once it has ended.
            async move { projector.run_shares(&shares, stopped).await }
        });
        info!(%node, "this node has joined");
        Ok(ClusterNode { app, messages, log, redis, postgres, shares, unexpected, stop, is_outlived, helping })
    }

    /// Waits until the log was reopened without this node, which then must end: it would go on with the numbers of the old one.
    pub async fn outlived(&self) {
        let mut is_outlived = self.is_outlived.clone();
        if is_outlived.wait_for(|is_outlived| *is_outlived).await.is_err() {
            std::future::pending().await
        }
    }

    /// What stands in the way of full service, in sentences for the operator.
    pub fn troubles(&self) -> Vec<String> {
        let mut stuck = BTreeMap::<String, Vec<String>>::new();
        for (partition, progress) in self.shares.progress() {
            if let Some(trouble) = progress.trouble {
                stuck.entry(trouble).or_default().push(partition.0.to_string());
            }
        }
        let stuck = stuck.into_iter().map(|(trouble, partitions)| format!("partitions {}: {trouble}", partitions.join(", ")));
        let parked = node::parked_trouble(&self.app.outcomes);
        let redis = self.redis.as_ref().and_then(dunlin_redis::Cluster::trouble);
        let overdue = self.app.outcomes.is_overdue().then(|| {
            "what waits to be projected is older than half of the time that Kafka keeps it: nothing more is taken until it is not"
                .to_owned()
        });
        let postgres = self.postgres.iter().flat_map(|postgres| postgres.troubles());
        let clock = clocks::trouble("Kafka", self.log.skew_ms());
        let unexpected = self.unexpected.load(Ordering::Relaxed);
        let unexpected = (unexpected > 0).then(|| format!("engines.several_nodes is off, but there are other nodes ({unexpected})"));
        let rest = [self.shares.trouble(), self.log.trouble(), clock, self.messages.trouble(), redis, parked, overdue, unexpected];
        stuck.chain(rest.into_iter().flatten()).chain(postgres).collect()
    }

    /// Whether it projects some of the log.
    pub fn has_share(&self) -> bool {
        !self.shares.progress().is_empty()
    }

    /// Whether messages can be sent here. They wait in the log for whatever else is away.
    pub fn is_serving(&self) -> bool {
        self.log.trouble().is_none() && !self.app.outcomes.is_overdue()
    }

    /// Numbers for dashboards, each with what it says.
    pub fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let progress = self.shares.progress();
        let oldest = progress.iter().map(|(_, progress)| progress.log_time).min().unwrap_or(Millis::ZERO);
        let behind_ms = self.app.clock.now().0.saturating_sub(oldest.0);
        vec![
            ("partitions", "Partitions that this node projects", progress.len() as f64),
            ("behind_seconds", "How long ago the slowest of them was last known to be complete", behind_ms as f64 / 1000.0),
            (
                "waiting_events",
                "Events of this node that are durable but whose outcome it does not know yet",
                self.app.outcomes.waiting_len() as f64,
            ),
            ("parked_log_keys", "Log keys that wait for the operator", self.app.outcomes.parked_len() as f64),
            ("troubles", "What stands in the way of full service", self.troubles().len() as f64),
        ]
    }

    /// Leaves: other nodes take over this one's partitions at once.
    pub async fn leave(&self) {
        // Nobody listening: it has ended already.
        let _ = self.stop.send(true);
        self.stop.closed().await;
        self.helping.iter().for_each(JoinHandle::abort);
        self.log.close().await;
    }
}

/// Refuses to be a second node where none is expected: what only one process has, the other one lacks. One that was killed is waited for.
async fn alone(config: &Config) -> Result<()> {
    let kafka = kafka(config)?;
    let until = Instant::now() + KILLED_COUNTS_FOR;
    loop {
        let others = dunlin_kafka::nodes(&kafka).await.context("the log")?;
        if others == 0 {
            return Ok(());
        }
        ensure!(
            Instant::now() < until,
            "engines.several_nodes is off, but there are other nodes ({others}) on topic {}: stop them, or turn it on",
            kafka.topic
        );
        info!(others, "there are other nodes, or they were killed just now");
        tokio::time::sleep(LOOK_AGAIN_SOON).await;
    }
}

/// Two that start at the same moment don't see each other, and one that is told to be one of several does not look.
async fn watch_alone(unexpected: Arc<AtomicUsize>, log: dunlin_kafka::Options) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        if let Ok(nodes) = dunlin_kafka::nodes(&log).await {
            unexpected.store(nodes.saturating_sub(1), Ordering::Relaxed);
        }
    }
}

async fn listen(outcomes: Arc<Outcomes>, bus: Arc<dyn SessionBus>) {
    static UNHEARD: Seldom = Seldom::new();
    loop {
        match outcomes.listen(&*bus).await {
            Ok(()) => return,
            Err(error) => {
                if let Some(unsaid) = UNHEARD.now() {
                    warn!(%error, unsaid, "other nodes can't be heard; outcomes are looked up");
                }
            }
        }
        tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
    }
}

/// What another node parks or unparks shows here after a while.
async fn watch_parked(outcomes: Arc<Outcomes>, store: Arc<dyn MessageStore>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        _ = outcomes.look_for_parked(&*store).await;
    }
}

/// Tells when the log was reopened without this node: it may have stood still meanwhile.
async fn watch_life(epoch: Epoch, store: Arc<dyn MessageStore>, outlived: watch::Sender<bool>) {
    loop {
        if let Ok(Some(now)) = store.epoch().await
            && now != epoch
        {
            outlived.send_replace(true);
        }
        tokio::time::sleep(LOOK_AGAIN_SOON).await;
    }
}

/// Kafka deletes what is too old, projected or not. Long before that, nothing more is taken.
async fn watch_backlog(outcomes: Arc<Outcomes>, store: Arc<dyn MessageStore>, clock: Arc<dyn Clock>, log: dunlin_kafka::Options) {
    loop {
        // While it can't be told, it stays as it is: a store that is away makes the backlog grow, but not by days.
        if let Ok(horizon) = store.horizon(log.partitions).await {
            outcomes.set_overdue(is_overdue(clock.now(), horizon, log.retention));
        }
        tokio::time::sleep(if outcomes.is_overdue() { LOOK_AGAIN_SOON } else { LOOK_AGAIN }).await;
    }
}

/// Whether an event that is not projected yet may be older than half of the retention. A log that was never projected has no horizon.
fn is_overdue(now: Millis, horizon: Millis, retention: Duration) -> bool {
    horizon > Millis::ZERO && u128::from(now.0.saturating_sub(horizon.0)) > retention.as_millis() / 2
}

pub fn kafka(config: &Config) -> Result<dunlin_kafka::Options> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let kafka = &config.kafka;
    Ok(dunlin_kafka::Options {
        partitions: kafka.partitions,
        replicas: kafka.replicas,
        retention: DAY * u32::try_from(kafka.retention_days).unwrap_or(u32::MAX),
        properties: way_in(kafka)?,
        // Nodes with another keyspace make another state of the same log; they take nothing from these.
        group: format!("{}-{}-projectors", kafka.topic, config.cassandra.keyspace),
        ..dunlin_kafka::Options::new(kafka.brokers.join(","), &kafka.topic)
    })
}

/// Whether the files of passwords and certificates are there, of the engines that are used.
pub fn check_files(config: &Config) -> Result<()> {
    if !config.is_embedded() {
        kafka(config)?;
        cassandra(config)?;
    }
    if config.engines.ephemeral == EphemeralEngine::Redis || config.engines.bus == EphemeralEngine::Redis {
        redis(config)?;
    }
    if config.engines.directory == DirectoryEngine::Postgres {
        postgres(config)?;
    }
    Ok(())
}

/// As librdkafka calls it.
fn way_in(kafka: &Kafka) -> Result<BTreeMap<String, String>> {
    let mechanism = match kafka.sasl {
        Sasl::None => None,
        Sasl::Plain => Some("PLAIN"),
        Sasl::ScramSha256 => Some("SCRAM-SHA-256"),
        Sasl::ScramSha512 => Some("SCRAM-SHA-512"),
    };
    let protocol = match (mechanism.is_some(), kafka.tls) {
        (false, false) => "plaintext",
        (false, true) => "ssl",
        (true, false) => "sasl_plaintext",
        (true, true) => "sasl_ssl",
    };
    let mut properties = vec![("security.protocol", protocol.to_owned())];
    if let Some(mechanism) = mechanism {
        let password = secret("kafka.password_file", &kafka.password_file)?.unwrap_or_default();
        properties.extend([("sasl.mechanism", mechanism.to_owned()), ("sasl.username", kafka.user.clone()), ("sasl.password", password)]);
    }
    if kafka.tls && !kafka.ca_file.as_os_str().is_empty() {
        properties.push(("ssl.ca.location", kafka.ca_file.to_str().context("kafka.ca_file must be UTF-8")?.to_owned()));
    }
    Ok(properties.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

pub fn cassandra(config: &Config) -> Result<dunlin_cassandra::Options> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let cassandra = &config.cassandra;
    let retention = DAY * u32::try_from(config.kafka.retention_days).unwrap_or(u32::MAX);
    Ok(dunlin_cassandra::Options {
        nodes: cassandra.nodes.clone(),
        keyspace: cassandra.keyspace.clone(),
        datacenter: cassandra.datacenter.clone(),
        replication: BTreeMap::from([(cassandra.datacenter.clone(), cassandra.replicas)]),
        user: cassandra.user.clone(),
        password: secret("cassandra.password_file", &cassandra.password_file)?.unwrap_or_default(),
        tls: certificates("cassandra.ca_file", cassandra.tls, &cassandra.ca_file)?,
        dedup_keep: dedup_window(config) + retention,
        ..dunlin_cassandra::Options::default()
    })
}

pub fn redis(config: &Config) -> Result<dunlin_redis::Options> {
    let redis = &config.redis;
    let mut options = dunlin_redis::Options::new(redis.nodes.iter().cloned());
    options.prefix.clone_from(&redis.prefix);
    options.username = Some(redis.user.clone()).filter(|user| !user.is_empty());
    options.password = secret("redis.password_file", &redis.password_file)?;
    options.tls = redis.tls;
    options.trusted = certificates("redis.ca_file", redis.tls, &redis.ca_file)?;
    Ok(options)
}

/// Redis that is away is done without; one that answers must be right.
async fn open_redis(config: &Config, clock: &dyn Clock) -> Result<Option<dunlin_redis::Cluster>> {
    let engines = &config.engines;
    if engines.ephemeral != EphemeralEngine::Redis && engines.bus != EphemeralEngine::Redis {
        return Ok(None);
    }
    let options = redis(config)?;
    match Visit::pay(&options).await {
        Ok(mut visit) => clocks::agree("Redis", clock, visit.now()).await?,
        Err(VisitError::Away(why)) => warn!(why, "starting without Redis: slower, and nothing is lost"),
        Err(error) => return Err(error.into()),
    }
    Ok(Some(dunlin_redis::Cluster::open(&options).context("redis")?))
}

type EphemeralAndBus = (Arc<dyn Ephemeral>, Arc<dyn SessionBus>);

fn ephemeral_and_bus(
    config: &Config,
    redis: Option<&dunlin_redis::Cluster>,
    node: NodeId,
    clock: &Arc<dyn Clock>,
) -> Result<EphemeralAndBus> {
    let cluster = || redis.cloned().context("redis is configured where it is used");
    let ephemeral: Arc<dyn Ephemeral> = match config.engines.ephemeral {
        EphemeralEngine::Memory => Arc::new(dunlin_embedded::Ephemeral::new(Arc::clone(clock))),
        EphemeralEngine::Redis => Arc::new(dunlin_redis::Ephemeral::new(cluster()?)),
    };
    let bus: Arc<dyn SessionBus> = match config.engines.bus {
        EphemeralEngine::Memory => Arc::new(dunlin_embedded::SessionBus::new(node)),
        EphemeralEngine::Redis => Arc::new(dunlin_redis::SessionBus::new(cluster()?, node)),
    };
    Ok((ephemeral, bus))
}

/// Users and server keys, wherever the configuration has them.
pub async fn directory(config: &Config) -> Result<Arc<dyn Directory>> {
    Ok(directory_and_postgres(config).await?.0)
}

async fn directory_and_postgres(config: &Config) -> Result<(Arc<dyn Directory>, Option<Arc<dunlin_postgres::Directory>>)> {
    match config.engines.directory {
        DirectoryEngine::Sqlite => {
            let sqlite = dunlin_embedded::Directory::open(&config.server.data.join("directory.sqlite"))?;
            Ok((Arc::new(sqlite), None))
        }
        DirectoryEngine::Postgres => {
            let postgres = Arc::new(dunlin_postgres::Directory::open(&postgres(config)?).await?);
            Ok((postgres.clone(), Some(postgres)))
        }
    }
}

pub fn postgres(config: &Config) -> Result<dunlin_postgres::Options> {
    let postgres = &config.postgres;
    // A URL may ask for TLS by itself, so what is trusted is read in any case.
    Ok(dunlin_postgres::Options {
        password: secret("postgres.password_file", &postgres.password_file)?,
        trusted: certificates("postgres.ca_file", true, &postgres.ca_file)?,
        ..config.postgres_options()?
    })
}

/// For the shared secret, and for SQLite.
fn make_folder(data: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(data).with_context(|| format!("failed to make {}", data.display()))
}

/// What a file holds; none if none is named.
pub fn secret(key: &str, file: &Path) -> Result<Option<String>> {
    if file.as_os_str().is_empty() {
        return Ok(None);
    }
    let text = fs::read_to_string(file).with_context(|| format!("{key}: failed to read {}", file.display()))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// The PEM file of those who are trusted, where one is asked for.
fn certificates(key: &str, is_asked_for: bool, file: &Path) -> Result<Option<Vec<u8>>> {
    if !is_asked_for || file.as_os_str().is_empty() {
        return Ok(None);
    }
    let pem = fs::read(file).with_context(|| format!("{key}: failed to read {}", file.display()))?;
    // Drivers take a file without any for one that trusts nobody, and blame the server.
    let is_pem = String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----");
    ensure!(is_pem, "{key}: {} holds no certificate in PEM", file.display());
    Ok(Some(pem))
}

fn dedup_window(config: &Config) -> Duration {
    const HOUR_S: u64 = 60 * 60;
    Duration::from_secs(config.messages.dedup_window_h * HOUR_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_more_than_half_of_the_retention_is_overdue() {
        let (now, retention) = (Millis(1_000_000), Duration::from_secs(200));
        assert!(!is_overdue(now, Millis(900_000), retention));
        assert!(is_overdue(now, Millis(899_999), retention));
        assert!(!is_overdue(now, Millis::ZERO, retention), "nothing was projected yet");
        assert!(!is_overdue(now, Millis(1_000_001), retention));
    }
}
