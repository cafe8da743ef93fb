//! The configuration: `config.default.toml`, overridden by a file, then by the environment, then by flags.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use dunlin_model::UserId;
use serde::Deserialize;
use toml::{Table, Value};

/// The defaults, and the documentation of every key.
pub const DEFAULT: &str = include_str!("../../../config.default.toml");

const PREFIX: &str = "DUNLIN_";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub server: Server,
    pub auth: Auth,
    pub limits: Limits,
    pub messages: Messages,
    pub log: Log,
    pub state: State,
    pub engines: Engines,
    pub kafka: Kafka,
    pub cassandra: Cassandra,
    pub redis: Redis,
    pub postgres: Postgres,
    pub s3: S3,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    pub listen: SocketAddr,
    pub data: PathBuf,
    pub connections_max: usize,
    pub body_bytes_max: usize,
    pub cors_origins: Vec<String>,
    pub metrics_open: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    pub audience: String,
    pub hs256: bool,
    pub secret_file: PathBuf,
    pub jwks: String,
    pub jwks_refresh_s: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub user_per_s: u32,
    pub user_burst: u32,
    pub key_per_s: u32,
    pub key_burst: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    pub robots: Vec<String>,
    pub dedup_window_h: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub retention_days: u64,
    pub unprojected_max: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub memtable_mib: usize,
    pub cache_mib: u64,
}

