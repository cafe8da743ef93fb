//! Whether the log is the one that the state was made from, and how another one takes its place (rule "the log's identity").
//!
//! Kafka does not tell a topic from another that was made under the same name. What it holds does: the event at each checkpoint has an id.

use std::{collections::BTreeSet, fmt};

use anyhow::{Context as _, Result, bail, ensure};
use dunlin_cassandra::Messages;
use dunlin_kafka::EventLog;
use dunlin_model::{Epoch, Millis, Offset, Partition};
use dunlin_ports::{Checkpoint, EventLog as _, Life, MessageStore as _};

use crate::{cluster, config::Config};

/// How many partitions a node that starts looks into. A log that was lost or replaced is another one in all of them, and each projection
/// looks at its own anyway.
const LOOKED_INTO_MAX: u32 = 4;

/// How much of a log that was cut off is projected once more, in case the clocks of the old brokers and the new ones differ. What a
/// client sent is known again by its client id, and everything else may be done twice in the same order.
const TWICE_MS: u64 = 60_000;

/// The message store, and the log that its state was made from; or why they don't belong together.
pub async fn open(config: &Config) -> Result<(Messages, EventLog)> {
    let (store, log, life) = open_any(config).await?;
    let found = log.identity().await.context("the log")?;
    let reopen = "if the log was lost or replaced, stop all nodes and run `dunlin log reopen`";
    ensure!(found == life.log, "the log is {found}, but the state was made from {}: mend the configuration; {reopen}", life.log);
    let mut looked_into = 0;
    for partition in (0..log.partitions()).map(Partition) {
        match stand(&store, &log, partition).await? {
            Stand::Untouched => continue,
            Stand::Same(_) => looked_into += 1,
            Stand::Other(checkpoint) => {
                let (Partition(partition), Offset(offset)) = (partition, checkpoint.seq.offset());
                bail!("{found} is not the log that the state was made from: partition {partition} lacks its event {offset}; {reopen}");
            }
        }
        if looked_into == LOOKED_INTO_MAX {
            break;
        }
    }
    Ok((store, log))
}

/// As `open`, whatever log it is.
async fn open_any(config: &Config) -> Result<(Messages, EventLog, Life)> {
    let store = Messages::open(cluster::cassandra(config)?).await.context("the message store")?;
    let life = store.life().await.context("the message store")?;
    let life = life.with_context(|| format!("no log belongs to keyspace {} yet: run `dunlin schema apply`", config.cassandra.keyspace))?;
    let log = EventLog::open(cluster::kafka(config)?.living(&life)).await.context("the log")?;
    Ok((store, log, life))
}

/// Makes tables and topic, or brings them to this version. The log's first life begins with them.
pub async fn make(config: &Config) -> Result<()> {
    let (cassandra, kafka) = (cluster::cassandra(config)?, cluster::kafka(config)?);
    // Before anything is made: whether Kafka answers, and would have room for the topic.
    let has_topic = dunlin_kafka::has_topic(&kafka).await.context("the log")?;
    if !has_topic {
        dunlin_kafka::could_create_topic(&kafka).await.context("the log")?;
    }
    dunlin_cassandra::schema::apply(&cassandra).await.context("the message store")?;
    let store = Messages::open(cassandra).await.context("the message store")?;
    let life = store.life().await.context("the message store")?;
    if life.is_some() && !has_topic {
        // They would go on in the new one with the numbers of the old one.
        let nodes = dunlin_kafka::nodes(&kafka).await.context("the log")?;
        ensure!(nodes == 0, "topic {} is gone, and {}", kafka.topic, running(nodes));
    }
    dunlin_kafka::create_topic(&kafka).await.context("the log")?;
    let log = EventLog::open(kafka).await.context("the log")?;
    if life.is_none() {
        let life = Life { epoch: Epoch::FIRST_LIVE, log: log.identity().await?, begins: Vec::new(), not_before: Millis::ZERO };
        store.begin_life(&life).await?;
    }
    Ok(())
}

