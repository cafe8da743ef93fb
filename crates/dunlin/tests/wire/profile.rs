//! On which profile the tests run: embedded, or with DUNLIN_TEST_PROFILE=cluster on the engines whose addresses the environment has
//! (`cargo xtask engines up` starts some). Each server then has a keyspace and a topic of its own.

use std::{env, process::Command};

#[allow(dead_code, reason = "each test uses some of it")]
pub struct Place {
    pub keyspace: String,
    pub cassandra: String,
    pub environment: Vec<(String, String)>,
}

impl Place {
    /// None on the embedded profile, where the data folder is a place of its own.
    pub fn make() -> Option<Place> {
        match env::var("DUNLIN_TEST_PROFILE").as_deref() {
            Err(_) | Ok("embedded") => return None,
            Ok("cluster") => {}
            Ok(other) => panic!("DUNLIN_TEST_PROFILE is {other}; there are embedded and cluster"),
        }
        let engine = |name: &str| env::var(name).unwrap_or_else(|_| panic!("{name} is not set; `cargo xtask engines up` starts engines"));
        let keyspace = format!("wire_{:016x}", getrandom::u64().unwrap());
        let cassandra = engine("DUNLIN_TEST_CASSANDRA");
        let given = [
            ("ENGINES_LOG", "kafka"),
            ("ENGINES_MESSAGES", "cassandra"),
            ("ENGINES_EPHEMERAL", "redis"),
            ("ENGINES_BUS", "redis"),
            ("ENGINES_SEVERAL_NODES", "true"),
            ("KAFKA_BROKERS", &engine("DUNLIN_TEST_KAFKA")),
            ("KAFKA_TOPIC", &keyspace),
            ("KAFKA_PARTITIONS", "4"),
            ("KAFKA_REPLICAS", "1"),
            ("CASSANDRA_NODES", &cassandra),
            ("CASSANDRA_KEYSPACE", &keyspace),
            ("CASSANDRA_REPLICAS", "1"),
            ("REDIS_NODES", &engine("DUNLIN_TEST_REDIS")),
            ("REDIS_PREFIX", &format!("{keyspace}:")),
        ];
        let environment = given.map(|(name, value)| (format!("DUNLIN_{name}"), value.to_owned())).to_vec();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
        let made = command.args(["schema", "apply"]).envs(environment.iter().cloned()).env("DUNLIN_LOG", "warn").output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some(Place { keyspace, cassandra, environment })
    }
}

impl Drop for Place {
    /// Tables take memory in Cassandra. A topic takes next to nothing.
    fn drop(&mut self) {
        let (node, statement) = (self.cassandra.clone(), format!("DROP KEYSPACE IF EXISTS {}", self.keyspace));
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
