//! Which topic of which cluster is the log, and how to get in.

use std::{collections::BTreeMap, fmt, time::Duration};

use dunlin_model::{Epoch, Millis, Offset};
use dunlin_ports::Life;

#[derive(Clone)]
pub struct Options {
    /// Where to ask first: `host:port`, separated by commas.
    pub brokers: String,
    pub topic: String,
    /// Fixed for the life of the topic: a log key's partition depends on it.
    pub partitions: u32,
    /// How many brokers hold each record, at least. From three on, two of them have it before an append is acknowledged.
    pub replicas: u16,
    /// How long Kafka keeps an event, whether it was projected or not.
    pub retention: Duration,
    /// Which life of the log this topic is.
    pub epoch: Epoch,
    /// Where that begins in each partition; at 0 in those that are not named.
    pub begins: Vec<Offset>,
    /// No record of it has an earlier time.
    pub not_before: Millis,
    /// The consumer group in which the nodes share out the partitions.
    pub group: String,
    /// Further properties of librdkafka, such as `security.protocol` and `sasl.password`. They may replace what is usual here (`linger.ms`),
    /// never what the port's promises stand on (`acks`).
    pub properties: BTreeMap<String, String>,
}

impl Options {
    /// What a cluster in production has.
    pub fn new(brokers: impl Into<String>, topic: impl Into<String>) -> Options {
        let topic = topic.into();
        Options {
            brokers: brokers.into(),
            group: format!("{topic}-projectors"),
            topic,
            partitions: 1_024,
            replicas: 3,
            retention: Duration::from_secs(14 * 24 * 60 * 60),
            epoch: Epoch::FIRST_LIVE,
            begins: Vec::new(),
            not_before: Millis::ZERO,
            properties: BTreeMap::new(),
        }
    }

    pub fn living(self, life: &Life) -> Options {
        Options { epoch: life.epoch, begins: life.begins.clone(), not_before: life.not_before, ..self }
    }
}

/// Names the properties, but not their values: a password may be among them.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { brokers, topic, partitions, replicas, retention, epoch, group, properties, .. } = self;
        f.debug_struct("Options")
            .field("brokers", brokers)
            .field("topic", topic)
            .field("partitions", partitions)
            .field("replicas", replicas)
            .field("retention", retention)
            .field("epoch", epoch)
            .field("group", group)
            .field("properties", &properties.keys())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let mut options = Options::new("localhost:9092", "log");
        options.properties.insert("sasl.password".to_owned(), "hunter2".to_owned());
        let shown = format!("{options:?}");
        assert!(shown.contains("sasl.password") && !shown.contains("hunter2"), "{shown}");
    }
}
