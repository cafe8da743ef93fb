//! `dunlin bench cluster`: a node on the engines of a configuration, with the drivers alone beside it, in a keyspace and a topic of its own.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use dunlin_app::{App, Destination, HistoryQuery, InboxQuery, SendMessage};
use dunlin_bench::{
    Lane, Latencies, Ledger, People, Progress, Summary, closed,
    cluster::{Alone, ClusterReport, Hot, Sends as SendsOverHttp, Spent, table},
    http::{Cpu, Run, Site, check, listener},
    report::Machine,
    sends::{Aim, Pace, Sends},
    setup,
};
use dunlin_client::Client;
use dunlin_model::{
    Body, ClientId, Content, ConversationId, Event, EventId, Field, Message, MessageType, Millis, Name, Opening, Pair, Partition, RULES,
    Seq, UserChange, UserId,
};
use dunlin_ports::{Directory as _, EventLog as _};
use futures::StreamExt as _;

use super::{
    http::{Served, unix_s},
    seconds,
};
use crate::{
    cluster::{ClusterNode, cassandra, kafka, postgres},
    config::{Config, DirectoryEngine},
    life,
};

const USERS: usize = 2_000;
const USERS_QUICK: usize = 100;
const AT_ONCE: usize = 64;
const MANY: usize = 256;
/// More than one bucket.
const LONG: usize = 12_000;
const LONG_QUICK: usize = 200;
const CROWD: usize = 10_000;
const CROWD_QUICK: usize = 50;

/// Measure a node on a cluster's engines, and check that nothing was lost.
#[derive(Clone, Debug, clap::Args)]
pub struct ClusterBench {
    /// The configuration that names the engines; a keyspace and a topic of its own are made there, and deleted at the end
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// How long each phase runs
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = seconds)]
    pub seconds: f64,
    /// Where to make the temporary folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Write all numbers as JSON; - for stdout (the table then goes to stderr)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Try it out: short phases, few users
    #[arg(long)]
    pub quick: bool,
}

