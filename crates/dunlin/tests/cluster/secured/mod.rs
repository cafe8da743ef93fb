//! PostgreSQL and Redis that speak TLS and ask for a password: a node works with them; and what is wrong with its way in, it says in a
//! sentence that holds no secret. (Kafka and Cassandra over TLS take a build with the feature `tls`.)

mod authority;
mod servers;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use authority::Authority;
use dunlin::{cluster, config::Config};
use dunlin_client::{
    Client,
    protocol::{Outcome, TokenBody},
};
use dunlin_contract::listed;
use servers::{HOST, Postgres, Redis, USER};
use tempfile::TempDir;

use crate::{node::Node, profile::Place};

/// A guard against hanging, nothing more.
const HUNG: Duration = Duration::from_secs(120);

/// Two authorities of which one is trusted, and passwords that occur nowhere else.
struct Secrets {
    folder: TempDir,
    authority: Authority,
    right: String,
    wrong: String,
}

impl Secrets {
    fn make() -> Secrets {
        let secret = |word: &str| format!("{word}-{:016x}", getrandom::u64().unwrap());
        let secrets = Secrets {
            folder: tempfile::tempdir().unwrap(),
            authority: Authority::new("trusted"),
            right: secret("sesame"),
            wrong: secret("barley"),
        };
        secrets.authority.write_to(&secrets.path("ca"));
        Authority::new("other").write_to(&secrets.path("other-ca"));
        fs::write(secrets.path("right"), &secrets.right).unwrap();
        fs::write(secrets.path("wrong"), format!("{}\n", secrets.wrong)).unwrap();
        fs::write(secrets.path("no-ca"), &secrets.wrong).unwrap();
        secrets
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Whatever a process says, it says no password.
    fn assert_kept(&self, output: &Output) {
        let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
        assert!(!said.contains(&self.right) && !said.contains(&self.wrong), "{said}");
    }
}

type Variables = Vec<(&'static str, String)>;

fn place() -> Place {
    Place::of_cluster()
}

/// Users are in this PostgreSQL, by the name that its host is given here.
fn in_postgres(secrets: &Secrets, postgres: &Postgres, host: &str, query: &str) -> Variables {
    let url = format!("postgres://{host}:{}/postgres{query}", postgres.port);
    let path = secrets.path(&format!("postgres-{host}-{}.toml", query.len()));
    let text = format!(
        "[postgres]\nrequire_synchronous = false\nlookup = {url:?}\ndatabases = [{{ name = \"main\", shards = \"0-63\", url = {url:?} }}]\n"
    );
    fs::write(&path, text).unwrap();
    vec![
        ("DUNLIN_CONFIG", path.to_str().unwrap().to_owned()),
        ("DUNLIN_POSTGRES_USER", USER.to_owned()),
        ("DUNLIN_POSTGRES_PASSWORD_FILE", secrets.text("right")),
        ("DUNLIN_POSTGRES_TLS", "true".to_owned()),
        ("DUNLIN_POSTGRES_CA_FILE", secrets.text("ca")),
    ]
}

fn in_redis(secrets: &Secrets, nodes: &[String]) -> Variables {
    vec![
        ("DUNLIN_REDIS_NODES", nodes.join(",")),
        ("DUNLIN_REDIS_PASSWORD_FILE", secrets.text("right")),
        ("DUNLIN_REDIS_TLS", "true".to_owned()),
        ("DUNLIN_REDIS_CA_FILE", secrets.text("ca")),
    ]
}

fn dunlin(place: &Place, arguments: &[&str], given: &[(&str, String)]) -> Output {
    let mut command = crate::dunlin();
    command.args(arguments).envs(place.environment.iter().cloned());
    command.env("DUNLIN_LOG", "trace").envs(given.iter().cloned()).output().unwrap()
}

/// Starting fails with one sentence that tells this, nothing is written, and no secret is told, not even to those who want to know it all.
fn assert_refused(place: &Place, secrets: &Secrets, given: &[(&str, String)], told: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let output = dunlin(place, &["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()], given);
    let why = String::from_utf8_lossy(&output.stderr);
    let last = why.lines().last().unwrap();
    assert_eq!(output.status.code(), Some(2), "{given:?}: {last}");
    assert!(last.starts_with("dunlin: ") && told.iter().all(|words| last.contains(words)), "{given:?}: {last}");
    assert!(!data.exists(), "nothing was written");
    secrets.assert_kept(&output);
    secrets.assert_kept(&dunlin(place, &["config", "print"], given));
}

/// The same, and some of it otherwise.
fn but(given: &Variables, changes: &[(&'static str, &str)]) -> Variables {
    let changes = changes.iter().map(|(name, value)| (*name, (*value).to_owned()));
    given.iter().cloned().chain(changes).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_works_over_tls_with_passwords() {
    let (mut place, secrets) = (place(), Secrets::make());
    let (postgres, redis) = (Postgres::start(&secrets.authority, &secrets.right), Redis::start(&secrets.authority, &secrets.right));
    let given = [in_postgres(&secrets, &postgres, HOST, ""), in_redis(&secrets, &redis.nodes[..1])].concat();
    let applied = dunlin(&place, &["schema", "apply"], &given);
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    secrets.assert_kept(&applied);
    place.environment.extend(given.into_iter().map(|(name, value)| (name.to_owned(), value)));
    tokio::time::timeout(HUNG, async {
        keeps_its_promises(&place).await;
        sends(&place, secrets.folder.path()).await;
    })
    .await
    .expect("it comes to an end");
}

/// Some of them, enough to be sure that calls go through.
async fn keeps_its_promises(place: &Place) {
    let (config, _) = Config::load(Some(&config_of(place)), place.environment.iter().cloned(), &[]).unwrap();
    let directory = dunlin_postgres::Directory::open(&cluster::postgres(&config).unwrap()).await.unwrap();
    listed::directory::a_new_user_reads_back(&directory).await;
    listed::directory::of_two_users_at_once_one_gets_the_number(&directory).await;
    let redis = dunlin_redis::Cluster::open(&cluster::redis(&config).unwrap()).unwrap();
    let bus = dunlin_redis::SessionBus::new(redis.clone(), dunlin_contract::ids::node());
    listed::session_bus::frames_arrive_in_order_with_their_notices(&bus).await;
    // Each has keys that are spread over the nodes.
    listed::ephemeral::a_send_is_recalled(&dunlin_redis::Ephemeral::new(redis.clone())).await;
    listed::ephemeral::every_part_of_the_key_counts(&dunlin_redis::Ephemeral::new(redis)).await;
}

fn config_of(place: &Place) -> PathBuf {
    place.environment.iter().rfind(|(name, _)| name == "DUNLIN_CONFIG").map(|(_, path)| path.into()).unwrap()
}

async fn sends(place: &Place, folder: &Path) {
    let node = Node::start(place, &folder.join("data"));
    let host = Client::new(node.url.parse().unwrap(), node.key.as_ref().unwrap());
    host.put_user("bob", &Default::default()).await.unwrap();
    let token = host.mint_token("alice", &TokenBody::default()).await.unwrap().token;
    let alice = Client::new(node.url.parse().unwrap(), &token);
    while alice.send("bob", "1", "hello").await.unwrap().outcome == Outcome::Pending {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ready = Command::new("curl").args(["-sf", &format!("{}/readyz", node.url)]).output().unwrap();
    assert!(ready.status.success(), "{}", String::from_utf8_lossy(&ready.stdout));
}

#[test]
fn a_postgres_that_is_not_trusted_or_does_not_let_us_in_is_told() {
    let (place, secrets) = (place(), Secrets::make());
    let postgres = Postgres::start(&secrets.authority, &secrets.right);
    let right = in_postgres(&secrets, &postgres, HOST, "");
    let refused = |given: &Variables, told: &[&str]| assert_refused(&place, &secrets, given, told);
    let (wrong, other, no_ca) = (secrets.text("wrong"), secrets.text("other-ca"), secrets.text("no-ca"));

    let hint = "look at postgres.user, postgres.password_file and postgres.tls";
    refused(&but(&right, &[("DUNLIN_POSTGRES_PASSWORD_FILE", &wrong)]), &["main does not let us in", "authentication failed", hint]);
    refused(&but(&right, &[("DUNLIN_POSTGRES_PASSWORD_FILE", "")]), &["main does not let us in", "password missing", hint]);
    refused(&but(&right, &[("DUNLIN_POSTGRES_TLS", "false")]), &["main does not let us in", "no encryption", hint]);
    refused(&but(&right, &[("DUNLIN_POSTGRES_CA_FILE", &other)]), &["not trusted", "UnknownIssuer", "look at postgres.ca_file"]);
    refused(&but(&right, &[("DUNLIN_POSTGRES_CA_FILE", "")]), &["not trusted", "UnknownIssuer", "look at postgres.ca_file"]);
    refused(&but(&right, &[("DUNLIN_POSTGRES_CA_FILE", &no_ca)]), &["postgres.ca_file", "holds no certificate in PEM"]);
    refused(&in_postgres(&secrets, &postgres, "localhost", ""), &["not trusted", "not valid for name \"localhost\""]);
    // What the URL says counts as well, and is no way around the certificate.
    let by_url = but(&in_postgres(&secrets, &postgres, HOST, "?sslmode=require"), &[("DUNLIN_POSTGRES_TLS", "false")]);
    refused(&but(&by_url, &[("DUNLIN_POSTGRES_CA_FILE", &other)]), &["not trusted", "UnknownIssuer"]);
    refused(&by_url, &["has no tables", "dunlin schema apply"]);
    // The servers of other tests speak no TLS.
    refused(&vec![("DUNLIN_POSTGRES_TLS", "true".to_owned())], &["main does not let us in", "server does not support TLS", hint]);
}

#[test]
fn a_redis_that_is_not_trusted_or_does_not_let_us_in_is_told() {
    let (place, secrets) = (place(), Secrets::make());
    let redis = Redis::start(&secrets.authority, &secrets.right);
    let right = in_redis(&secrets, &redis.nodes);
    let refused = |given: &Variables, told: &[&str]| assert_refused(&place, &secrets, given, told);
    let (wrong, other, no_ca) = (secrets.text("wrong"), secrets.text("other-ca"), secrets.text("no-ca"));
    let plain = place.environment.iter().find(|(name, _)| name == "DUNLIN_REDIS_NODES").unwrap().1.clone();

    let hint = "look at redis.user and redis.password_file";
    refused(&but(&right, &[("DUNLIN_REDIS_PASSWORD_FILE", &wrong)]), &["Redis at", "does not let us in", hint]);
    refused(&but(&right, &[("DUNLIN_REDIS_PASSWORD_FILE", "")]), &["does not let us in", "it asks for a password", hint]);
    refused(&but(&right, &[("DUNLIN_REDIS_CA_FILE", &other)]), &["not trusted", "UnknownIssuer", "look at redis.ca_file"]);
    refused(&but(&right, &[("DUNLIN_REDIS_CA_FILE", "")]), &["not trusted", "UnknownIssuer", "look at redis.ca_file"]);
    refused(&but(&right, &[("DUNLIN_REDIS_CA_FILE", &no_ca)]), &["redis.ca_file", "holds no certificate in PEM"]);
    let by_name = redis.nodes[0].replace(HOST, "localhost");
    refused(&but(&right, &[("DUNLIN_REDIS_NODES", &by_name)]), &["not trusted", "not valid for name \"localhost\""]);
    refused(&but(&right, &[("DUNLIN_REDIS_TLS", "false")]), &["speaks TLS there", "set redis.tls"]);
    refused(&but(&right, &[("DUNLIN_REDIS_NODES", &plain)]), &["does not speak TLS there", "redis.tls is on"]);
}
