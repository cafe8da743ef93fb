//! The port on Kafka: partitions are the topic's, offsets are Kafka's.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use dunlin_model::{Event, EventId, LogKey, Millis, Offset, Partition, Seq};
use dunlin_ports::{Appended, StoreError, Tail as _};
use tokio::sync::watch;

use crate::{Extent, OpenError, Options, error::sentence, producer::Producer, reader::Readers, share::Share, tail::Tail, topic};

/// How long a node that stops waits for its last appends, and for having left the group.
const CLOSE_WAIT: Duration = Duration::from_secs(3);
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// Between topic and cluster, in the words by which a log is known.
const OF_CLUSTER: &str = " of Kafka cluster ";

/// The topic of a log, by the words that [`EventLog::identity`] had for it.
pub fn topic_of(identity: &str) -> Option<&str> {
    identity.strip_prefix("topic ")?.split_once(OF_CLUSTER).map(|(topic, _)| topic)
}

pub struct EventLog {
    options: Options,
    producer: Arc<Producer>,
    readers: Readers,
    members: Arc<watch::Sender<usize>>,
    /// Why the last append failed; none once one has succeeded again.
    trouble: Mutex<Option<String>>,
    /// By partition, the number of events up to the last one that was acknowledged to this node.
    acknowledged: Vec<AtomicU64>,
    /// Whether the topic is another one now, under the same name.
    is_replaced: AtomicBool,
    skew_ms: AtomicU64,
}

impl EventLog {
    /// Refuses a topic that is not what the port's promises need. Takes ten seconds at most, or little more.
    pub async fn open(options: Options) -> Result<EventLog, OpenError> {
        // The first thing made: it has its connections by the time the topic is checked.
        let producer = Producer::new(&options).map_err(|error| OpenError::Refused(sentence(&error)))?;
        topic::check_topic(&options).await?;
        let readers = Readers::new(options.clone());
        let acknowledged = (0..options.partitions).map(|_| AtomicU64::new(0)).collect();
        let (producer, members, trouble) = (Arc::new(producer), Arc::default(), Mutex::default());
        let (is_replaced, skew_ms) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(EventLog { options, producer, readers, members, trouble, acknowledged, is_replaced, skew_ms })
    }

    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// By how much the clock of the broker that took the last event differs from this machine's, at least.
    pub fn skew_ms(&self) -> u64 {
        self.skew_ms.load(Ordering::Relaxed)
    }

    /// Which log this is: Kafka's cluster and the topic. A topic that was deleted and made anew has the same name, so this does not tell
    /// them apart; what the log holds does.
    pub async fn identity(&self) -> Result<String, StoreError> {
        let (producer, topic) = (Arc::clone(&self.producer), self.options.topic.clone());
        let cluster = self.ask(move || producer.cluster_id(ANSWER_WAIT)).await?;
        let cluster = cluster.ok_or_else(|| StoreError::Unavailable("Kafka did not tell the id of its cluster".to_owned()))?;
        Ok(format!("topic {topic}{OF_CLUSTER}{cluster}"))
    }

    /// What a partition holds, and where the records after a time begin.
    pub async fn extent(&self, partition: Partition, time: Millis) -> Result<Extent, StoreError> {
        self.readers.extent(partition, time).await
    }

    /// The id of the event at an offset; none if the log does not hold it.
    pub async fn event_at(&self, partition: Partition, offset: Offset) -> Result<Option<EventId>, StoreError> {
        let extent = self.extent(partition, Millis::ZERO).await?;
        if !(extent.low..extent.high).contains(&offset) {
            return Ok(None);
        }
        let records = Tail::open(&self.readers, partition, offset).await?.next(1).await?;
        Ok(records.first().map(|record| record.event_id))
    }

    /// librdkafka's questions block.
    async fn ask<T: Send + 'static>(&self, question: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
        let answer = tokio::task::spawn_blocking(question).await;
        answer.map_err(|error| StoreError::Unavailable(format!("a blocking task did not finish: {error}")))
    }

    /// To be called last, once no more is appended and every share is dropped: a process that ends before has not left the group, and its
    /// partitions wait for ten seconds.
    pub async fn close(&self) {
        let producer = Arc::clone(&self.producer);
        let mut members = self.members.subscribe();
        let closing = async {
            let flushed = tokio::task::spawn_blocking(move || producer.flush(CLOSE_WAIT)).await;
            let left = members.wait_for(|count| *count == 0).await.map(|_| ());
            (flushed, left)
        };
        if tokio::time::timeout(CLOSE_WAIT, closing).await.is_err() {
            tracing::warn!("Kafka was not taken leave of in time; other nodes take over after ten seconds");
        }
    }

    /// Appends, unless the topic was deleted and made anew meanwhile: its offsets begin again, and would name events of the old one.
    async fn append_bytes(&self, key: &LogKey, bytes: &[u8]) -> Result<Offset, StoreError> {
        const REPLACED: &str = "the topic was deleted and made anew: stop all nodes and run `dunlin log reopen`";
        if self.is_replaced.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable(REPLACED.to_owned()));
        }
        let partition = key.partition(self.options.partitions);
        let acknowledged = &self.acknowledged[partition.0 as usize];
        let before = acknowledged.load(Ordering::Acquire);
        let asked = unix_ms();
        let (offset, time) = self.producer.append(partition, &key.to_string(), bytes).await?;
        if let Some(Millis(theirs)) = time {
            let skew_ms = theirs.saturating_sub(unix_ms()).max(asked.saturating_sub(theirs));
            self.skew_ms.store(skew_ms, Ordering::Relaxed);
        }
        if offset.0 < before {
            self.is_replaced.store(true, Ordering::Relaxed);
            return Err(StoreError::Unknown(REPLACED.to_owned()));
        }
        acknowledged.fetch_max(offset.next().0, Ordering::Release);
        Ok(offset)
    }

    fn note(&self, outcome: &Result<Offset, StoreError>) {
        let failed = outcome.as_ref().err().filter(|error| !matches!(error, StoreError::Conflict(_)));
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_some() || trouble.is_some() {
            *trouble = failed.map(|error| format!("the log: {error}"));
        }
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[async_trait]
impl dunlin_ports::EventLog for EventLog {
    async fn append(&self, key: &LogKey, event: &Event) -> Result<Appended, StoreError> {
        let appended = self.append_bytes(key, &event.encode()).await;
        self.note(&appended);
        Ok(Appended { seq: Seq::new(self.options.epoch, appended?) })
    }

    fn partitions(&self) -> u32 {
        self.options.partitions
    }

    fn begins(&self, partition: Partition) -> Seq {
        Seq::new(self.options.epoch, self.options.begins.get(partition.0 as usize).copied().unwrap_or_default())
    }

    async fn tail(&self, partition: Partition, from: Offset) -> Result<Box<dyn dunlin_ports::Tail>, StoreError> {
        Ok(Box::new(Tail::open(&self.readers, partition, from).await?))
    }

    async fn join(&self) -> Result<Box<dyn dunlin_ports::Share>, StoreError> {
        Ok(Box::new(Share::join(&self.options, &self.members)?))
    }
}
