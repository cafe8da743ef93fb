//! On which profile the tests run: embedded, or with DUNLIN_TEST_PROFILE=cluster on the engines whose addresses the environment has
//! (`cargo xtask engines up` starts some). Each server then has a keyspace and a topic of its own.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

#[allow(dead_code, reason = "each test uses some of it")]
pub struct Place {
    pub keyspace: String,
    pub cassandra: String,
    /// The servers, the second a standby, in which there is a database of the keyspace's name.
    postgres: String,
    pub environment: Vec<(String, String)>,
    /// Holds the configuration that the environment can't.
    _folder: TempDir,
}

impl Place {
    /// None on the embedded profile, where the data folder is a place of its own.
    #[allow(dead_code, reason = "each test uses some of it")]
    pub fn make() -> Option<Place> {
        match env::var("DUNLIN_TEST_PROFILE").as_deref() {
            Err(_) | Ok("embedded") => None,
            Ok("cluster") => Some(Place::of_cluster()),
            Ok(other) => panic!("DUNLIN_TEST_PROFILE is {other}; there are embedded and cluster"),
        }
    }

    /// For what is about the cluster profile, whatever the others run on.
    pub fn of_cluster() -> Place {
        let engine = |name: &str| env::var(name).unwrap_or_else(|_| panic!("{name} is not set; `cargo xtask engines up` starts engines"));
        let keyspace = format!("wire_{:016x}", getrandom::u64().unwrap());
        let cassandra = engine("DUNLIN_TEST_CASSANDRA");
        let kafka = engine("DUNLIN_TEST_KAFKA");
        let standby = env::var("DUNLIN_TEST_POSTGRES_STANDBY").ok();
        let postgres = with_standby(&engine("DUNLIN_TEST_POSTGRES"), standby.as_deref());
        say_to_postgres(&postgres, &format!("CREATE DATABASE {keyspace} TEMPLATE template0"));
        let folder = tempfile::tempdir().unwrap();
        let config = directory_config(folder.path(), &postgres, &keyspace, standby.is_some());
        let given = [
            ("ENGINES_LOG", "kafka"),
            ("ENGINES_MESSAGES", "cassandra"),
            ("ENGINES_EPHEMERAL", "redis"),
            ("ENGINES_BUS", "redis"),
            ("ENGINES_DIRECTORY", "postgres"),
            ("CONFIG", config.to_str().unwrap()),
            ("ENGINES_SEVERAL_NODES", "true"),
            ("KAFKA_BROKERS", &kafka),
            ("KAFKA_TOPIC", &keyspace),
            ("KAFKA_PARTITIONS", "4"),
            ("KAFKA_REPLICAS", &replicas(&kafka)),
            ("CASSANDRA_NODES", &cassandra),
            ("CASSANDRA_KEYSPACE", &keyspace),
            ("CASSANDRA_REPLICAS", &replicas(&cassandra)),
            ("REDIS_NODES", &engine("DUNLIN_TEST_REDIS")),
            ("REDIS_PREFIX", &format!("{keyspace}:")),
        ];
        let environment = given.map(|(name, value)| (format!("DUNLIN_{name}"), value.to_owned())).to_vec();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
        let _turn = turn_to_make_tables();
        let made = command.args(["schema", "apply"]).envs(environment.iter().cloned()).env("DUNLIN_LOG", "warn").output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Place { keyspace, cassandra, postgres, environment, _folder: folder }
    }
}

impl Place {
    /// Not in the database of its own, but beside it.
    #[allow(dead_code, reason = "each test uses some of it")]
    pub fn say_to_postgres(&self, statement: &str) {
        say_to_postgres(&self.postgres, statement);
    }
}

/// Cassandra makes one table at a time. Whoever waits does so here, also for tests in other processes, and not in a request that would time out.
fn turn_to_make_tables() -> File {
    let file = File::create(env::temp_dir().join("dunlin-tests-make-tables.lock")).unwrap();
    file.lock().unwrap();
    file
}

/// As many as there are nodes, up to what one has in earnest.
fn replicas(nodes: &str) -> String {
    nodes.split(',').count().min(3).to_string()
}

/// One URL with both hosts.
fn with_standby(primary: &str, standby: Option<&str>) -> String {
    let host = |url: &str| url.split_once("://").unwrap().1.rsplit('@').next().unwrap().split('/').next().unwrap().to_owned();
    match standby {
        Some(standby) => primary.replacen(&host(primary), &format!("{},{}", host(primary), host(standby)), 1),
        None => primary.to_owned(),
    }
}

/// All shards in one database, which also looks numbers up.
fn directory_config(folder: &Path, server: &str, database: &str, is_synchronous: bool) -> PathBuf {
    let (host, _) = server.rsplit_once('/').expect("a URL names a database");
    // The configuration takes no password in a URL.
    let (scheme, rest) = host.split_once("://").expect("a URL has a scheme");
    let (user, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let (url, file) = (format!("{scheme}://{user}@{place}/{database}"), folder.join("password"));
    fs::write(&file, password).unwrap();
    let config = folder.join("dunlin.toml");
    let text = format!(
        "[postgres]\nrequire_synchronous = {is_synchronous}\npassword_file = {file:?}\nlookup = {url:?}\n\
         databases = [{{ name = \"main\", shards = \"0-63\", url = {url:?} }}]\n"
    );
    fs::write(&config, text).unwrap();
    config
}

fn say_to_postgres(url: &str, statement: &str) {
    let say = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut server: tokio_postgres::Config = url.parse().expect("a URL");
            server.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
            let (client, connection) = server.connect(tokio_postgres::NoTls).await.expect("PostgreSQL is up");
            tokio::spawn(connection);
            client.batch_execute(statement).await.expect("may make databases");
        });
    };
    std::thread::scope(|scope| scope.spawn(say).join()).unwrap();
}

impl Drop for Place {
    /// Tables take memory in Cassandra, and a database takes megabytes. A topic takes next to nothing.
    fn drop(&mut self) {
        say_to_postgres(&self.postgres, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.keyspace));
        let (node, statement) = (self.cassandra.clone(), format!("DROP KEYSPACE IF EXISTS {}", self.keyspace));
        let _turn = turn_to_make_tables();
        let drop_keyspace = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let session = scylla::client::session_builder::SessionBuilder::new().known_nodes(node.split(',')).build().await;
                // Whatever it is, it is not what the test was about.
                if let Ok(session) = session {
                    let _ = session.query_unpaged(statement, ()).await;
                }
            });
        };
        let _ = std::thread::spawn(drop_keyspace).join();
    }
}
