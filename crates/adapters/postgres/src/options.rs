//! Where the databases are and how they are to be used.

use std::{fmt, time::Duration};

use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use crate::shard::{Shard, ShardSet};

/// A server that vanished without a word is given up after this.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What the database that finds users by their numbers is called.
pub const LOOKUP: &str = "lookup";

#[derive(Clone)]
pub struct Options {
    pub databases: Vec<Database>,
    /// The URL of the database that finds users by their phone numbers. It may be one of the others.
    pub lookup: String,
    /// Stands before what a URL says.
    pub user: Option<String>,
    /// Stands before what a URL says.
    pub password: Option<String>,
    /// Whether URLs that don't say it themselves (`sslmode=require`) mean TLS.
    pub tls: bool,
    /// The certificates that are trusted over TLS, in PEM; none: those of the operating system.
    pub trusted: Option<Vec<u8>>,
    /// For each database.
    pub connections_max: usize,
    /// How long a call waits for a connection.
    pub wait_max: Duration,
    /// How long the server works on one statement.
    pub statement_timeout: Duration,
    /// How long any call may take, with everything that is tried again while a database fails over or a shard moves.
    pub call_timeout: Duration,
    /// Whether a database is refused whose commits don't wait for a standby.
    pub require_synchronous: bool,
}

/// A database that holds shards.
#[derive(Clone)]
pub struct Database {
    /// What people and other databases call it: 1 to 32 characters of a-z 0-9 - _.
    pub name: String,
    /// `postgres://user@host:port,host:port/database`. The one of several hosts that takes writes is used. TLS with `?sslmode=require`, or by the options.
    pub url: String,
    /// The shards that are made here when there are none yet. Afterwards the databases themselves say where shards are.
    pub shards: ShardSet,
}

/// Never tells a URL: that may hold a password.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidOptions {
    #[error("no PostgreSQL database is named")]
    NoDatabases,
    #[error("{0:?} can't be the name of a PostgreSQL database: it must have 1 to 32 characters of a-z 0-9 - _")]
    Name(String),
    #[error("two PostgreSQL databases are called {0}")]
    Twice(String),
    #[error("the URL of the PostgreSQL database {0} is none such as postgres://user@host:port/database")]
    Url(String),
    #[error("the PostgreSQL database {0} is to be spoken to over TLS, which this build can't do")]
    Tls(String),
    #[error("{one} and {other} are the same PostgreSQL database: name it once")]
    Same { one: String, other: String },
    #[error("shard {shard} is given to two PostgreSQL databases, {one} and {other}")]
    Overlap { shard: Shard, one: String, other: String },
    #[error("no PostgreSQL database is given these shards: {0}")]
    Gap(ShardSet),
    #[error("a PostgreSQL database needs at least one connection")]
    NoConnections,
}

impl Options {
    pub fn new(databases: impl IntoIterator<Item = Database>, lookup: impl Into<String>) -> Options {
        Options {
            databases: databases.into_iter().collect(),
            lookup: lookup.into(),
            user: None,
            password: None,
            tls: false,
            trusted: None,
            connections_max: 16,
            wait_max: Duration::from_secs(1),
            statement_timeout: Duration::from_secs(2),
            call_timeout: Duration::from_secs(5),
            require_synchronous: true,
        }
    }

    /// Whether the options can be right, without asking any database.
    pub fn check(&self) -> Result<(), InvalidOptions> {
        self.configs()?;
        self.lookup_config().map(drop)
    }

    pub(crate) fn lookup_config(&self) -> Result<tokio_postgres::Config, InvalidOptions> {
        self.config(LOOKUP, &self.lookup)
    }

    /// What the driver needs, for each database with shards.
    pub(crate) fn configs(&self) -> Result<Vec<tokio_postgres::Config>, InvalidOptions> {
        if self.databases.is_empty() {
            return Err(InvalidOptions::NoDatabases);
        }
        if self.connections_max == 0 {
            return Err(InvalidOptions::NoConnections);
        }
        for (index, database) in self.databases.iter().enumerate() {
            let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
            if database.name.is_empty() || database.name.len() > 32 || !database.name.bytes().all(is_part) {
                return Err(InvalidOptions::Name(database.name.clone()));
            }
            let is_known = |name| database.name == name;
            if is_known(LOOKUP) || self.databases[..index].iter().any(|other| is_known(&other.name)) {
                return Err(InvalidOptions::Twice(database.name.clone()));
            }
        }
        self.check_shards()?;
        let configs = self.databases.iter().map(|database| self.config(&database.name, &database.url)).collect::<Result<Vec<_>, _>>()?;
        let place = |index: usize| (configs[index].get_hosts(), configs[index].get_ports(), configs[index].get_dbname());
        for (index, database) in self.databases.iter().enumerate() {
            if let Some(other) = (0..index).find(|other| place(*other) == place(index)) {
                return Err(InvalidOptions::Same { one: self.databases[other].name.clone(), other: database.name.clone() });
            }
        }
        Ok(configs)
    }

