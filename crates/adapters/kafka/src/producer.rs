//! Appends records, and tells what is known about those that were not acknowledged.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use dunlin_model::{Millis, Offset, Partition};
use dunlin_ports::StoreError;
use rdkafka::{
    ClientConfig,
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    producer::{FutureProducer, FutureRecord, Producer as _},
};
use tracing::{error, info};

use crate::{
    Options,
    client::{self, Context},
    error::{not_acknowledged, not_taken},
};

/// What a node holds of unacknowledged events at most; then it refuses more.
const QUEUE_EVENTS_MAX: &str = "20000";
const QUEUE_KBYTES_MAX: &str = "65536";
/// The largest event, and the largest batch.
const EVENT_BYTES_MAX: &str = "1000000";
/// How long an append waits. A little longer than the election of a new leader takes, after which it still succeeds.
const APPEND_WAIT_MS: &str = "10000";
/// How long the leader waits for the other replicas before it says that they are late.
const REPLICAS_WAIT_MS: &str = "5000";

const PROBE_WAIT: Duration = Duration::from_secs(2);

/// No lingering: while a request is under way, what comes in forms the next batch, so waiting longer would only be waiting.
/// LZ4 saves room on the wire and on three disks, and its cost is lost in the noise.
pub(crate) const USUAL: &[(&str, &str)] = &[
    ("linger.ms", "0"),
    ("compression.type", "lz4"),
    ("queue.buffering.max.messages", QUEUE_EVENTS_MAX),
    ("queue.buffering.max.kbytes", QUEUE_KBYTES_MAX),
    ("message.timeout.ms", APPEND_WAIT_MS),
    ("request.timeout.ms", REPLICAS_WAIT_MS),
];

/// Idempotence keeps records in order, and single, when a request is repeated.
pub(crate) const FIXED: &[(&str, &str)] = &[
    ("acks", "all"),
    ("enable.idempotence", "true"),
    ("max.in.flight.requests.per.connection", "5"),
    ("message.max.bytes", EVENT_BYTES_MAX),
];

pub struct Producer {
    config: ClientConfig,
    topic: Arc<str>,
    context: Context,
    client: RwLock<FutureProducer<Context>>,
    is_probing: Arc<AtomicBool>,
}

impl Producer {
    pub fn new(options: &Options) -> KafkaResult<Producer> {
        let config = client::config(options, USUAL, FIXED);
        let context = Context::default();
        let client = RwLock::new(config.create_with_context(context.clone())?);
        Ok(Producer { config, topic: options.topic.as_str().into(), context, client, is_probing: Arc::default() })
    }

    /// Where it is, and what the broker's clock said. The record has its place in the order of its partition as soon as this is first polled.
    pub async fn append(&self, partition: Partition, key: &str, payload: &[u8]) -> Result<(Offset, Option<Millis>), StoreError> {
        if self.context.is_away() {
            self.probe();
            let why = self.context.trouble().unwrap_or_else(|| "no connection".to_owned());
            return Err(StoreError::Unavailable(format!("no broker can be reached: {why}")));
        }
        let number = i32::try_from(partition.0).expect("a topic has fewer than 2^31 partitions");
        let record = FutureRecord::to(&self.topic).partition(number).key(key).payload(payload);
        let taken = self.client().send_result(record).map_err(|(error, _)| error);
        let acknowledged = taken.map_err(|error| self.refuse(&error))?.await;
        match acknowledged {
            Ok(Ok(delivery)) => {
                let time = delivery.timestamp.to_millis().and_then(|time| u64::try_from(time).ok()).map(Millis);
                // A repetition that the broker knew may be from so long ago that it no longer knows its offset.
                let unknown = |_| StoreError::Unknown("Kafka holds the event, but does not say where".to_owned());
                Ok((u64::try_from(delivery.offset).map(Offset).map_err(unknown)?, time))
            }
            Ok(Err((error, _))) => Err(not_acknowledged(&error)),
            Err(_) => Err(StoreError::Unknown("the Kafka client ended before it had an answer".to_owned())),
        }
    }

    /// Waits until nothing is under way any more.
    pub fn flush(&self, wait: Duration) -> KafkaResult<()> {
        self.client().flush(wait)
    }

    pub fn cluster_id(&self, wait: Duration) -> Option<String> {
        self.client().client().fetch_cluster_id(wait)
    }

