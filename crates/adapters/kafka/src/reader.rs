//! The consumers behind the tails. A client of librdkafka has a thread and a connection for each broker, so the tails of all partitions
//! share one, and each gets a queue of its own from it.
//!
//! The crate's asynchronous consumers are not used: their wake-ups get lost now and then, and for queues of one partition nothing repeats
//! them. A tail polls its queue itself, and looks again after a while whether it was woken or not.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use dunlin_model::{Epoch, Millis, Offset, Partition};
use dunlin_ports::StoreError;
use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _, base_consumer::PartitionQueue},
    error::KafkaResult,
};
use tracing::error;

use crate::{
    Options,
    client::{self, Context},
    error::not_read,
};

const ANSWER_WAIT: Duration = Duration::from_secs(5);
const POLL_WAIT: Duration = Duration::from_millis(100);

/// What is read ahead, for each partition: about a batch of the projector. A partition that was just assigned waits for the fetch that is
/// under way, hence the short wait at the end of the log.
const USUAL: &[(&str, &str)] = &[
    ("queued.min.messages", "5000"),
    ("queued.max.messages.kbytes", "1024"),
    ("fetch.queue.backoff.ms", "10"),
    ("fetch.message.max.bytes", "1048576"),
    ("fetch.max.bytes", "16777216"),
    ("fetch.wait.max.ms", "100"),
];

const FIXED: &[(&str, &str)] = &[
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "false"),
    ("auto.offset.reset", "error"),
    ("check.crcs", "true"),
];

/// As many consumers as there are tails of one partition at a time: nearly always one.
pub struct Readers {
    options: Options,
    readers: Mutex<Vec<Arc<Reader>>>,
}

impl Readers {
    pub fn new(options: Options) -> Readers {
        Readers { options, readers: Mutex::default() }
    }

    pub fn partitions(&self) -> u32 {
        self.options.partitions
    }

    pub fn life(&self) -> (Epoch, Millis) {
        (self.options.epoch, self.options.not_before)
    }

    /// Where a partition begins and ends, and where the first record after a time is.
    pub async fn extent(&self, partition: Partition, time: Millis) -> Result<Extent, StoreError> {
        let reader = self.take(partition)?;
        let extent = reader.extent(partition, time).await;
        reader.give_back(partition);
        extent
    }

    /// A consumer that reads this partition for nobody else.
    pub fn take(&self, partition: Partition) -> Result<Arc<Reader>, StoreError> {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reader) = readers.iter().find(|reader| reader.taken().insert(partition)) {
            return Ok(Arc::clone(reader));
        }
        let reader = Arc::new(Reader::new(&self.options).map_err(|error| not_read("make a Kafka consumer", &error))?);
        reader.taken().insert(partition);
        readers.push(Arc::clone(&reader));
        Ok(reader)
    }
}

/// What a partition holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The first offset that is kept.
    pub low: Offset,
    /// The one after the last.
    pub high: Offset,
    /// The first record after the time that was asked for; `high` if there is none.
    pub after: Offset,
}

pub struct Reader {
    consumer: Arc<BaseConsumer<Context>>,
    topic: String,
    taken: Mutex<BTreeSet<Partition>>,
}

impl Reader {
    fn new(options: &Options) -> KafkaResult<Reader> {
        // Without a group's name librdkafka assigns nothing; it is not joined.
        let mut config = client::config(options, USUAL, FIXED);
        let consumer: BaseConsumer<Context> = config.set("group.id", &options.group).create_with_context(Context::default())?;
        let consumer = Arc::new(consumer);
        let polled = Arc::clone(&consumer);
        // What it says beside the records has to be taken from it. The last to hold it closes it, which blocks.
        thread::Builder::new()
            .name("kafka-reader".to_owned())
            .spawn(move || {
                while Arc::strong_count(&polled) > 1 {
                    if let Some(Ok(_)) = polled.poll(POLL_WAIT) {
                        error!("a record came beside the queue of its partition; its tail will miss it and stop");
                    }
                }
            })
            .expect("the operating system has another thread");
        Ok(Reader { consumer, topic: options.topic.clone(), taken: Mutex::default() })
    }

    /// The records of a partition that is assigned, once it is. To be had before it is assigned, else some go astray.
    pub fn queue(&self, partition: Partition) -> PartitionQueue<Context> {
        self.consumer.split_partition_queue(&self.topic, number(partition)).expect("the topic's name has no zero byte")
    }

    pub fn assign(&self, partition: Partition, from: Offset) -> Result<(), StoreError> {
        let offset = i64::try_from(from.0).map_err(|_| StoreError::Corrupt(format!("offset {} can't be", from.0)))?;
        let mut assignment = TopicPartitionList::new();
        let added = assignment.add_partition_offset(&self.topic, number(partition), rdkafka::Offset::Offset(offset));
        let assigned = added.and_then(|()| self.consumer.incremental_assign(&assignment));
        assigned.map_err(|error| not_read(&format!("read partition {}", partition.0), &error))
    }

    pub fn unassign(&self, partition: Partition) {
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition(&self.topic, number(partition));
        if let Err(error) = self.consumer.incremental_unassign(&assignment) {
            error!(partition = partition.0, %error, "failed to stop reading a partition");
        }
    }

    /// The first offset that is kept, and the one after the last.
    pub async fn bounds(&self, partition: Partition) -> Result<(Offset, Offset), StoreError> {
        let (consumer, topic) = (Arc::clone(&self.consumer), self.topic.clone());
        let asking = move || consumer.fetch_watermarks(&topic, number(partition), ANSWER_WAIT);
        let answer = tokio::task::spawn_blocking(asking).await;
        let answer = answer.map_err(|error| StoreError::Unavailable(format!("a blocking task did not finish: {error}")))?;
        let (low, high) = answer.map_err(|error| not_read(&format!("ask for the bounds of partition {}", partition.0), &error))?;
        let offset = |offset: i64| Offset(u64::try_from(offset).unwrap_or(0));
        Ok((offset(low), offset(high)))
    }

    async fn extent(&self, partition: Partition, time: Millis) -> Result<Extent, StoreError> {
        let (low, high) = self.bounds(partition).await?;
        let (consumer, topic) = (Arc::clone(&self.consumer), self.topic.clone());
        let asking = move || {
            let mut list = TopicPartitionList::new();
            let after = i64::try_from(time.0.saturating_add(1)).unwrap_or(i64::MAX);
            list.add_partition_offset(&topic, number(partition), rdkafka::Offset::Offset(after))?;
            Ok(consumer.offsets_for_times(list, ANSWER_WAIT)?.elements().first().map(|element| element.offset()))
        };
        let answer = tokio::task::spawn_blocking(asking).await;
        let answer = answer.map_err(|error| StoreError::Unavailable(format!("a blocking task did not finish: {error}")))?;
        let answer = answer.map_err(|error| not_read(&format!("ask for times of partition {}", partition.0), &error))?;
        let after = match answer {
            Some(rdkafka::Offset::Offset(offset)) => Offset(u64::try_from(offset).unwrap_or(0)),
            _ => high,
        };
        Ok(Extent { low, high, after: after.clamp(low, high) })
    }

    /// Others may read the partition again.
    pub fn give_back(&self, partition: Partition) {
        self.taken().remove(&partition);
    }

    fn taken(&self) -> MutexGuard<'_, BTreeSet<Partition>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(partition: Partition) -> i32 {
    i32::try_from(partition.0).expect("a topic has fewer than 2^31 partitions")
}