    fn check_shards(&self) -> Result<(), InvalidOptions> {
        let mut missing = ShardSet::default();
        for shard in Shard::all() {
            let mut holders = self.databases.iter().filter(|database| database.shards.contains(shard)).map(|database| &database.name);
            match (holders.next(), holders.next()) {
                (None, _) => missing.insert(shard),
                (Some(one), Some(other)) => {
                    return Err(InvalidOptions::Overlap { shard, one: one.clone(), other: other.clone() });
                }
                (Some(_), None) => {}
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(InvalidOptions::Gap(missing)) }
    }

    fn config(&self, name: &str, url: &str) -> Result<tokio_postgres::Config, InvalidOptions> {
        let mut config: tokio_postgres::Config = url.parse().map_err(|_| InvalidOptions::Url(name.to_owned()))?;
        if config.get_hosts().is_empty() || config.get_dbname().is_none() {
            return Err(InvalidOptions::Url(name.to_owned()));
        }
        if self.tls {
            config.ssl_mode(SslMode::Require);
        }
        match config.get_ssl_mode() {
            SslMode::Require if !cfg!(feature = "tls") => return Err(InvalidOptions::Tls(name.to_owned())),
            SslMode::Require => {}
            // Not what it can get: certificates are judged, and one that nobody asked for would keep us out.
            _ => {
                config.ssl_mode(SslMode::Disable);
            }
        }
        if let Some(user) = &self.user {
            config.user(user);
        }
        if let Some(password) = &self.password {
            config.password(password);
        }
        let statement_ms = self.statement_timeout.as_millis();
        let settings = format!("-c statement_timeout={statement_ms} -c idle_in_transaction_session_timeout={}", 2 * statement_ms);
        let settings = [config.get_options().unwrap_or_default(), &settings].join(" ");
        config.options(settings.trim()).application_name("dunlin").target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.connect_timeout(self.wait_max).tcp_user_timeout(SILENCE_MAX).keepalives_idle(SILENCE_MAX);
        Ok(config)
    }
}

/// Without URLs and password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let databases = self.databases.iter().map(|database| (&database.name, database.shards));
        f.debug_map().entries(databases).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKUP_URL: &str = "postgres://ann:secret@127.0.0.1:5432/lookup";

    fn database(name: &str, shards: &str) -> Database {
        Database {
            name: name.to_owned(),
            url: format!("postgres://ann:secret@127.0.0.1:5432/{name}"),
            shards: ShardSet::parse(shards).unwrap(),
        }
    }

    fn refusal(databases: impl IntoIterator<Item = Database>) -> String {
        Options::new(databases, LOOKUP_URL).check().expect_err("a refusal").to_string()
    }

    #[test]
    fn every_shard_is_given_to_one_database() {
        Options::new([database("a", "0-31"), database("b", "32-63"), database("spare", "")], LOOKUP_URL).check().unwrap();
        assert_eq!(refusal([database("a", "0-31"), database("b", "33-62")]), "no PostgreSQL database is given these shards: 32, 63");
        assert_eq!(refusal([database("a", "0-40"), database("b", "31-63")]), "shard 31 is given to two PostgreSQL databases, a and b");
    }

    #[test]
    fn one_database_under_two_names_is_told() {
        let same = Database { url: "postgres://bob@127.0.0.1:5432/a?sslmode=disable".to_owned(), ..database("b", "32-63") };
        assert_eq!(refusal([database("a", "0-31"), same]), "a and b are the same PostgreSQL database: name it once");
    }

    #[test]
    fn names_are_told_apart() {
        assert_eq!(refusal([]), "no PostgreSQL database is named");
        assert_eq!(refusal([database("a", "0-31"), database("a", "32-63")]), "two PostgreSQL databases are called a");
        assert_eq!(refusal([database("lookup", "0-63")]), "two PostgreSQL databases are called lookup");
        assert!(refusal([database("A b", "0-63")]).contains("\"A b\" can't be the name"));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_url() {
        for url in ["nonsense secret", "postgres://ann:secret@127.0.0.1:port/x", "postgres://ann:secret@127.0.0.1:5432"] {
            let options = Options::new([Database { url: url.to_owned(), ..database("a", "0-63") }], LOOKUP_URL);
            let why = options.check().unwrap_err();
            assert_eq!(why, InvalidOptions::Url("a".to_owned()), "{url}");
            assert!(!format!("{why} {why:?} {options:?}").contains("secret"));
        }
        let tls = Database { url: "postgres://127.0.0.1:5432/x?sslmode=require".to_owned(), ..database("a", "0-63") };
        assert_eq!(Options::new([tls], LOOKUP_URL).check().is_ok(), cfg!(feature = "tls"), "what this build can't do is told at once");
        let tls = Options { tls: true, ..Options::new([database("a", "0-63")], LOOKUP_URL) };
        assert_eq!(tls.check().is_ok(), cfg!(feature = "tls"));
    }

    #[test]
    fn what_the_url_says_stays_and_ours_is_added() {
        let url = "postgres://ann:first@one:1,two:2/x?options=-c%20work_mem%3D1MB".to_owned();
        let options = Options {
            user: Some("bob".to_owned()),
            password: Some("second".to_owned()),
            ..Options::new([Database { url, ..database("a", "0-63") }], LOOKUP_URL)
        };
        let config = options.configs().unwrap().remove(0);
        assert_eq!((config.get_user(), config.get_password()), (Some("bob"), Some(&b"second"[..])));
        assert_eq!(config.get_ports(), [1, 2]);
        assert_eq!(config.get_options(), Some("-c work_mem=1MB -c statement_timeout=2000 -c idle_in_transaction_session_timeout=4000"));
    }
}