/// Runs the bench and writes what it found. Exit code 1 if the check found something wrong.
pub fn cluster(args: ClusterBench) -> Result<ExitCode> {
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    if let Some(file) = args.json.as_ref().filter(|_| !to_stdout) {
        // Before all the work rather than after it.
        fs::File::create(file).with_context(|| format!("failed to write {}", file.display()))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("failed to start")?;
    let report = runtime.block_on(measure(&args))?;
    let (table, json) = (table(&report), report.to_json());
    match &args.json {
        Some(_) if to_stdout => {
            io::stderr().lock().write_all(table.as_bytes())?;
            io::stdout().lock().write_all(json.as_bytes())?;
        }
        file => {
            io::stdout().lock().write_all(table.as_bytes())?;
            if let Some(file) = file {
                fs::write(file, json).with_context(|| format!("failed to write {}", file.display()))?;
            }
        }
    }
    Ok(if report.check.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure(args: &ClusterBench) -> Result<ClusterReport> {
    let (mut config, _) = Config::load(Some(&args.config), std::env::vars(), &[])?;
    ensure!(!config.is_embedded(), "{} names no cluster: `dunlin bench` measures a data folder", args.config.display());
    let name = format!("dunlin_bench_{:x}", unix_s());
    let scratch = dunlin_bench::scratch(&args.dir).with_context(|| format!("failed to make a folder in {}", args.dir.display()))?;
    let users = match config.engines.directory {
        DirectoryEngine::Sqlite => None,
        DirectoryEngine::Postgres => Some(postgres(&config)?),
    };
    (config.kafka.topic, config.cassandra.keyspace, config.redis.prefix) = (name.clone(), name.clone(), format!("{name}:"));
    // Users of its own, too.
    (config.server.data, config.engines.directory) = (scratch.path().join("data"), DirectoryEngine::Sqlite);
    life::make(&config).await?;
    let phase_s = if args.quick { 0.5 } else { args.seconds };
    let bench = Bench { args, config: &config, users, name, lasting: Duration::from_secs_f64(phase_s), progress: Progress::new(26) };
    // Someone who has seen enough is left with nothing to clear up.
    let report = tokio::select! {
        report = bench.run(phase_s) => report,
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
    };
    // Whatever came of it.
    if let Some(users) = &bench.users {
        dunlin_postgres::bare::drop_scratch(users, &bench.name).await.context("failed to delete the bench's database")?;
    }
    dunlin_kafka::delete_topic(&kafka(&config)?).await.context("failed to delete the bench's topic")?;
    dunlin_cassandra::schema::delete(&cassandra(&config)?).await.context("failed to delete the bench's keyspace")?;
    report
}

struct Bench<'a> {
    args: &'a ClusterBench,
    config: &'a Config,
    /// Where PostgreSQL is, if the configuration has users there.
    users: Option<dunlin_postgres::Options>,
    /// Of keyspace, topic and database.
    name: String,
    lasting: Duration,
    progress: Progress,
}

impl Bench<'_> {
    async fn run(&self, seconds_per_phase: f64) -> Result<ClusterReport> {
        let run = format!("-{:x}", unix_s());
        let people = Arc::new(People::of_run(if self.args.quick { USERS_QUICK } else { USERS }, &run)?);
        let mut ledger = Ledger::default();
        let directory = self.directory().await?;
        let log = self.log(&people).await?;
        let bare = self.bare_driver(&people).await?;
        let backlog = self.backlog(&people).await?;
        let node = ClusterNode::open(self.config).await?;
        self.progress.phase("users and conversations");
        setup::prepare(&node.app, &people, &mut ledger, &self.progress).await?;
        let mut costs = vec![self.one_by_one(&node.app, &people, &mut ledger, "a short conversation", people.quiet(0)).await?];
        let (sends, requests) = self.use_case(&node, &people, &mut ledger).await?;
        let store = [vec![bare, backlog], sends].concat();
        self.progress.phase("a long conversation");
        let long = people.quiet(1);
        let share = vec![long.clone(); if self.args.quick { LONG_QUICK } else { LONG } / AT_ONCE];
        self.sends(&node.app, &people, &mut ledger, vec![Aim::These(share); AT_ONCE], None).await?;
        costs.push(self.one_by_one(&node.app, &people, &mut ledger, &format!("one of {LONG} messages"), long).await?);
        let reads = self.reads(&node.app, &people).await?;
        let hot = [self.hot(&node, &people, 1).await?, self.hot(&node, &people, AT_ONCE).await?].into();
        costs.push(self.one_by_one(&node.app, &people, &mut ledger, "a short one, after all these", people.quiet(2)).await?);
        node.leave().await;
        drop(node);

        let data = &self.config.server.data;
        let variables = [
            ("DUNLIN_KAFKA_TOPIC", self.config.kafka.topic.clone()),
            ("DUNLIN_CASSANDRA_KEYSPACE", self.config.cassandra.keyspace.clone()),
            ("DUNLIN_ENGINES_DIRECTORY", "sqlite".to_owned()),
            ("DUNLIN_REDIS_PREFIX", self.config.redis.prefix.clone()),
        ];
        let mut served = Served::start(data, &[OsStr::new("--config"), self.args.config.as_os_str()], &variables)?;
        let host = Client::new(served.url.parse().context("the server has an address")?, &served.key);
        let site = Site::prepare(host, Arc::clone(&people), Some(served.process.id()), &self.progress).await?;
        let sends = self.over_http(&site, &mut ledger).await?;
        self.progress.phase("checking");
        let check = check(&site, &ledger, |messages| self.progress.say(&format!("{messages} messages"))).await?;
        served.stop()?;
        Ok(ClusterReport {
            machine: Machine {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                cores: thread::available_parallelism().map_or(1, usize::from),
                file_system: String::new(),
                seconds_per_phase,
            },
            partitions: self.config.kafka.partitions,
            log,
            store,
            writes_per_message: requests.0,
            reads_per_message: requests.1,
            sends,
            costs,
            reads,
            hot,
            directory,
            check,
        })
    }

    /// A bare driver with one statement each, and the directory, in a database of its own.
    async fn directory(&self) -> Result<Vec<Alone>> {
        let Some(users) = &self.users else { return Ok(Vec::new()) };
        self.progress.phase("a database for users");
        let scratch = dunlin_postgres::bare::make_scratch(users, &self.name).await?;
        let bare = Arc::new(dunlin_postgres::bare::Bare::open(&scratch).await?);
        let directory = Arc::new(dunlin_postgres::Directory::open(&scratch).await?);
        let written = Arc::new([AtomicU64::new(1), AtomicU64::new(1)]);
        let (driver, last) = (Arc::clone(&bare), Arc::clone(&written));
        let bare_write = move |number: u64| {
            let (bare, last) = (Arc::clone(&driver), Arc::clone(&last));
            async move {
                bare.write(number).await?;
                last[0].fetch_max(number, Ordering::Relaxed);
                Ok(())
            }
        };
        let (written_to, last) = (Arc::clone(&directory), Arc::clone(&written));
        let write = move |number: u64| {
            let (directory, last) = (Arc::clone(&written_to), Arc::clone(&last));
            async move {
                let change = UserChange { display_name: Field::Set(Name::parse("Somebody")?), ..UserChange::default() };
                directory.upsert_user(&user_numbered(number)?, change, Millis(number)).await?;
                last[1].fetch_max(number, Ordering::Relaxed);
                Ok(())
            }
        };
        let (driver, last) = (Arc::clone(&bare), Arc::clone(&written));
        let bare_read = move |number: u64| {
            let (bare, last) = (Arc::clone(&driver), Arc::clone(&last));
            async move {
                let number = 1 + number % (last[0].load(Ordering::Relaxed) / 2).max(1);
                ensure!(bare.read(number).await?, "the bare driver's user {number} is not there");
                Ok(())
            }
        };
        let last = Arc::clone(&written);
        let read = move |number: u64| {
            let (directory, last) = (Arc::clone(&directory), Arc::clone(&last));
            async move {
                let number = 1 + number % (last[1].load(Ordering::Relaxed) / 2).max(1);
                ensure!(directory.user(&user_numbered(number)?).await?.is_some(), "user {number} is not there");
                Ok(())
            }
        };
        Ok(vec![
            self.alone("a bare driver writes users", AT_ONCE, bare_write).await?,
            self.alone("the directory", AT_ONCE, write).await?,
            self.alone("a bare driver reads users", AT_ONCE, bare_read).await?,
            self.alone("the directory", AT_ONCE, read).await?,
        ])
    }

    /// Readers of one conversation, all at once.
    async fn hot(&self, node: &ClusterNode, people: &People, readers: usize) -> Result<Hot> {
        let (one, other) = people.quiet(2);
        let conversation = ConversationId::direct(&Pair::new(one.clone(), other.clone()));
        let app = node.app.clone();
        let read = move |number: u64| {
            let (app, reader) = (app.clone(), if number.is_multiple_of(2) { one.clone() } else { other.clone() });
            async move { Ok(app.history(&reader, conversation, HistoryQuery::Newest, 50).await.map(drop)?) }
        };
        let before = node.messages.requests().reads;
        let measured = self.alone(&format!("{readers} readers of one conversation"), readers, read).await?;
        let queries = node.messages.requests().reads - before;
        Ok(Hot { readers, pages_per_s: measured.per_s, queries_per_page: queries as f64 / measured.latency.count.max(1) as f64 })
    }

    /// A bare producer, and the log, on a topic that nobody projects.
    async fn log(&self, people: &People) -> Result<Vec<Alone>> {
        let mut options = kafka(self.config)?;
        options.topic.push_str("_appends");
        dunlin_kafka::create_topic(&options).await.context("the log")?;
        let measured = self.appends(&options, people.some_text()).await;
        dunlin_kafka::delete_topic(&options).await.context("failed to delete the bench's topic")?;
        measured
    }

    async fn appends(&self, options: &dunlin_kafka::Options, text: &str) -> Result<Vec<Alone>> {
        let bare = Arc::new(dunlin_kafka::BareProducer::open(options)?);
        let log = Arc::new(dunlin_kafka::EventLog::open(options.clone()).await?);
        let partitions = log.partitions();
        let content = Content::text(text)?;
        let event = move |number: u64| message_event(number, &content);
        let encoded = event.clone();
        let by_driver = move |number: u64| {
            let (bare, event) = (Arc::clone(&bare), encoded(number));
            async move {
                let partition = event.key.partition(partitions).0;
                bare.send(partition, Some(&event.key), &event.encode()).await.then_some(()).context("a record was not acknowledged")
            }
        };
        let appended_to = Arc::clone(&log);
        let by_log = move |number: u64| {
            let (log, event) = (Arc::clone(&appended_to), event(number));
            async move { Ok(log.append(&event.key, &event).await.map(drop)?) }
        };
        // The first appends of a client are slow; so each is measured twice, and the second counts.
        self.alone("warm up", AT_ONCE, by_driver.clone()).await?;
        self.alone("warm up", AT_ONCE, by_log.clone()).await?;
        let all = vec![self.alone("a bare producer", AT_ONCE, by_driver).await?, self.alone("the log", AT_ONCE, by_log).await?];
        log.close().await;
        Ok(all)
    }

    /// The message store's driver, saying what the projector says.
    async fn bare_driver(&self, people: &People) -> Result<Alone> {
        let (messages, log) = life::open(self.config).await?;
        log.close().await;
        let (messages, text) = (Arc::new(messages), people.some_text().to_owned());
        let by_driver = move |number: u64| {
            let (messages, text) = (Arc::clone(&messages), text.clone());
            async move { Ok::<_, anyhow::Error>(messages.write_bare(number, &text).await?) }
        };
        // Twice, for Cassandra compiles what is used often.
        self.alone("warm up", AT_ONCE, by_driver.clone()).await?;
        self.alone("a bare driver, same statements", AT_ONCE, by_driver).await
    }

    /// The projector alone: what was appended while no node ran.
    async fn backlog(&self, people: &People) -> Result<Alone> {
        const AT_A_TIME: usize = 256;
        self.progress.phase("a backlog");
        let size: u64 = if self.args.quick { 1_000 } else { 20_000 };
        let (messages, log) = life::open(self.config).await?;
        let content = Content::text(people.some_text())?;
        let mut last: HashMap<Partition, (ConversationId, Seq)> = HashMap::new();
        let appends = futures::stream::iter(0..size).map(|number| {
            let (log, event) = (&log, message_event(number, &content));
            async move { (event.body.conversation(), log.append(&event.key, &event).await) }
        });
        let mut appends = appends.buffered(AT_A_TIME);
        while let Some((conversation, appended)) = appends.next().await {
            let (conversation, seq) = (conversation.context("a message has a conversation")?, appended?.seq);
            last.insert(conversation.log_key().partition(log.partitions()), (conversation, seq));
        }
        drop(appends);
        let node = ClusterNode::open(self.config).await?;
        // How long a node takes to join is not what a message costs.
        while !node.has_share() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (costs, begun) = (self.costs(None), Instant::now());
        for (conversation, seq) in last.into_values() {
            while dunlin_app::outcome_of(&messages, conversation, seq).await?.is_none() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let (per_s, cpu) = (size as f64 / begun.elapsed().as_secs_f64(), costs.since(size));
        node.leave().await;
        log.close().await;
        Ok(Alone { what: "the projector, a backlog".to_owned(), at_once: AT_A_TIME, per_s, latency: Summary::default(), cpu })
    }

    /// The use case with the projector, and how many requests each message took.
    async fn use_case(&self, node: &ClusterNode, people: &Arc<People>, ledger: &mut Ledger) -> Result<(Vec<Alone>, (f64, f64))> {
        let before = node.messages.requests();
        let (mut all, mut sent) = (Vec::new(), 0);
        for at_once in [AT_ONCE, MANY] {
            let (costs, begun) = (self.costs(None), Instant::now());
            let measured = self.sends(&node.app, people, ledger, vec![Aim::Anyone; at_once], Some(self.lasting)).await?;
            let (acked, elapsed) = (measured.acked, begun.elapsed().as_secs_f64());
            sent += acked;
            let what = "use case and projector".to_owned();
            all.push(Alone { what, at_once, per_s: acked as f64 / elapsed, latency: measured.visible, cpu: costs.since(acked) });
        }
        let after = node.messages.requests();
        let per_message = |before: u64, after: u64| (after - before) as f64 / sent.max(1) as f64;
        Ok((all, (per_message(before.writes, after.writes), per_message(before.reads, after.reads))))
    }

    async fn one_by_one(&self, app: &App, people: &Arc<People>, ledger: &mut Ledger, what: &str, pair: (UserId, UserId)) -> Result<Alone> {
        self.progress.phase(&format!("messages to {what}"));
        let mut sends = Sends::new(app, people, ledger, Pace::WhenVisible, [Aim::These(vec![pair; 100_000])]);
        let costs = self.costs(None);
        let driven = closed(sends.take(), Some(self.lasting)).await?;
        let sent = sends.done(driven.lanes, ledger).await?;
        let per_s = sent.acked as f64 / driven.elapsed.as_secs_f64();
        Ok(Alone { what: what.to_owned(), at_once: 1, per_s, latency: sent.visible, cpu: costs.since(sent.acked) })
    }

    async fn sends(
        &self,
        app: &App,
        people: &Arc<People>,
        ledger: &mut Ledger,
        aims: Vec<Aim>,
        lasting: Option<Duration>,
    ) -> Result<dunlin_bench::sends::Sent> {
        self.progress.phase(&format!("{} senders", aims.len()));
        let mut sends = Sends::new(app, people, ledger, Pace::WhenVisible, aims);
        let driven = closed(sends.take(), lasting).await?;
        sends.done(driven.lanes, ledger).await
    }

    /// The maximum, then parts of it.
    async fn over_http(&self, site: &Arc<Site>, ledger: &mut Ledger) -> Result<Vec<SendsOverHttp>> {
        let mut all = Vec::new();
        self.progress.phase("warm up over HTTP");
        site.closed(ledger, AT_ONCE, self.lasting).await?;
        let mut max: f64 = 1.0;
        for connections in [AT_ONCE, MANY] {
            self.progress.phase(&format!("{connections} connections"));
            let costs = self.costs(site.process);
            let run = site.closed(ledger, connections, self.lasting).await?;
            max = max.max(run.per_s);
            all.push(over_http(format!("{connections} connections"), run, costs));
        }
        for (percent, part) in [(25, ""), (50, ""), (60, ", first third"), (60, ", second"), (60, ", last")] {
            self.progress.phase(&format!("{percent} % of the maximum{part}"));
            let per_s = (max * f64::from(percent) / 100.0).max(1.0) as u32;
            let costs = self.costs(site.process);
            let run = site.paced(ledger, MANY, per_s, self.lasting).await?;
            all.push(over_http(format!("{percent} % of the maximum{part}"), run, costs));
        }
        Ok(all)
    }

    async fn reads(&self, app: &App, people: &Arc<People>) -> Result<Vec<Alone>> {
        let crowd = self.crowd(app).await?;
        let (reader, page_of) = people.quiet(1);
        let long = ConversationId::direct(&Pair::new(reader.clone(), page_of));
        let mut all = Vec::new();
        let history = {
            let app = app.clone();
            move |_| {
                let (app, reader) = (app.clone(), reader.clone());
                async move { Ok(app.history(&reader, long, HistoryQuery::Newest, 50).await.map(drop)?) }
            }
        };
        all.push(self.alone("newest 50 of the long conversation", 1, history).await?);
        let inboxes = [
            (people.usual[0].clone(), people.usual_size),
            (people.wide.clone(), people.wide_size),
            (crowd, if self.args.quick { CROWD_QUICK } else { CROWD }),
        ];
        for (owner, size) in inboxes {
            let app = app.clone();
            let read = move |_| {
                let (app, owner) = (app.clone(), owner.clone());
                async move {
                    let page = app.inbox(&owner, InboxQuery { limit: 20, ..InboxQuery::default() }).await?;
                    ensure!(page.conversations.len() == 20, "the inbox of {owner} has only {}", page.conversations.len());
                    Ok(())
                }
            };
            all.push(self.alone(&format!("first 20 of an inbox of {size}"), 1, read).await?);
        }
        Ok(all)
    }

    /// Someone with very many conversations.
    async fn crowd(&self, app: &App) -> Result<UserId> {
        self.progress.phase("an inbox of many conversations");
        let owner = UserId::parse("crowd")?;
        app.directory.upsert_user(&owner, UserChange::default(), app.clock.now()).await?;
        let size = if self.args.quick { CROWD_QUICK } else { CROWD } as u64;
        let next = Arc::new(AtomicU64::new(0));
        let send = {
            let (app, owner) = (app.clone(), owner.clone());
            move |number: u64| {
                let (app, owner) = (app.clone(), owner.clone());
                async move {
                    let other = UserId::parse(&format!("fan-{number:05}"))?;
                    app.directory.upsert_user(&other, UserChange::default(), app.clock.now()).await?;
                    let message = SendMessage {
                        sender: Some(owner),
                        to: Destination::User(other),
                        client_id: ClientId::parse(&format!("crowd-{number}"))?,
                        message_type: MessageType::text(),
                        content: Content::text("hello")?,
                        reply_to: None,
                        metadata: None,
                    };
                    app.send(message).await?;
                    Ok::<_, anyhow::Error>(())
                }
            }
        };
        let lanes = (0..AT_ONCE as u32).map(|lane| Doing {
            lane,
            act: send.clone(),
            next: Arc::clone(&next),
            until: size,
            took: Arc::default(),
            failed: None,
        });
        let driven = closed(lanes.collect(), None).await?;
        if let Some(error) = driven.lanes.into_iter().find_map(|lane| lane.failed) {
            return Err(error);
        }
        Ok(owner)
    }

    /// One thing again and again, so many at once.
    async fn alone<F: Future<Output = Result<()>> + Send + 'static>(
        &self,
        what: &str,
        at_once: usize,
        act: impl Fn(u64) -> F + Clone + Send + Sync + 'static,
    ) -> Result<Alone> {
        self.progress.phase(what);
        let (next, took) = (Arc::new(AtomicU64::new(1)), Arc::<Latencies>::default());
        let lane =
            |lane: u32| Doing { lane, act: act.clone(), next: Arc::clone(&next), until: u64::MAX, took: Arc::clone(&took), failed: None };
        let costs = self.costs(None);
        let driven = closed((0..at_once as u32).map(lane).collect(), Some(self.lasting)).await?;
        if let Some(error) = driven.lanes.into_iter().find_map(|lane| lane.failed) {
            return Err(error.context(format!("{what} failed")));
        }
        let latency: Summary = took.summary();
        let per_s = latency.count as f64 / driven.elapsed.as_secs_f64();
        Ok(Alone { what: what.to_owned(), at_once, per_s, latency, cpu: costs.since(latency.count) })
    }

    /// What everything that runs here has spent so far; `node` is the server's process, if there is one beside this.
    fn costs(&self, node: Option<u32>) -> Costs {
        let config = self.config;
        let engine = |address: Option<&String>| address.and_then(|address| listener(address));
        let processes = [
            ("node", node),
            ("bench", Some(std::process::id())),
            ("Kafka", engine(config.kafka.brokers.first())),
            ("Cassandra", engine(config.cassandra.nodes.first())),
        ];
        Costs(processes.into_iter().filter_map(|(name, process)| process.map(|process| (name, process, Cpu::of(Some(process))))).collect())
    }
}

/// A message of one of some thousand conversations, which it opens if need be.
fn message_event(number: u64, content: &Content) -> Event {
    const CONVERSATIONS: u64 = 4_000;
    let number_of = number.wrapping_mul(7_919) % CONVERSATIONS;
    let user = |side: &str| UserId::parse(&format!("{side}-{number_of}")).expect("a short name is valid");
    let (from, to) = (user("from"), user("to"));
    let pair = Pair::new(from.clone(), to);
    let body = Body::Message(Message {
        conversation: ConversationId::direct(&pair),
        opening: Some(Opening::Direct(pair)),
        client_id: ClientId::parse(&format!("event-{number}")).expect("a short id is valid"),
        message_type: MessageType::text(),
        content: content.clone(),
        reply_to: None,
        metadata: None,
    });
    Event { id: EventId(u128::from(number).to_be_bytes()), key: body.log_key(), rules: RULES, origin: None, actor: Some(from), body }
}

fn user_numbered(number: u64) -> Result<UserId> {
    Ok(UserId::parse(&format!("user-{number}"))?)
}

fn over_http(what: String, run: Run, costs: Costs) -> SendsOverHttp {
    let cpu = costs.since(run.ack.count);
    SendsOverHttp { what, run, cpu }
}

struct Costs(Vec<(&'static str, u32, Cpu)>);

impl Costs {
    fn since(self, count: u64) -> Vec<Spent> {
        let spent = |(name, process, cpu): (&str, u32, Cpu)| {
            let us = cpu.since(Some(process)).as_secs_f64() * 1e6 / count.max(1) as f64;
            Spent { process: name.to_owned(), us }
        };
        self.0.into_iter().map(spent).collect()
    }
}

/// Does the same thing with ever new numbers.
struct Doing<A> {
    lane: u32,
    act: A,
    next: Arc<AtomicU64>,
    until: u64,
    took: Arc<Latencies>,
    failed: Option<anyhow::Error>,
}

impl<A, F> Lane for Doing<A>
where
    A: Fn(u64) -> F + Send + Sync + 'static,
    F: Future<Output = Result<()>> + Send,
{
    async fn run(&mut self, due: Instant) -> bool {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.until {
            return false;
        }
        let done = (self.act)(number).await;
        self.took.record(self.lane, due.elapsed());
        self.failed = done.err();
        self.failed.is_none()
    }
}
