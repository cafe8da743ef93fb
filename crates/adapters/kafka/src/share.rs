//! Sharing out the partitions among the nodes, by a consumer group in which nobody consumes: its partitions are paused, nothing is fetched
//! and nothing committed. What a member is assigned is what its node projects.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use async_trait::async_trait;
use dunlin_model::Partition;
use dunlin_ports::StoreError;
use rdkafka::{
    ClientContext, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext, Rebalance},
    error::KafkaError,
};
use tokio::sync::{mpsc, watch};
use tracing::warn;

use crate::{
    Options,
    client::{self, Context},
    error::not_read,
};

/// How long a share that was let go is held on to.
const POLL_WAIT: Duration = Duration::from_millis(100);

/// Changes that nobody has asked for yet. A node that leaves more of them lying does not project, and so loses its place in the group.
const CHANGES_MAX: usize = 64;

const USUAL: &[(&str, &str)] = &[("heartbeat.interval.ms", "1000"), ("fetch.message.max.bytes", "1024"), ("queued.min.messages", "1")];

/// Cooperative: who keeps a partition does not stop projecting it while others change hands.
const FIXED: &[(&str, &str)] = &[
    ("partition.assignment.strategy", "cooperative-sticky"),
    ("session.timeout.ms", "10000"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("auto.offset.reset", "latest"),
];

type Change = Result<Vec<Partition>, StoreError>;

pub struct Share {
    changes: mpsc::Receiver<Change>,
}

impl Share {
    /// `members` counts those that have not left yet.
    pub fn join(options: &Options, members: &Arc<watch::Sender<usize>>) -> Result<Share, StoreError> {
        let (told, changes) = mpsc::channel(CHANGES_MAX);
        let mut config = client::config(options, USUAL, FIXED);
        let context = Member { told: told.clone(), held: Mutex::default(), client: Context::default() };
        let consumer: Result<BaseConsumer<Member>, _> = config.set("group.id", &options.group).create_with_context(context);
        let consumer = consumer.and_then(|consumer| consumer.subscribe(&[&options.topic]).map(|()| consumer));
        let consumer = consumer.map_err(|error| not_read("join the group of projectors", &error))?;
        let place = Place::take(members);
        thread::Builder::new()
            .name("kafka-share".to_owned())
            .spawn(move || {
                while !told.is_closed() {
                    if let Some(Err(error)) = consumer.poll(POLL_WAIT) {
                        tell_trouble(&told, &error);
                    }
                }
                // Leaves the group, and then its place.
                drop(consumer);
                drop(place);
            })
            .expect("the operating system has another thread");
        Ok(Share { changes })
    }
}

#[async_trait]
impl dunlin_ports::Share for Share {
    async fn next(&mut self) -> Change {
        let ended = || Err(StoreError::Unavailable("the member of the group has ended".to_owned()));
        self.changes.recv().await.unwrap_or_else(ended)
    }
}

/// A broker that is away is no news: the group waits for it, and takes the partitions from a member that waits too long.
fn tell_trouble(told: &mpsc::Sender<Change>, error: &KafkaError) {
    use rdkafka::error::RDKafkaErrorCode as Code;
    warn!(%error, "the group of projectors has trouble");
    if let Some(Code::GroupAuthorizationFailed | Code::TopicAuthorizationFailed | Code::UnknownTopicOrPartition) =
        error.rdkafka_error_code()
    {
        // Full: then there is news enough.
        let _ = told.try_send(Err(not_read("take part in the group of projectors", error)));
    }
}

struct Member {
    told: mpsc::Sender<Change>,
    /// None before the first assignment.
    held: Mutex<Option<BTreeSet<Partition>>>,
    client: Context,
}

impl ClientContext for Member {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.client.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.client.error(error, reason);
    }
}

impl ConsumerContext for Member {
    fn post_rebalance(&self, consumer: &BaseConsumer<Member>, rebalance: &Rebalance<'_>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = held.clone().unwrap_or_default();
        match rebalance {
            Rebalance::Assign(more) => {
                // The few records that may have come before this are thrown away.
                if let Err(error) = consumer.pause(more) {
                    warn!(%error, "failed to pause partitions; they are fetched in vain");
                }
                now.extend(partitions(more));
            }
            Rebalance::Revoke(less) => {
                let less: BTreeSet<_> = partitions(less).collect();
                now.retain(|partition| !less.contains(partition));
            }
            Rebalance::Error(_) => return,
        }
        if held.as_ref() != Some(&now) {
            // Waits while the node does not ask; after that, it has ended.
            let _ = self.told.blocking_send(Ok(now.iter().copied().collect()));
            *held = Some(now);
        }
    }
}

fn partitions(list: &TopicPartitionList) -> impl Iterator<Item = Partition> {
    let numbers: Vec<_> = list.elements().iter().filter_map(|element| u32::try_from(element.partition()).ok()).collect();
    numbers.into_iter().map(Partition)
}

/// One of the members that have not left yet.
struct Place(Arc<watch::Sender<usize>>);

impl Place {
    fn take(members: &Arc<watch::Sender<usize>>) -> Place {
        members.send_modify(|count| *count += 1);
        Place(Arc::clone(members))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
