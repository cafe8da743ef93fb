//! The driver alone, to measure what this crate adds to it: a producer with the same settings, and nothing around it.

use std::time::Duration;

use dunlin_model::LogKey;
use rdkafka::producer::{FutureProducer, FutureRecord};

use crate::{
    OpenError, Options, client,
    error::sentence,
    producer::{FIXED, USUAL},
};

pub struct BareProducer {
    producer: FutureProducer,
    topic: String,
}

impl BareProducer {
    pub fn open(options: &Options) -> Result<BareProducer, OpenError> {
        let producer = client::config(options, USUAL, FIXED).create().map_err(|error| OpenError::Refused(sentence(&error)))?;
        Ok(BareProducer { producer, topic: options.topic.clone() })
    }

    /// Whether all replicas have it.
    pub async fn send(&self, partition: u32, key: Option<&LogKey>, bytes: &[u8]) -> bool {
        let partition = i32::try_from(partition).unwrap_or(0);
        let key = key.map(ToString::to_string);
        let record = FutureRecord::<str, [u8]> { key: key.as_deref(), ..FutureRecord::to(&self.topic) };
        self.producer.send(record.partition(partition).payload(bytes), Duration::ZERO).await.is_ok()
    }
}
