//! Shards and server keys in PostgreSQL, from the command line. Needs no other engine: DUNLIN_TEST_POSTGRES names one, in which databases are
//! made.

use std::{fs, path::PathBuf};

use dunlin::{cluster, config::Config};
use tempfile::TempDir;

struct Place {
    _folder: TempDir,
    config: PathBuf,
}

impl Place {
    /// Two databases, of which the first has all shards.
    async fn new() -> Place {
        let server =
            std::env::var("DUNLIN_TEST_POSTGRES").expect("DUNLIN_TEST_POSTGRES names a PostgreSQL; `cargo xtask engines up` starts one");
        let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let (host, _) = server.rsplit_once('/').unwrap();
        // The configuration takes no password in a URL.
        let (scheme, rest) = host.split_once("://").unwrap();
        let (user, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (user, password) = user.split_once(':').unwrap_or((user, ""));
        let mut urls = Vec::new();
        for name in ["a", "b", "lookup"] {
            let database = format!("dunlin_shards_{name}_{:016x}", getrandom::u64().unwrap());
            client.batch_execute(&format!("CREATE DATABASE {database} TEMPLATE template0")).await.unwrap();
            urls.push(format!("{scheme}://{user}@{place}/{database}"));
        }
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("dunlin.toml");
        let password_file = folder.path().join("password");
        fs::write(&password_file, password).unwrap();
        let text = format!(
            "[engines]
             log = \"kafka\"
             messages = \"cassandra\"
             directory = \"postgres\"
             [postgres]
             require_synchronous = false
             password_file = {password_file:?}
             lookup = \"{}\"
             [[postgres.databases]]
             name = \"a\"
             shards = \"0-63\"
             url = \"{}\"
             [[postgres.databases]]
             name = \"b\"
             shards = \"\"
             url = \"{}\"",
            urls[2], urls[0], urls[1]
        );
        fs::write(&config, text).unwrap();
        Place { _folder: folder, config }
    }

    /// What it prints, or how it fails.
    fn dunlin(&self, args: &[&str]) -> Result<String, String> {
        let mut command = crate::dunlin();
        let done = command.args(args).arg("--config").arg(&self.config).env("DUNLIN_LOG", "warn").output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_makes_keys_and_moves_shards() {
    let place = Place::new().await;
    let untouched = place.dunlin(&["shards", "list"]).unwrap_err();
    assert!(untouched.contains("run `dunlin schema apply`"), "{untouched}");
    let (config, _) = Config::load(Some(&place.config), [], &[]).unwrap();
    dunlin_postgres::schema::apply(&cluster::postgres(&config).unwrap()).await.unwrap();

    let key = place.dunlin(&["key", "new", "--name", "shop"]).unwrap();
    assert!(key.starts_with("dk_"), "{key}");
    assert!(place.dunlin(&["key", "list"]).unwrap().contains("shop"));

    let listed = place.dunlin(&["shards", "list"]).unwrap();
    assert!(listed.lines().any(|line| line.starts_with("a ") && line.ends_with(" 0-63")), "{listed}");
    let moved = place.dunlin(&["shards", "move", "7", "--to", "b"]).unwrap();
    assert!(moved.starts_with("shard 7 is in b; writes to it waited for "), "{moved}");
    assert_eq!(place.dunlin(&["shards", "move", "7", "--to", "b"]).unwrap(), "shard 7 is in b\n");
    let listed = place.dunlin(&["shards", "list"]).unwrap();
    assert!(listed.lines().any(|line| line.starts_with("a ") && line.ends_with(" 0-6, 8-63")), "{listed}");
    assert!(listed.lines().any(|line| line.starts_with("b ") && line.ends_with(" 7")), "{listed}");
    assert!(place.dunlin(&["shards", "move", "64", "--to", "b"]).unwrap_err().contains("must be 0 to 63"));
    assert!(place.dunlin(&["shards", "move", "7", "--to", "c"]).unwrap_err().contains("there is no PostgreSQL database c"));
    assert!(place.dunlin(&["key", "list"]).unwrap().contains("shop"));
}
