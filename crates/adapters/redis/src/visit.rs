//! A look at Redis before a node relies on it: whether what answers is a Redis that the adapters can use. Redis that does not answer is
//! no reason not to start; one that answers and is wrong will be wrong tomorrow.

use std::collections::HashMap;

use dunlin_model::Millis;
use redis::{
    AsyncConnectionConfig, ConnectionInfo, ErrorKind, ProtocolVersion, RedisError, ServerErrorKind, Value, aio::MultiplexedConnection,
};

use crate::{
    InvalidOptions, Options,
    cluster::{NODE_CONNECT_TIMEOUT, client},
    error,
    speech::{self, Speech},
};

/// Sharded channels came with it.
const MAJOR_MIN: u32 = 7;

/// Why a node that is told to use this Redis does not start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VisitError {
    #[error(transparent)]
    Options(#[from] InvalidOptions),
    #[error("no Redis node answers: {0}")]
    Away(String),
    #[error("Redis at {node} does not let us in: {why}; look at redis.user and redis.password_file")]
    NotLetIn { node: String, why: String },
    #[error("Redis at {node} shows a certificate that is not trusted: {why}; look at redis.ca_file")]
    NotTrusted { node: String, why: String },
    #[error("Redis at {node} speaks TLS there: set redis.tls, and redis.ca_file, or name its other port")]
    SpeaksTls { node: String },
    #[error("Redis at {node} does not speak TLS there, and redis.tls is on: name its TLS port")]
    SpeaksPlain { node: String },
    #[error("Redis at {node} has version {found}, and at least {MAJOR_MIN}.0 is needed, with which sharded channels came")]
    TooOld { node: String, found: String },
    #[error("Redis at {node} is no cluster: set cluster-enabled there, or name another")]
    NoCluster { node: String },
}

/// A node that was found to be right.
pub struct Visit {
    node: String,
    connection: MultiplexedConnection,
}

impl Visit {
    /// The first node that answers stands for all.
    pub async fn pay(options: &Options) -> Result<Visit, VisitError> {
        let mut failure = VisitError::Options(InvalidOptions::NoNodes);
        for node in options.connections()? {
            match visit(options, node).await {
                Err(VisitError::Away(why)) => failure = VisitError::Away(why),
                visited => return visited,
            }
        }
        Err(failure)
    }

    /// What its clock says.
    pub async fn now(&mut self) -> Result<Millis, VisitError> {
        let asked: Result<(u64, u64), RedisError> = redis::cmd("TIME").query_async(&mut self.connection).await;
        let (seconds, micros) = asked.map_err(|error| refused(&self.node, &error))?;
        Ok(Millis(seconds * 1_000 + micros / 1_000))
    }
}

async fn visit(options: &Options, node: ConnectionInfo) -> Result<Visit, VisitError> {
    let (address, target) = (node.addr().to_string(), node.addr().clone());
    // An old Redis does not understand the protocol that everything else here speaks.
    let settings = node.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(NODE_CONNECT_TIMEOUT)).set_response_timeout(Some(options.call_timeout));
    let connected = async {
        let client = client(node.set_redis_settings(settings), options.trusted.as_deref())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let hello: HashMap<String, Value> = redis::cmd("HELLO").query_async(&mut connection).await?;
        Ok((connection, hello))
    };
    match connected.await.map_err(|error| refused(&address, &error)) {
        Ok((connection, hello)) => {
            judge(&address, &hello)?;
            Ok(Visit { node: address, connection })
        }
        Err(VisitError::Away(why)) => Err(match speech::other(&target).await {
            Some(Speech::Tls) => VisitError::SpeaksTls { node: address },
            Some(Speech::Plain) => VisitError::SpeaksPlain { node: address },
            None => VisitError::Away(why),
        }),
        Err(other) => Err(other),
    }
}

fn judge(node: &str, hello: &HashMap<String, Value>) -> Result<(), VisitError> {
    let text = |name: &str| hello.get(name).and_then(|value| redis::from_redis_value_ref::<String>(value).ok()).unwrap_or_default();
    let found = text("version");
    let major = found.split('.').next().and_then(|major| major.parse().ok());
    if major.is_none_or(|major: u32| major < MAJOR_MIN) {
        return Err(VisitError::TooOld { node: node.to_owned(), found });
    }
    if text("mode") != "cluster" {
        return Err(VisitError::NoCluster { node: node.to_owned() });
    }
    Ok(())
}

fn refused(node: &str, error: &RedisError) -> VisitError {
    let node = node.to_owned();
    match error.kind() {
        // What it said to an AUTH, the driver keeps to itself.
        ErrorKind::AuthenticationFailed => VisitError::NotLetIn { node, why: "user or password is wrong".to_owned() },
        ErrorKind::Server(ServerErrorKind::NoPerm) => VisitError::NotLetIn { node, why: error.to_string() },
        ErrorKind::Server(_) | ErrorKind::Extension if error.code() == Some("NOAUTH") => {
            VisitError::NotLetIn { node, why: "it asks for a password".to_owned() }
        }
        ErrorKind::Server(_) | ErrorKind::Extension if error.to_string().contains("unknown command") => {
            VisitError::TooOld { node, found: "5 or less".to_owned() }
        }
        // rustls says so in words only.
        _ if error.to_string().contains("peer certificate") => VisitError::NotTrusted { node, why: error.to_string() },
        _ => VisitError::Away(error::reason(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(version: &str, mode: &str) -> Result<(), String> {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let hello = HashMap::from([("version".to_owned(), text(version)), ("mode".to_owned(), text(mode))]);
        judge("here:1", &hello).map_err(|error| error.to_string())
    }

    #[test]
    fn a_cluster_of_version_7_or_later_is_right() {
        assert_eq!(judged("7.0.0", "cluster"), Ok(()));
        assert_eq!(judged("10.1.2", "cluster"), Ok(()));
        let why = judged("6.2.14", "cluster").unwrap_err();
        assert!(why.contains("Redis at here:1 has version 6.2.14, and at least 7.0 is needed"), "{why}");
        assert!(judged("", "cluster").is_err(), "what does not say is not taken for right");
        assert!(judged("7.0.0", "standalone").unwrap_err().contains("here:1 is no cluster"));
    }
}