/// Which engine serves which port.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engines {
    pub log: LogEngine,
    pub messages: MessagesEngine,
    pub ephemeral: EphemeralEngine,
    pub bus: EphemeralEngine,
    pub directory: DirectoryEngine,
    pub blobs: BlobsEngine,
    pub several_nodes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogEngine {
    Embedded,
    Kafka,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessagesEngine {
    Embedded,
    Cassandra,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EphemeralEngine {
    Memory,
    Redis,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectoryEngine {
    Sqlite,
    Postgres,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlobsEngine {
    Folder,
    S3,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kafka {
    pub brokers: Vec<String>,
    pub topic: String,
    pub partitions: u32,
    pub replicas: u16,
    pub retention_days: u64,
    pub tls: bool,
    pub ca_file: PathBuf,
    pub sasl: Sasl,
    pub user: String,
    pub password_file: PathBuf,
}

/// How to log in to Kafka.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub enum Sasl {
    #[serde(rename = "none")]
    None,
    #[serde(rename = "plain")]
    Plain,
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cassandra {
    pub nodes: Vec<String>,
    pub keyspace: String,
    pub datacenter: String,
    pub replicas: u32,
    pub user: String,
    pub password_file: PathBuf,
    pub tls: bool,
    pub ca_file: PathBuf,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    pub nodes: Vec<String>,
    pub prefix: String,
    pub user: String,
    pub password_file: PathBuf,
    pub tls: bool,
    pub ca_file: PathBuf,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    pub databases: Vec<PostgresDatabase>,
    pub lookup: String,
    pub user: String,
    pub password_file: PathBuf,
    pub tls: bool,
    pub ca_file: PathBuf,
    pub connections_max: usize,
    pub wait_ms: u64,
    pub statement_ms: u64,
    pub call_ms: u64,
    pub require_synchronous: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresDatabase {
    pub name: String,
    pub shards: String,
    pub url: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3 {
    pub endpoint: String,
    pub bucket: String,
    pub region: String,
    pub prefix: String,
    pub access_key_id: String,
    pub secret_file: PathBuf,
    pub allow_http: bool,
}

impl Config {
    /// Whether the log and what follows from it are in the data folder.
    pub fn is_embedded(&self) -> bool {
        self.engines.log == LogEngine::Embedded
    }

    /// What a file, variables of the environment and flags (as `section.key`) make of the defaults; also as a table, to be shown.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(&str, String)],
    ) -> Result<(Config, Table)> {
        let mut table = defaults();
        if let Some(path) = file {
            let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
            let given: Table = text.parse().with_context(|| format!("{} is no TOML", path.display()))?;
            merge(&mut table, given).with_context(|| format!("{} is wrong", path.display()))?;
        }
        for (name, value) in environment.into_iter().filter(|(name, _)| names_a_section(name)) {
            set_by_variable(&mut table, &name, &value)?;
        }
        for (key, value) in flags {
            let (section, key) = key.split_once('.').ok_or_else(|| anyhow!("{key} has no section"))?;
            set(&mut table, section, key, value)?;
        }
        let config: Config = serde_path_to_error::deserialize(Value::Table(table.clone()))
            .map_err(|error| anyhow!("{}: {}", error.path(), error.inner().message()))?;
        config.check()?;
        Ok((config, table))
    }

    fn check(&self) -> Result<()> {
        let Config { server, auth, messages, log, state, .. } = self;
        ensure!((1..=1_000_000).contains(&server.connections_max), "server.connections_max must be 1 to 1000000");
        ensure!((1_024..=64 << 20).contains(&server.body_bytes_max), "server.body_bytes_max must be 1024 to 67108864");
        for origin in &server.cors_origins {
            let is_origin = origin == "*" || (origin.starts_with("http://") || origin.starts_with("https://")) && !origin.ends_with('/');
            ensure!(is_origin, "server.cors_origins: {origin:?} is no origin such as \"https://example.org\"");
        }
        ensure!(!auth.audience.is_empty(), "auth.audience must not be empty");
        ensure!(auth.hs256 || !auth.jwks.is_empty(), "auth.hs256 is off and auth.jwks is empty: no user could ever call");
        let scheme = auth.jwks.split_once("://").map(|(scheme, _)| scheme);
        ensure!(scheme.is_none_or(|scheme| ["http", "https"].contains(&scheme)), "auth.jwks must be a path or an http(s) URL");
        ensure!((1..=7 * 24 * 60 * 60).contains(&auth.jwks_refresh_s), "auth.jwks_refresh_s must be 1 to 604800");
        ensure!((1..=24 * 365).contains(&messages.dedup_window_h), "messages.dedup_window_h must be 1 to 8760");
        ensure!(log.retention_days <= 36_500, "log.retention_days must be 0 to 36500");
        ensure!((1..=1_000_000).contains(&log.unprojected_max), "log.unprojected_max must be 1 to 1000000");
        ensure!((1..=1024).contains(&state.memtable_mib), "state.memtable_mib must be 1 to 1024");
        ensure!((1..=65536).contains(&state.cache_mib), "state.cache_mib must be 1 to 65536");
        self.check_engines()?;
        self.check_ways_in()?;
        self.robots().map(drop)
    }

    fn check_engines(&self) -> Result<()> {
        let Config { engines, kafka, cassandra, redis, .. } = self;
        let (is_kafka, is_cassandra) = (engines.log == LogEngine::Kafka, engines.messages == MessagesEngine::Cassandra);
        ensure!(is_kafka == is_cassandra, "engines.log and engines.messages are chosen together: both embedded, or kafka and cassandra");
        let ports = [
            ("log", is_kafka),
            ("messages", is_cassandra),
            ("ephemeral", engines.ephemeral == EphemeralEngine::Redis),
            ("bus", engines.bus == EphemeralEngine::Redis),
        ];
        if let Some((port, _)) = ports.iter().find(|(_, is_shared)| engines.several_nodes && !is_shared) {
            bail!("engines.several_nodes is on, but engines.{port} is in this process alone: name an engine that the nodes share");
        }
        ensure!((1..=10_000).contains(&kafka.partitions), "kafka.partitions must be 1 to 10000");
        ensure!((1..=9).contains(&kafka.replicas), "kafka.replicas must be 1 to 9");
        ensure!((1..=3_650).contains(&kafka.retention_days), "kafka.retention_days must be 1 to 3650");
        ensure!((1..=9).contains(&cassandra.replicas), "cassandra.replicas must be 1 to 9");
        ensure!(is_identifier(&cassandra.keyspace), "cassandra.keyspace must have 1 to 48 characters of a-z 0-9 _ and begin with a letter");
        ensure!(is_name(&cassandra.datacenter, 48), "cassandra.datacenter must have 1 to 48 characters of a-z A-Z 0-9 . _ -");
        let is_topic = is_name(&kafka.topic, 249) && !matches!(kafka.topic.as_str(), "." | "..");
        ensure!(is_topic, "kafka.topic must have 1 to 249 characters of a-z A-Z 0-9 . _ - and be neither . nor ..");
        ensure!(is_name(&redis.prefix.replace(':', "-"), 64), "redis.prefix must have 1 to 64 characters of a-z A-Z 0-9 . _ - :");
        ensure!(is_kafka || engines.directory == DirectoryEngine::Sqlite, "engines.directory = \"postgres\" goes with kafka and cassandra");
        self.check_postgres()?;
        self.check_s3()?;
        for (key, list) in [("kafka.brokers", &kafka.brokers), ("cassandra.nodes", &cassandra.nodes), ("redis.nodes", &redis.nodes)] {
            ensure!(!list.is_empty(), "{key} must name at least one");
        }
        Ok(())
    }

    /// How engines are entered. Whether they let us in, they say themselves.
    fn check_ways_in(&self) -> Result<()> {
        let Config { kafka, cassandra, redis, .. } = self;
        for (section, tls) in [("kafka", kafka.tls), ("cassandra", cassandra.tls)] {
            ensure!(cfg!(feature = "tls") || !tls, "{section}.tls is on, but this program was built without the feature `tls`");
        }
        let is_scram = matches!(kafka.sasl, Sasl::ScramSha256 | Sasl::ScramSha512);
        ensure!(cfg!(feature = "tls") || !is_scram, "kafka.sasl is SCRAM, but this program was built without the feature `tls`");
        let has_password = !kafka.user.is_empty() && !kafka.password_file.as_os_str().is_empty();
        ensure!(kafka.sasl == Sasl::None || has_password, "kafka.sasl needs kafka.user and kafka.password_file");
        ensure!(!cassandra.tls || !cassandra.ca_file.as_os_str().is_empty(), "cassandra.tls needs cassandra.ca_file");
        // The configuration is printed and passed on; and what follows could be a password, so it is not repeated.
        ensure!(
            !redis.nodes.iter().any(|node| node.contains('@')),
            "redis.nodes: user and password belong into redis.user and redis.password_file"
        );
        let is_address = |node: &String| node.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        ensure!(redis.nodes.iter().all(is_address), "redis.nodes must be of the form host:port");
        Ok(())
    }

    fn check_postgres(&self) -> Result<()> {
        let postgres = &self.postgres;
        ensure!((1..=1_000).contains(&postgres.connections_max), "postgres.connections_max must be 1 to 1000");
        for (key, ms) in [("wait_ms", postgres.wait_ms), ("statement_ms", postgres.statement_ms), ("call_ms", postgres.call_ms)] {
            ensure!((1..=600_000).contains(&ms), "postgres.{key} must be 1 to 600000");
        }
        // `dunlin config print` shows URLs, and so does whoever copies a configuration into a report.
        let urls = postgres.databases.iter().map(|database| &database.url).chain([&postgres.lookup]);
        for url in urls {
            let user = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map_or("", |(user, _)| user);
            let has_password = user.contains(':') || url.contains("password=");
            ensure!(!has_password, "a URL in [postgres] holds a password: write it into a file, and name that as postgres.password_file");
        }
        self.postgres_options()?.check().context("[postgres] is wrong")
    }

    fn check_s3(&self) -> Result<()> {
        if self.engines.blobs != BlobsEngine::S3 {
            return Ok(());
        }
        ensure!(!self.s3.secret_file.as_os_str().is_empty(), "engines.blobs = \"s3\" needs s3.secret_file");
        Ok(self.s3_options().check()?)
    }

    /// Without the secret.
    pub fn s3_options(&self) -> dunlin_blobs::Options {
        let S3 { endpoint, bucket, region, prefix, access_key_id, allow_http, .. } = &self.s3;
        dunlin_blobs::Options {
            region: region.clone(),
            prefix: prefix.clone(),
            access_key_id: access_key_id.clone(),
            allow_http: *allow_http,
            ..dunlin_blobs::Options::new(endpoint, bucket)
        }
    }

    /// Without what is in files: the password, and the certificates that are trusted.
    pub fn postgres_options(&self) -> Result<dunlin_postgres::Options> {
        let Postgres { databases, lookup, connections_max, wait_ms, statement_ms, call_ms, require_synchronous, .. } = &self.postgres;
        let Postgres { user, tls, .. } = &self.postgres;
        let database = |database: &PostgresDatabase| {
            let shards = dunlin_postgres::ShardSet::parse(&database.shards)
                .with_context(|| format!("postgres.databases: {:?} must be shards such as \"0-31, 40\"", database.shards))?;
            anyhow::Ok(dunlin_postgres::Database { name: database.name.clone(), url: database.url.clone(), shards })
        };
        let databases = databases.iter().map(database).collect::<Result<Vec<_>>>()?;
        Ok(dunlin_postgres::Options {
            user: Some(user.clone()).filter(|user| !user.is_empty()),
            tls: *tls,
            connections_max: *connections_max,
            wait_max: Duration::from_millis(*wait_ms),
            statement_timeout: Duration::from_millis(*statement_ms),
            call_timeout: Duration::from_millis(*call_ms),
            require_synchronous: *require_synchronous,
            ..dunlin_postgres::Options::new(databases, lookup)
        })
    }

    pub fn robots(&self) -> Result<Vec<UserId>> {
        let parse = |robot: &String| UserId::parse(robot).map_err(|why| anyhow!("messages.robots: {robot:?} {why}"));
        self.messages.robots.iter().map(parse).collect()
    }
}

fn is_identifier(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= 48 && name.starts_with(|first: char| first.is_ascii_lowercase()) && name.bytes().all(is_part)
}

/// As Kafka has it. No braces, which mean something to Redis.
fn is_name(name: &str, len_max: usize) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=len_max).contains(&name.len()) && name.bytes().all(is_part)
}

fn defaults() -> Table {
    DEFAULT.parse().expect("the defaults are TOML, as a test sees to")
}

fn merge(table: &mut Table, given: Table) -> Result<()> {
    for (section, values) in given {
        let Value::Table(values) = values else { bail!("{section} must be a section: write [{section}]") };
        let Some(Value::Table(known)) = table.get_mut(&section) else {
            bail!("there is no section [{section}]{}", nearest(&section, table.keys()));
        };
        for (key, value) in values {
            let Some(place) = known.get_mut(&key) else {
                bail!("there is no key {section}.{key}{}", nearest(&key, known.keys()));
            };
            ensure!(place.same_type(&value), "{section}.{key} must be {}, such as {place}", kind(place));
            *place = value;
        }
    }
    Ok(())
}

fn set_by_variable(table: &mut Table, name: &str, value: &str) -> Result<()> {
    let names = variables(table);
    let Some((section, key)) = names.get(name) else {
        bail!("the environment has {name}, which is no key{}", nearest(name, names.keys()));
    };
    set(table, section, key, value).with_context(|| format!("{name} is wrong"))
}

/// Whether a variable is meant for the configuration, perhaps with a slip in its section. Others may begin alike: `DUNLIN_LOG` and `DUNLIN_KEY`
/// are the command line's, and where a service is called dunlin, Kubernetes adds `DUNLIN_SERVICE_HOST` and more.
fn names_a_section(variable: &str) -> bool {
    let section_of = |rest: &str| rest.split_once('_').map(|(section, _)| section.to_lowercase());
    let is_meant = |section: String| defaults().keys().any(|known| strsim::osa_distance(&section, known) <= 1);
    variable.strip_prefix(PREFIX).and_then(section_of).is_some_and(is_meant)
}

/// Every key's variable.
fn variables(table: &Table) -> BTreeMap<String, (String, String)> {
    let keys =
        table.iter().flat_map(|(section, values)| values.as_table().into_iter().flat_map(Table::keys).map(move |key| (section, key)));
    keys.map(|(section, key)| (format!("{PREFIX}{section}_{key}").to_uppercase(), (section.clone(), key.clone()))).collect()
}

fn set(table: &mut Table, section: &str, key: &str, text: &str) -> Result<()> {
    let place = table.get_mut(section).and_then(|values| values.get_mut(key)).ok_or_else(|| anyhow!("there is no key {section}.{key}"))?;
    let wrong = || anyhow!("{section}.{key} must be {}, not {text:?}", kind(place));
    *place = match place {
        Value::Integer(_) => Value::Integer(text.parse().map_err(|_| wrong())?),
        Value::Boolean(_) => Value::Boolean(text.parse().map_err(|_| wrong())?),
        Value::Array(_) => {
            let all = text.split(',').map(str::trim).filter(|one| !one.is_empty());
            Value::Array(all.map(|one| Value::String(one.to_owned())).collect())
        }
        _ => Value::String(text.to_owned()),
    };
    Ok(())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "a whole number",
        Value::Boolean(_) => "true or false",
        Value::Array(_) => "a list",
        _ => "a text",
    }
}

/// What was probably meant.
fn nearest<'a>(wrong: &str, right: impl Iterator<Item = &'a String>) -> String {
    const ALIKE: f64 = 0.7;
    let best = right.map(|name| (strsim::jaro_winkler(wrong, name), name)).max_by(|one, other| one.0.total_cmp(&other.0));
    match best {
        Some((alike, name)) if alike >= ALIKE => format!("; did you mean {name}?"),
        _ => "; `dunlin config print` lists them all".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, environment: &[(&str, &str)]) -> Result<Config> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), text)?;
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::load(Some(file.path()), environment, &[]).map(|(config, _)| config)
    }

    fn refusal(text: &str, environment: &[(&str, &str)]) -> String {
        format!("{:#}", load(text, environment).expect_err("a refusal"))
    }

    #[test]
    fn the_defaults_are_right() {
        let (config, _) = Config::load(None, [], &[]).unwrap();
        assert_eq!(config.server.listen.to_string(), "127.0.0.1:7400");
        assert_eq!(config.messages.dedup_window_h, 24);
    }

    #[test]
    fn a_file_is_overridden_by_the_environment_and_that_by_flags() {
        let text = "[server]\nlisten = \"127.0.0.1:1\"\n[limits]\nuser_per_s = 7\n[messages]\nrobots = [\"bot\"]";
        assert_eq!(load(text, &[]).unwrap().limits.user_per_s, 7);
        let others = [("DUNLIN_LOG", "debug"), ("DUNLIN_KEY", "dk_x"), ("DUNLIN_SERVICE_HOST", "10.0.0.1"), ("HOME", "/")];
        let environment = [&[("DUNLIN_LIMITS_USER_PER_S", "8"), ("DUNLIN_MESSAGES_ROBOTS", "a, b")][..], &others].concat();
        let config = load(text, &environment).unwrap();
        assert_eq!((config.limits.user_per_s, config.messages.robots), (8, vec!["a".to_owned(), "b".to_owned()]));
        let variables = [("DUNLIN_SERVER_LISTEN".to_owned(), "127.0.0.1:2".to_owned())];
        let (config, _) = Config::load(None, variables, &[("server.listen", "127.0.0.1:3".to_owned())]).unwrap();
        assert_eq!(config.server.listen.port(), 3);
    }

    #[test]
    fn a_wrong_key_names_the_nearest_right_one() {
        assert!(refusal("[server]\nlissen = \"x\"", &[]).contains("there is no key server.lissen; did you mean listen?"));
        assert!(refusal("[sever]\nlisten = \"x\"", &[]).contains("there is no section [sever]; did you mean server?"));
        assert!(refusal("", &[("DUNLIN_LIMITS_USER_PERS", "1")]).contains("did you mean DUNLIN_LIMITS_USER_PER_S?"));
        assert!(refusal("", &[("DUNLIN_KAKFA_BROKERS", "127.0.0.1:1")]).contains("did you mean DUNLIN_KAFKA_BROKERS?"));
    }

    #[test]
    fn engines_that_do_not_fit_together_are_refused_by_the_port() {
        assert!(refusal("[engines]\nlog = \"kafka\"", &[]).contains("are chosen together"));
        let text = "[engines]\nlog = \"kafka\"\nmessages = \"cassandra\"\nephemeral = \"redis\"\nseveral_nodes = true";
        assert!(refusal(text, &[]).contains("engines.bus is in this process alone"));
        assert!(refusal("[engines]\nseveral_nodes = true", &[]).contains("engines.log is in this process alone"));
        assert!(load(&format!("{text}\nbus = \"redis\""), &[]).is_ok());
        assert!(refusal("[engines]\nlog = \"rabbit\"", &[]).contains("embedded"));
    }

    #[test]
    fn a_way_in_that_lacks_something_is_told_with_what_it_needs() {
        assert!(refusal("[kafka]\nsasl = \"plain\"", &[]).contains("kafka.sasl needs kafka.user and kafka.password_file"));
        assert!(refusal("[kafka]\nsasl = \"gssapi\"", &[]).contains("kafka.sasl: unknown variant"));
        let why = refusal("[redis]\nnodes = [\"redis://ann:hunter2@127.0.0.1:1\"]", &[]);
        assert!(why.contains("belong into redis.user and redis.password_file") && !why.contains("hunter2"), "{why}");
        for (section, is_always_there) in [("kafka", false), ("cassandra", false), ("redis", true), ("postgres", true)] {
            let loaded = load(&format!("[{section}]\ntls = true\nca_file = \"ca.pem\""), &[]);
            assert_eq!(loaded.is_ok(), is_always_there || cfg!(feature = "tls"), "what this build can't do is told at once: {section}");
        }
    }

    #[test]
    fn databases_that_do_not_fit_together_are_refused() {
        let databases = |list: &str| refusal(&format!("[postgres]\ndatabases = [{list}]"), &[]);
        let a = "{ name = \"a\", shards = \"0-31\", url = \"postgres://u@h:1/d\" }";
        assert!(databases(a).contains("no PostgreSQL database is given these shards: 32-63"));
        assert!(
            databases(&format!("{a}, {}", a.replace("\"a\"", "\"b\""))).contains("shard 0 is given to two PostgreSQL databases, a and b")
        );
        assert!(databases(&a.replace("0-31", "0-99")).contains("\"0-99\" must be shards such as"));
        assert!(databases(&a.replace("u@h:1/d", "h")).contains("[postgres] is wrong"));
        for secret in ["u:swordfish@h:1/d", "u@h:1/d?password=swordfish"] {
            let why = databases(&a.replace("u@h:1/d", secret));
            assert!(why.contains("postgres.password_file") && !why.contains("swordfish"), "{why}");
        }
        assert!(refusal("[engines]\ndirectory = \"postgres\"", &[]).contains("goes with kafka and cassandra"));
        let text = "[engines]\nlog = \"kafka\"\nmessages = \"cassandra\"\ndirectory = \"postgres\"";
        assert_eq!(load(text, &[]).unwrap().engines.directory, DirectoryEngine::Postgres);
    }

    #[test]
    fn a_bucket_that_can_not_be_is_refused_once_blobs_go_there() {
        let s3 = |rest: &str| refusal(&format!("[engines]\nblobs = \"s3\"\n[s3]\naccess_key_id = \"id\"\n{rest}"), &[]);
        assert!(s3("").contains("engines.blobs = \"s3\" needs s3.secret_file"));
        assert!(s3("secret_file = \"f\"\nendpoint = \"http://127.0.0.1:1\"").contains("s3.allow_http"));
        assert!(s3("secret_file = \"f\"\nbucket = \"No\"").contains("s3.bucket must have"));
        assert!(s3("secret_file = \"f\"\nprefix = \"/a/\"").contains("s3.prefix must be"));
        assert!(refusal("[engines]\nblobs = \"s3\"\n[s3]\nsecret_file = \"f\"", &[]).contains("s3.access_key_id must not be empty"));
        assert!(load("[s3]\nbucket = \"No\"", &[]).is_ok(), "nobody uses it");
    }

    #[test]
    fn a_wrong_value_is_told_with_its_key() {
        assert!(refusal("[limits]\nuser_per_s = \"many\"", &[]).contains("limits.user_per_s must be a whole number"));
        assert!(refusal("[limits]\nuser_per_s = -1", &[]).contains("-1"));
        assert!(refusal("[log]\nretention_days = 9999999999999", &[]).contains("log.retention_days must be 0 to 36500"));
        assert!(refusal("", &[("DUNLIN_AUTH_HS256", "yes")]).contains("auth.hs256 must be true or false"));
        assert!(refusal("[server]\nlisten = \"nowhere\"", &[]).contains("server.listen: invalid socket address"));
        assert!(refusal("[auth]\njwks = \"ftp://x/y\"", &[]).contains("auth.jwks must be"));
        assert!(refusal("[auth]\nhs256 = false", &[]).contains("no user could ever call"));
        assert!(refusal("[messages]\nrobots = [\"a b\"]", &[]).contains("messages.robots"));
        assert!(refusal("[server]\ncors_origins = [\"example.org\"]", &[]).contains("no origin"));
        assert!(refusal("listen = 1", &[]).contains("write [listen]"));
        assert!(refusal("[server", &[]).contains("is no TOML"));
    }
}
