//! What the driver's errors mean to a caller. Mapped here and nowhere else.

use dunlin_ports::StoreError;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// Why the log does not open.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the configuration of the Kafka client is refused: {0}")]
    Refused(String),
    #[error("Kafka at {brokers} does not answer: {why}")]
    Away { brokers: String, why: String },
    #[error("Kafka at {brokers} does not let us in: {why}; look at kafka.sasl, kafka.user and kafka.password_file")]
    NotLetIn { brokers: String, why: String },
    #[error("Kafka at {brokers} is too old: {why}")]
    TooOld { brokers: String, why: String },
    #[error("topic `{0}` does not exist: run `dunlin schema apply`")]
    NoTopic(String),
    #[error("topic `{topic}` can't be the log: {}", .problems.join("; "))]
    Unfit { topic: String, problems: Vec<String> },
    #[error("topic `{topic}` was not created: {why}")]
    NotCreated { topic: String, why: String },
}

/// Properties whose value, or part of it, nobody may read in a log.
const SECRETS: &[&str] = &["password", "secret", "key", "config"];

/// A sentence without the values of properties, among which are passwords.
pub fn sentence(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, _, name, _) if SECRETS.iter().any(|secret| name.contains(secret)) => format!("property `{name}`"),
        KafkaError::ClientConfig(_, why, name, value) => format!("property `{name}`: {}", why.replace(&format!("\"{value}\""), "…")),
        error => error.to_string(),
    }
}

/// The client did not take the event: nothing was sent.
pub fn not_taken(error: &KafkaError) -> StoreError {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::MessageSizeTooLarge) => StoreError::Conflict("the event is too large for the log".to_owned()),
        Some(RDKafkaErrorCode::QueueFull) => StoreError::Unavailable("too many events wait for Kafka".to_owned()),
        _ => StoreError::Unavailable(format!("the Kafka client took no event: {}", sentence(error))),
    }
}

/// The client took the event and gave up on it. It may have been sent before, and its acknowledgement lost, whatever the last
/// attempt failed with; librdkafka does not tell us. Only the size is the same at every attempt.
pub fn not_acknowledged(error: &KafkaError) -> StoreError {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::MessageSizeTooLarge) => StoreError::Conflict("the event is too large for the topic".to_owned()),
        _ => StoreError::Unknown(format!("Kafka did not acknowledge the event: {}", sentence(error))),
    }
}

/// A question was not answered, or a consumer not made; nothing is changed by either.
pub fn not_read(doing: &str, error: &KafkaError) -> StoreError {
    StoreError::Unavailable(format!("failed to {doing}: {}", sentence(error)))
}

#[cfg(test)]
mod tests {
    use rdkafka::ClientConfig;

    use super::*;

    #[test]
    fn a_refused_property_is_named_without_its_value() {
        for (name, value) in
            [("sasl.pasword", "hunter2"), ("sasl.password.x", "hunter2"), ("acks", "hunter2"), ("security.protocol", "hunter2")]
        {
            let refused = ClientConfig::new().set(name, value).create_native_config();
            let sentence = sentence(&refused.err().expect("no such property or value"));
            assert!(sentence.contains(name) && !sentence.contains("hunter2"), "{sentence}");
        }
    }
}
