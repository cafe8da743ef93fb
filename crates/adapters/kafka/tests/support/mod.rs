//! Topics of the Kafka that the tests were given, and events to put there.
#![allow(dead_code, reason = "each test uses some of it")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::time::Duration;

use dunlin_contract::ids;
use dunlin_kafka::{EventLog, Options, create_topic};
use dunlin_model::{Body, Content, ConversationId, Event, Message, MessageType, Offset, Partition, RULES};
use rdkafka::{
    ClientConfig, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    producer::{FutureProducer, FutureRecord},
};

/// A guard against hanging, nothing more.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Cluster {
    brokers: String,
}

impl Cluster {
    pub fn given() -> Cluster {
        let brokers = std::env::var("DUNLIN_TEST_KAFKA");
        Cluster { brokers: brokers.expect("DUNLIN_TEST_KAFKA names the broker as host:port; `cargo xtask engines up` starts one") }
    }

    /// A topic of its own, and with it a group of its own.
    pub fn options(&self) -> Options {
        Options { partitions: 3, replicas: 1, ..Options::new(&self.brokers, format!("test-{}", ids::hex())) }
    }

    pub async fn new_log(&self) -> EventLog {
        let options = self.options();
        create_topic(&options).await.expect("the topic is created");
        EventLog::open(options).await.expect("the log opens")
    }

    /// As Kafka makes it by itself.
    pub async fn create_plain_topic(&self, topic: &str, partitions: i32) {
        let topic = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let created = admin(&self.brokers).create_topics([&topic], &AdminOptions::new()).await.unwrap();
        created.into_iter().for_each(|topic| drop(topic.unwrap()));
    }
}

pub async fn delete_before(options: &Options, partition: Partition, offset: Offset) {
    let mut list = TopicPartitionList::new();
    let (partition, offset) = (i32::try_from(partition.0).unwrap(), i64::try_from(offset.0).unwrap());
    list.add_partition_offset(&options.topic, partition, rdkafka::Offset::Offset(offset)).unwrap();
    admin(&options.brokers).delete_records(&list, &AdminOptions::new()).await.unwrap();
}

/// As anyone who reaches the broker may.
pub async fn put(options: &Options, partition: Partition, key: Option<&str>, bytes: &[u8]) -> Offset {
    let producer: FutureProducer = ClientConfig::new().set("bootstrap.servers", &options.brokers).create().unwrap();
    let mut record = FutureRecord::to(&options.topic).partition(i32::try_from(partition.0).unwrap()).payload(bytes);
    record.key = key;
    let delivered = producer.send(record, PATIENCE).await.map_err(|(error, _)| error).unwrap();
    Offset(u64::try_from(delivered.offset).unwrap())
}

fn admin(brokers: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap()
}

/// A message between two users of its own.
pub fn event(text: &str) -> Event {
    event_of(Content::text(text).unwrap())
}

/// Larger than any that the model would let pass.
pub fn event_of_bytes(len: usize) -> Event {
    event_of(Content::Opaque { content_type: "a/b".into(), bytes: vec![7; len].into() })
}

fn event_of(content: Content) -> Event {
    let pair = ids::pair();
    let body = Body::Message(Message {
        conversation: ConversationId::direct(&pair),
        opening: None,
        client_id: ids::client_id(),
        message_type: MessageType::text(),
        content,
        reply_to: None,
        metadata: None,
    });
    Event { id: ids::event_id(), key: pair.log_key(), rules: RULES, origin: None, actor: None, body }
}
