//! A node whose engines are not as its configuration says does not start: it says why in a sentence, and writes nothing.

use std::{
    env, fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use dunlin::{clocks, cluster, config::Config};
use dunlin_model::Millis;
use dunlin_ports::Clock;

use crate::{node::Node, profile::Place};

const ALONE: (&str, &str) = ("DUNLIN_ENGINES_SEVERAL_NODES", "false");

/// What is wrong with the configuration, and what the refusal must say.
struct Mistake<'a> {
    given: &'a [(&'a str, &'a str)],
    told: &'a [&'a str],
}

fn place() -> Place {
    Place::of_cluster()
}

fn dunlin(place: &Place, arguments: &[&str], given: &[(&str, &str)]) -> Output {
    let mut command = crate::dunlin();
    command.args(arguments).envs(place.environment.iter().cloned()).env("DUNLIN_LOG", "debug").envs(given.iter().copied());
    command.output().unwrap()
}

/// Starting fails in time, with what must be told, and leaves nothing behind. Returns everything that it said.
fn refused(place: &Place, Mistake { given, told }: Mistake<'_>) -> String {
    let (dir, began) = (tempfile::tempdir().unwrap(), Instant::now());
    let data = dir.path().join("data");
    let output = dunlin(place, &["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()], given);
    let why = String::from_utf8(output.stderr).unwrap();
    let last = why.lines().last().unwrap();
    assert_eq!(output.status.code(), Some(2), "{given:?}: {why}");
    assert!(last.starts_with("dunlin: ") && told.iter().all(|words| last.contains(words)), "{given:?}: {why}");
    assert!(!data.exists(), "nothing was written");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    why
}

/// Waits until a page of the node has these words.
fn soon(node: &Node, page: &str, words: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let mut command = Command::new("curl");
        command.args(["-s", &format!("{}{page}", node.url)]).args(["-H", &format!("Authorization: Bearer {}", node.key.as_ref().unwrap())]);
        let answer = String::from_utf8(command.output().unwrap().stdout).unwrap();
        if answer.contains(words) {
            return;
        }
        assert!(Instant::now() < until, "{answer}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_engine_that_is_away_or_made_otherwise_is_refused() {
    let place = place();
    let mistakes = [
        Mistake { given: &[("DUNLIN_KAFKA_TOPIC", "nowhere")], told: &["topic `nowhere` does not exist", "dunlin schema apply"] },
        Mistake { given: &[("DUNLIN_KAFKA_PARTITIONS", "5")], told: &["it has 4 partitions, it must have exactly 5"] },
        Mistake { given: &[("DUNLIN_KAFKA_REPLICAS", "3")], told: &["has 1 replicas, it must have at least 3"] },
        Mistake { given: &[("DUNLIN_KAFKA_RETENTION_DAYS", "3")], told: &["its retention.ms is 1209600000, it must be 259200000"] },
        Mistake { given: &[("DUNLIN_CASSANDRA_NODES", "127.0.0.1:1")], told: &["failed to reach Cassandra at 127.0.0.1:1", "refused"] },
        Mistake { given: &[("DUNLIN_CASSANDRA_KEYSPACE", "nowhere")], told: &["there is no keyspace nowhere", "dunlin schema apply"] },
        Mistake { given: &[("DUNLIN_CASSANDRA_REPLICAS", "2")], told: &["is replicated as dc1: 1, the configuration says dc1: 2"] },
        Mistake { given: &[("DUNLIN_CASSANDRA_DATACENTER", "dc9")], told: &["is in the datacenter dc9", "cassandra.datacenter"] },
        Mistake { given: &[("DUNLIN_CASSANDRA_PASSWORD_FILE", "/nowhere")], told: &["cassandra.password_file: failed to read /nowhere"] },
    ];
    for mistake in mistakes {
        refused(&place, mistake);
    }
}

/// Each takes as long as a broker gets to come up.
#[test]
fn a_kafka_that_is_away_is_not_said_to_want_a_password() {
    let place = place();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let aways = [("127.0.0.1:1", "Connection refused"), ("nowhere.invalid:9092", "Failed to resolve"), (&*silent, "nothing came back")];
    thread::scope(|scope| {
        for (brokers, told) in aways {
            let place = &place;
            scope.spawn(move || {
                let told = [&*format!("Kafka at {brokers} does not answer"), told];
                let why = refused(place, Mistake { given: &[("DUNLIN_KAFKA_BROKERS", brokers)], told: &told });
                assert!(!why.lines().last().unwrap().contains("kafka.sasl"), "{why}");
            });
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_made_is_refused_before_anything_is() {
    let place = place();
    let session = scylla::client::session_builder::SessionBuilder::new().known_nodes(place.cassandra.split(',')).build().await.unwrap();
    let other = format!("{}_other", place.keyspace);
    let is_refused = |given: &[(&str, &str)], told: &str| {
        let output = dunlin(&place, &["schema", "apply"], given);
        let why = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{given:?}: {why}");
        assert!(why.lines().last().unwrap().contains(told), "{given:?}: {why}");
    };
    let in_other = ("DUNLIN_CASSANDRA_KEYSPACE", &*other);
    is_refused(&[in_other, ("DUNLIN_CASSANDRA_REPLICAS", "9")], "in dc1, too few for the 9 replicas that the configuration asks for");
    is_refused(&[in_other, ("DUNLIN_KAFKA_BROKERS", "127.0.0.1:1")], "Kafka at 127.0.0.1:1 does not answer");
    is_refused(
        &[in_other, ("DUNLIN_KAFKA_TOPIC", "another"), ("DUNLIN_KAFKA_REPLICAS", "9")],
        "topic `another` was not created: Kafka has too few brokers for the 9 replicas",
    );
    is_refused(
        &[in_other, ("DUNLIN_POSTGRES_LOOKUP", "postgres://postgres@127.0.0.1:1/postgres")],
        "failed to ask the PostgreSQL database lookup",
    );
    let found = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let found = session.query_unpaged(found, (&other,)).await.unwrap().into_rows_result().unwrap();
    assert_eq!(found.rows_num(), 0, "nothing was made");

    is_refused(&[("DUNLIN_CASSANDRA_REPLICAS", "9")], "the configuration says dc1: 9");
    session.query_unpaged(format!("DROP TABLE {}.feed", place.keyspace), ()).await.unwrap();
    is_refused(&[], "is not what its schema version");
    refused(&place, Mistake { given: &[], told: &["a table was dropped or altered"] });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_another_version_is_refused() {
    let place = place();
    let session = scylla::client::session_builder::SessionBuilder::new().known_nodes(place.cassandra.split(',')).build().await.unwrap();
    let versions = [
        (99, "has version 99, this program knows up to"),
        (1, "has version 1, from before the first release"),
        (0, "has version 0, this program needs"),
    ];
    for (version, told) in versions {
        let statement =
            format!("UPDATE {}.schema_versions USING TIMESTAMP {} SET version = {version} WHERE id = 0", place.keyspace, 200 - version);
        session.query_unpaged(statement, ()).await.unwrap();
        refused(&place, Mistake { given: &[], told: &[told] });
    }
}

#[test]
fn a_node_that_would_be_alone_does_not_start_beside_another() {
    let place = place();
    let dir = tempfile::tempdir().unwrap();
    let other = Node::start(&place, &dir.path().join("data"));
    soon(&other, "/metrics", "dunlin_partitions 4");
    let given = &[ALONE];
    refused(&place, Mistake { given, told: &["engines.several_nodes is off, but there are other nodes (1) on topic", &place.keyspace] });
}

#[test]
fn a_node_that_was_alone_says_that_another_has_come() {
    let mut place = place();
    let dir = tempfile::tempdir().unwrap();
    place.environment.push((ALONE.0.to_owned(), ALONE.1.to_owned()));
    let alone = Node::start(&place, &dir.path().join("alone"));
    soon(&alone, "/readyz", "\"ready\"");
    place.environment.pop();
    let _other = Node::start(&place, &dir.path().join("other"));
    soon(&alone, "/readyz", "engines.several_nodes is off, but there are other nodes (1)");
}

#[test]
fn a_wrong_password_of_kafka_is_told_and_the_right_one_opens() {
    let place = place();
    let brokers = env::var("DUNLIN_TEST_KAFKA_SASL").expect("DUNLIN_TEST_KAFKA_SASL names a listener that asks for a password");
    let dir = tempfile::tempdir().unwrap();
    let (right, wrong) = (dir.path().join("right"), dir.path().join("wrong"));
    fs::write(&right, "open sesame\n").unwrap();
    fs::write(&wrong, "open barley\n").unwrap();
    let with = |file| {
        [
            ("DUNLIN_KAFKA_BROKERS", &*brokers),
            ("DUNLIN_KAFKA_SASL", "plain"),
            ("DUNLIN_KAFKA_USER", "dunlin"),
            ("DUNLIN_KAFKA_PASSWORD_FILE", file),
        ]
    };
    let wrong = with(wrong.to_str().unwrap());
    let why = refused(&place, Mistake { given: &wrong, told: &["Kafka at", "does not let us in", "look at kafka.sasl, kafka.user"] });
    assert!(!why.contains("open barley"), "{why}");
    refused(&place, Mistake { given: &[("DUNLIN_KAFKA_BROKERS", &brokers)], told: &["Kafka at", "kafka.tls and kafka.sasl"] });
    let right = with(right.to_str().unwrap());
    let checked = dunlin(&place, &["schema", "check"], &right);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn a_wrong_password_of_redis_is_told() {
    let place = place();
    let nodes = env::var("DUNLIN_TEST_REDIS").unwrap();
    let user = format!("u{:08x}", getrandom::u32().unwrap());
    let tell = |words: &str| {
        for node in nodes.split(',') {
            let mut stream = TcpStream::connect(node).unwrap();
            stream.write_all(format!("{words}\r\n").as_bytes()).unwrap();
            let mut answer = [0; 64];
            let len = stream.read(&mut answer).unwrap();
            assert!(matches!(answer[0], b'+' | b':'), "{}", String::from_utf8_lossy(&answer[..len]));
        }
    };
    tell(&format!("ACL SETUSER {user} on >sesame ~* &* +@all"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    fs::write(&file, "barley\n").unwrap();
    let given = [("DUNLIN_REDIS_USER", &*user), ("DUNLIN_REDIS_PASSWORD_FILE", file.to_str().unwrap())];
    let why =
        refused(&place, Mistake { given: &given, told: &["Redis at", "does not let us in", "look at redis.user and redis.password_file"] });
    assert!(!why.contains("barley"), "{why}");
    tell(&format!("ACL DELUSER {user}"));
}

#[test]
fn a_bucket_that_is_missing_or_does_not_let_us_in_is_told() {
    let place = place();
    let given =
        |name: &str| env::var(name).unwrap_or_else(|_| panic!("{name} is not set; `cargo xtask engines up --s3` starts an S3 server"));
    let dir = tempfile::tempdir().unwrap();
    let (right, wrong) = (dir.path().join("right"), dir.path().join("wrong"));
    fs::write(&right, given("DUNLIN_TEST_S3_SECRET_KEY") + "\n").unwrap();
    fs::write(&wrong, "open barley\n").unwrap();
    let (endpoint, bucket, key) = (given("DUNLIN_TEST_S3"), given("DUNLIN_TEST_S3_BUCKET"), given("DUNLIN_TEST_S3_ACCESS_KEY"));
    let with = |endpoint, bucket, file| {
        [
            ("DUNLIN_ENGINES_BLOBS", "s3"),
            ("DUNLIN_S3_ENDPOINT", endpoint),
            ("DUNLIN_S3_BUCKET", bucket),
            ("DUNLIN_S3_ACCESS_KEY_ID", &*key),
            ("DUNLIN_S3_SECRET_FILE", file),
            ("DUNLIN_S3_ALLOW_HTTP", "true"),
        ]
    };
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    let missing = with(&*endpoint, "nowhere", right);
    refused(&place, Mistake { given: &missing, told: &["there is no bucket nowhere at", "mend s3.bucket"] });
    let barred = with(&*endpoint, &*bucket, wrong);
    let told = &["S3 at", "does not let us in", "look at s3.access_key_id and s3.secret_file"];
    let why = refused(&place, Mistake { given: &barred, told });
    assert!(!why.contains("open barley"), "{why}");
    let away = with("http://127.0.0.1:1", &*bucket, right);
    refused(&place, Mistake { given: &away, told: &["S3 at http://127.0.0.1:1 can't be used", "refused"] });
    let unread = with(&*endpoint, &*bucket, "/nowhere");
    refused(&place, Mistake { given: &unread, told: &["s3.secret_file: failed to read /nowhere"] });
    let checked = dunlin(&place, &["schema", "check"], &with(&*endpoint, &*bucket, right));
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert!(String::from_utf8_lossy(&checked.stdout).contains(&format!("bucket {bucket} takes blobs")));
}

/// This machine's clock, set wrong by so much.
struct Off(i64);

impl Clock for Off {
    fn now(&self) -> Millis {
        Millis(dunlin_embedded::SystemClock.now().0.checked_add_signed(self.0).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_differs_from_an_engines_is_told_with_the_engine() {
    let place = place();
    let (config, _) = Config::load(None, place.environment.iter().cloned(), &[]).unwrap();
    let store = dunlin_cassandra::Messages::open(cluster::cassandra(&config).unwrap()).await.unwrap();
    let nodes = config.redis.nodes.iter().cloned();
    let mut redis = dunlin_redis::Visit::pay(&dunlin_redis::Options::new(nodes)).await.unwrap();
    clocks::agree("Cassandra", &Off(0), store.now()).await.unwrap();
    clocks::agree("Redis", &Off(0), redis.now()).await.unwrap();
    let why = clocks::agree("Cassandra", &Off(8_000), store.now()).await.unwrap_err().to_string();
    assert!(why.starts_with("the clock of Cassandra is ") && why.contains(" s behind this node's"), "{why}");
    let why = clocks::agree("Redis", &Off(-8_000), redis.now()).await.unwrap_err().to_string();
    assert!(why.starts_with("the clock of Redis is ") && why.contains(" s ahead of this node's"), "{why}");
}