/// On which nodes may run: the one that the configuration names, and the one that the state was made from.
fn topics(config: &Config, old: &Life) -> BTreeSet<String> {
    let topic = dunlin_kafka::topic_of(&old.log).map(str::to_owned);
    topic.into_iter().chain([config.kafka.topic.clone()]).collect()
}

fn running(nodes: usize) -> String {
    format!("stop all nodes first: {nodes} run, or were killed less than 10 s ago")
}

/// How a partition of the log stands to its checkpoint.
enum Stand {
    /// Nothing of this life was projected yet.
    Untouched,
    Same(Checkpoint),
    Other(Checkpoint),
}

async fn stand(store: &Messages, log: &EventLog, partition: Partition) -> Result<Stand> {
    let checkpoint = store.checkpoint(partition).await?.filter(|checkpoint| checkpoint.seq >= log.begins(partition));
    let Some(checkpoint) = checkpoint else { return Ok(Stand::Untouched) };
    let is_same = log.event_at(partition, checkpoint.seq.offset()).await? == Some(checkpoint.event_id);
    Ok(if is_same { Stand::Same(checkpoint) } else { Stand::Other(checkpoint) })
}

/// The next life of the log, before it begins.
pub struct Reopening {
    store: Messages,
    old: Life,
    new: Life,
    /// How many partitions hold another log than before, and how many go on.
    others: usize,
    same: usize,
}

impl Reopening {
    /// Refuses while nodes run, and where there is nothing to do.
    pub async fn plan(config: &Config) -> Result<Reopening> {
        let (store, log, old) = open_any(config).await?;
        for topic in topics(config, &old) {
            let mut config = config.clone();
            config.kafka.topic = topic;
            let nodes = dunlin_kafka::nodes(&cluster::kafka(&config)?).await.context("the log")?;
            ensure!(nodes == 0, "topic {}: {}", config.kafka.topic, running(nodes));
        }
        let (mut begins, mut not_before, mut others, mut same) = (Vec::new(), old.not_before, 0, 0);
        for partition in (0..log.partitions()).map(Partition) {
            let (first, time) = match stand(&store, &log, partition).await? {
                Stand::Untouched => (log.extent(partition, old.not_before.minus(TWICE_MS)).await?.after, Millis::ZERO),
                Stand::Same(checkpoint) => {
                    same += 1;
                    (checkpoint.seq.offset().next(), checkpoint.log_time)
                }
                Stand::Other(checkpoint) => {
                    others += 1;
                    (log.extent(partition, checkpoint.log_time.minus(TWICE_MS)).await?.after, checkpoint.log_time)
                }
            };
            begins.push(first);
            not_before = not_before.max(time);
        }
        let new = Life { epoch: old.epoch.next(), log: log.identity().await?, begins, not_before };
        ensure!(others > 0 || new.log != old.log, "{} is the log that the state was made from: there is nothing to reopen", old.log);
        Ok(Reopening { store, old, new, others, same })
    }

    pub async fn begin(self) -> Result<Life> {
        self.store.begin_life(&self.new).await?;
        Ok(self.new)
    }
}

impl fmt::Display for Reopening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reopening { old, new, others, same, .. } = self;
        writeln!(f, "the state was made from {} (epoch {})", old.log, old.epoch.0)?;
        writeln!(
            f,
            "the log is {} now; partitions with other events than before: {others}, that go on where the state ends: {same}",
            new.log
        )?;
        writeln!(f, "epoch {} would begin, at log time {} or later", new.epoch.0, dunlin_protocol::Time(new.not_before))?;
        if old.log != new.log {
            writeln!(f, "nodes that still run on the old one end by themselves, within seconds: make sure that none does")?;
        }
        write!(f, "messages that are in the state stay; those that were only in the lost log are gone")
    }
}
