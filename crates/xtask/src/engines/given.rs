//! Engines that the user has: named by environment variables, which are also how addresses are handed on.

use std::fs;

use anyhow::{Context, Result};

use super::{Engine, Place, wait};

/// `DUNLIN_TEST_CASSANDRA=host:port,…` and its like.
pub fn variable(engine: Engine) -> String {
    format!("DUNLIN_TEST_{}", engine.name().to_uppercase())
}

/// What belongs to an engine beside its address.
fn companions(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::Postgres => &["DUNLIN_TEST_POSTGRES_STANDBY"],
        Engine::S3 => &["DUNLIN_TEST_S3_ACCESS_KEY", "DUNLIN_TEST_S3_SECRET_KEY", "DUNLIN_TEST_S3_BUCKET"],
        Engine::Kafka => &["DUNLIN_TEST_KAFKA_SASL"],
        Engine::Redis | Engine::Cassandra => &[],
    }
}

/// The variables of an engine that the environment names; none if it must be started. A value in `ours` is left from an
/// earlier start of our own, whose addresses a shell may still have.
pub fn lookup(engine: Engine, ours: &[(String, String)], env: impl Fn(&str) -> Option<String>) -> Option<Vec<(String, String)>> {
    let pair = |name: &str| env(name).filter(|value| !value.is_empty()).map(|value| (name.to_owned(), value));
    let address = pair(&variable(engine)).filter(|pair| !ours.contains(pair))?;
    Some([address].into_iter().chain(companions(engine).iter().filter_map(|name| pair(name))).collect())
}

/// Whether something listens there. More is for the tests to find out: it may want passwords that only they know.
pub fn check(engine: Engine, value: &str) -> Result<()> {
    let advice = || {
        let variable = variable(engine);
        format!("what {variable} names does not answer; unset it to have {} started here", engine.name())
    };
    wait::connect(&first_address(engine, value)).with_context(advice).map(drop)
}

/// `host:port` of the first node in a list or a URL; no password.
pub fn first_address(engine: Engine, value: &str) -> String {
    let (scheme, rest) = value.split_once("://").unwrap_or(("", value));
    let authority = rest.split(['/', '?', ',']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port {
        return host.to_owned();
    }
    let port = match engine {
        Engine::Redis => 6379,
        Engine::Postgres => 5432,
        Engine::Cassandra => 9042,
        Engine::Kafka => 9092,
        Engine::S3 if scheme == "https" => 443,
        Engine::S3 => 80,
    };
    format!("{host}:{port}")
}

pub fn write(place: &Place, env: &[(String, String)]) -> Result<()> {
    fs::write(place.env(), env_file(env)).with_context(|| format!("failed to write {}", place.env().display()))
}

/// `KEY=value` lines that a shell can source.
pub fn env_file(env: &[(String, String)]) -> String {
    env.iter().map(|(key, value)| format!("{key}={}\n", quoted(value))).collect()
}

fn quoted(value: &str) -> String {
    let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric() || "._-:,/@+".contains(c));
    if is_plain { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn an_engine_is_given_by_its_variable_with_its_companions() {
        let env = |name: &str| match name {
            "DUNLIN_TEST_S3" => Some("http://s3".to_owned()),
            "DUNLIN_TEST_S3_ACCESS_KEY" => Some("key".to_owned()),
            "DUNLIN_TEST_KAFKA" => Some(String::new()),
            _ => None,
        };
        let given = vec![pair("DUNLIN_TEST_S3", "http://s3"), pair("DUNLIN_TEST_S3_ACCESS_KEY", "key")];
        assert_eq!(lookup(Engine::S3, &[], env), Some(given));
        assert_eq!(lookup(Engine::Kafka, &[], env), None);
        assert_eq!(lookup(Engine::Redis, &[], env), None);
    }

    #[test]
    fn an_address_of_our_own_is_not_given() {
        let ours = [pair("DUNLIN_TEST_REDIS", "127.0.0.1:1")];
        assert_eq!(lookup(Engine::Redis, &ours, |_| Some("127.0.0.1:1".to_owned())), None);
        assert!(lookup(Engine::Redis, &ours, |_| Some("127.0.0.1:2".to_owned())).is_some());
    }

    #[test]
    fn the_first_address_is_found_in_lists_and_urls() {
        for (engine, value, expected) in [
            (Engine::Kafka, "a:1,b:2", "a:1"),
            (Engine::Cassandra, "a", "a:9042"),
            (Engine::Postgres, "postgres://user:p@ss@db/name?sslmode=on", "db:5432"),
            (Engine::Postgres, "postgres://db:7/name", "db:7"),
            (Engine::S3, "https://s3.example", "s3.example:443"),
            (Engine::S3, "http://127.0.0.1:17070", "127.0.0.1:17070"),
        ] {
            assert_eq!(first_address(engine, value), expected, "{value}");
        }
    }

    #[test]
    fn a_shell_reads_the_same_values() {
        let env = [pair("A", "127.0.0.1:1,127.0.0.1:2"), pair("B", "postgres://u:it's@h/d?a=b&c=$d")];
        assert_eq!(env_file(&env), "A=127.0.0.1:1,127.0.0.1:2\nB='postgres://u:it'\\''s@h/d?a=b&c=$d'\n");
    }
}
