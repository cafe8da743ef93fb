//! What every client of this crate has in common: how it connects, and where librdkafka's own words go.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use rdkafka::{
    ClientConfig, ClientContext,
    config::RDKafkaLogLevel,
    consumer::ConsumerContext,
    error::{KafkaError, RDKafkaErrorCode},
};
use tracing::{debug, info, warn};

use crate::Options;

/// For every client. A broker that was away is tried again after a second at most, instead of ten.
const USUAL: &[(&str, &str)] = &[
    ("client.id", "dunlin"),
    ("socket.nagle.disable", "true"),
    ("socket.keepalive.enable", "true"),
    ("socket.timeout.ms", "10000"),
    ("socket.connection.setup.timeout.ms", "5000"),
    ("reconnect.backoff.max.ms", "1000"),
    ("log.connection.close", "false"),
];

/// `usual` gives way to the operator's properties, `fixed` does not.
pub fn config(options: &Options, usual: &[(&str, &str)], fixed: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    let given = options.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in USUAL.iter().chain(usual).copied().chain(given).chain(fixed.iter().copied()) {
        config.set(name, value);
    }
    // A producer's question about a topic would create it, where brokers allow that.
    config.set("allow.auto.create.topics", "false");
    config.set("bootstrap.servers", &options.brokers);
    config
}

/// What librdkafka tells beside the answers to calls. Clones share it.
#[derive(Clone, Default)]
pub struct Context(Arc<State>);

#[derive(Default)]
struct State {
    is_away: AtomicBool,
    is_not_let_in: AtomicBool,
    trouble: Mutex<Option<String>>,
}

impl Context {
    /// Whether no broker could be reached lately. Someone has to call `back` once one can.
    pub fn is_away(&self) -> bool {
        self.0.is_away.load(Ordering::Relaxed)
    }

    pub fn back(&self) {
        self.0.is_away.store(false, Ordering::Relaxed);
    }

    /// Whether a broker refused our name or password.
    pub fn is_not_let_in(&self) -> bool {
        self.0.is_not_let_in.load(Ordering::Relaxed)
    }

    /// What went wrong last, for a sentence about a call that failed.
    pub fn trouble(&self) -> Option<String> {
        self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Debug => debug!(facility, "librdkafka: {message}"),
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => info!(facility, "librdkafka: {message}"),
            // Most of its errors mend themselves; those that don't come back as the error of a call.
            _ => warn!(facility, "librdkafka: {message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        debug!(%error, reason, "librdkafka reports an error");
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            // Its reason only counts the brokers: what was said before tells more.
            self.0.is_away.store(true, Ordering::Relaxed);
        } else {
            let is_refusal = error.rdkafka_error_code() == Some(RDKafkaErrorCode::Authentication);
            self.0.is_not_let_in.fetch_or(is_refusal, Ordering::Relaxed);
            *self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
        }
    }
}

impl ConsumerContext for Context {}