    fn client(&self) -> FutureProducer<Context> {
        self.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn refuse(&self, error: &KafkaError) -> StoreError {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            self.replace();
        }
        not_taken(error)
    }

    /// A client that lost track of what it sent refuses everything from then on, and has given up on everything that it held.
    fn replace(&self) {
        let mut client = self.client.write().unwrap_or_else(PoisonError::into_inner);
        let Some((code, why)) = client.client().fatal_error() else { return };
        error!(%code, why, "the Kafka producer failed for good; a new one takes its place");
        match self.config.create_with_context(self.context.clone()) {
            Ok(new) => *client = new,
            Err(error) => error!(%error, "failed to make a new Kafka producer"),
        }
    }

    /// Finds out in the background whether a broker is back.
    fn probe(&self) {
        if self.is_probing.swap(true, Ordering::Relaxed) {
            return;
        }
        let (client, topic, context, is_probing) =
            (self.client(), Arc::clone(&self.topic), self.context.clone(), Arc::clone(&self.is_probing));
        tokio::task::spawn_blocking(move || {
            if client.client().fetch_metadata(Some(&topic), PROBE_WAIT).is_ok() {
                info!("a Kafka broker can be reached again");
                context.back();
            }
            is_probing.store(false, Ordering::Relaxed);
        });
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::{
        mocking::MockCluster,
        producer::DefaultProducerContext,
        types::{RDKafkaApiKey, RDKafkaRespErr},
    };

    use super::*;

    type Cluster = MockCluster<'static, DefaultProducerContext>;

    /// librdkafka's own broker, which fails as it is told to; and a producer that gives up after three seconds.
    fn cluster() -> (Cluster, Producer) {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("log", 1, 1).unwrap();
        let mut options = Options::new(cluster.bootstrap_servers(), "log");
        options.properties.insert("message.timeout.ms".to_owned(), "3000".to_owned());
        options.properties.insert("request.timeout.ms".to_owned(), "1000".to_owned());
        (cluster, Producer::new(&options).unwrap())
    }

    async fn append(producer: &Producer) -> Result<Offset, StoreError> {
        producer.append(Partition(0), "key", b"payload").await.map(|(offset, _)| offset)
    }

    #[tokio::test]
    async fn offsets_are_kafkas() {
        let (_cluster, producer) = cluster();
        assert_eq!((append(&producer).await.unwrap(), append(&producer).await.unwrap()), (Offset(0), Offset(1)));
    }

    #[tokio::test]
    async fn what_is_refused_for_its_size_conflicts() {
        let (cluster, producer) = cluster();
        let large = vec![7; 1_000_001];
        assert!(matches!(producer.append(Partition(0), "key", &large).await, Err(StoreError::Conflict(_))));
        cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
        assert!(matches!(append(&producer).await, Err(StoreError::Conflict(_))));
    }

    #[tokio::test]
    async fn a_passing_error_is_tried_again() {
        let (cluster, producer) = cluster();
        cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND]);
        assert!(append(&producer).await.is_ok());
    }

    #[tokio::test]
    async fn an_answer_that_does_not_come_is_unknown() {
        let (cluster, producer) = cluster();
        append(&producer).await.unwrap();
        cluster.broker_round_trip_time(1, Duration::from_secs(10)).unwrap();
        assert!(matches!(append(&producer).await, Err(StoreError::Unknown(_))));
    }

    #[tokio::test]
    async fn a_refusal_by_the_broker_is_unknown() {
        let (cluster, producer) = cluster();
        append(&producer).await.unwrap();
        cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
        assert!(matches!(append(&producer).await, Err(StoreError::Unknown(_))));
    }

    /// What is called while no broker can be reached is refused at once, until one can.
    #[tokio::test]
    async fn without_brokers_it_is_unavailable_until_one_is_back() {
        let (cluster, producer) = cluster();
        append(&producer).await.unwrap();
        cluster.broker_down(1).unwrap();
        // What was taken before that showed is unknown.
        while let Err(StoreError::Unknown(_)) = append(&producer).await {}
        assert!(matches!(append(&producer).await, Err(StoreError::Unavailable(_))));
        cluster.broker_up(1).unwrap();
        while let Err(StoreError::Unavailable(_) | StoreError::Unknown(_)) = append(&producer).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(append(&producer).await.is_ok());
    }
}
