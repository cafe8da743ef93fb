//! The topic: what it must be like, and how it is made so.

use std::{
    thread,
    time::{Duration, Instant},
};

use tokio::task::spawn_blocking;

use crate::{OpenError, Options, admin::Admin};

/// How long opening the log, or creating its topic, takes at most.
const OPEN_WAIT: Duration = Duration::from_secs(10);
const CREATED_RECHECK: Duration = Duration::from_millis(100);

/// What a batch may take in the topic: Kafka's default, a little above what the producer puts into one.
const BATCH_BYTES_MAX: u32 = 1_048_588;

/// Creates the topic as `EventLog::open` wants it. One that is there already is checked instead.
pub async fn create_topic(options: &Options) -> Result<(), OpenError> {
    let options = options.clone();
    blocking(move || create(&options)).await
}

/// Whether `create_topic` would be let. Nothing is created.
pub async fn could_create_topic(options: &Options) -> Result<(), OpenError> {
    let options = options.clone();
    blocking(move || Admin::new(&options, Instant::now() + OPEN_WAIT)?.could_create(&properties(&options))).await
}

/// Whether the topic is there, whatever it is like.
pub async fn has_topic(options: &Options) -> Result<bool, OpenError> {
    match check_topic(options).await {
        Ok(()) | Err(OpenError::Unfit { .. }) => Ok(true),
        Err(OpenError::NoTopic(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// How many nodes share out the partitions at present. One that was killed counts for ten more seconds.
pub async fn nodes(options: &Options) -> Result<usize, OpenError> {
    let options = options.clone();
    blocking(move || Admin::new(&options, Instant::now() + OPEN_WAIT)?.members(&options.group)).await
}

/// Deletes the topic with all that is in it.
pub async fn delete_topic(options: &Options) -> Result<(), OpenError> {
    let options = options.clone();
    blocking(move || Admin::new(&options, Instant::now() + OPEN_WAIT)?.delete()).await
}

/// Makes sure that the topic is there and is what the port's promises need.
pub async fn check_topic(options: &Options) -> Result<(), OpenError> {
    let options = options.clone();
    blocking(move || fit(&options, &Admin::new(&options, Instant::now() + OPEN_WAIT)?.topic()?)).await
}

/// librdkafka's questions block, and so does dropping its clients.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, OpenError> + Send + 'static) -> Result<T, OpenError> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(OpenError::Refused(format!("a blocking task did not finish: {error}"))))
}

fn create(options: &Options) -> Result<(), OpenError> {
    let until = Instant::now() + OPEN_WAIT;
    let admin = Admin::new(options, until)?;
    match admin.topic() {
        Err(OpenError::NoTopic(_)) => admin.create(&properties(options))?,
        found => return fit(options, &found?),
    }
    // Brokers learn of a new topic one after the other.
    loop {
        match admin.topic() {
            Ok(found) if found.leaders == found.partitions => return fit(options, &found),
            found if Instant::now() > until => return fit(options, &found?),
            _ => thread::sleep(CREATED_RECHECK),
        }
    }
}

/// What a topic is like.
#[derive(Default)]
pub struct Topic {
    pub partitions: usize,
    /// How many partitions have a leader.
    pub leaders: usize,
    /// Of the partition that has the fewest.
    pub replicas: usize,
    pub properties: Vec<(String, String)>,
}

fn fit(options: &Options, found: &Topic) -> Result<(), OpenError> {
    let problems = problems(options, found);
    if problems.is_empty() { Ok(()) } else { Err(OpenError::Unfit { topic: options.topic.clone(), problems }) }
}

fn problems(options: &Options, found: &Topic) -> Vec<String> {
    let mut problems = Vec::new();
    if found.partitions != options.partitions as usize {
        problems.push(format!("it has {} partitions, it must have exactly {}", found.partitions, options.partitions));
    }
    if found.replicas < usize::from(options.replicas) {
        problems.push(format!("a partition of it has {} replicas, it must have at least {}", found.replicas, options.replicas));
    }
    for (name, wanted) in wanted(options) {
        let property = found.properties.iter().find(|(property, _)| property == name);
        let is = property.map_or("unknown", |(_, value)| value);
        let (is_right, words) = match wanted {
            Wanted::Exactly(value) => (is == value, value),
            Wanted::AtLeast(least) => (is.parse().is_ok_and(|is: u32| is >= least), format!("at least {least}")),
        };
        if !is_right {
            problems.push(format!("its {name} is {is}, it must be {words}"));
        }
    }
    problems
}

/// As a new topic gets them.
fn properties(options: &Options) -> Vec<(&'static str, String)> {
    let value = |wanted| match wanted {
        Wanted::Exactly(value) => value,
        Wanted::AtLeast(least) => least.to_string(),
    };
    wanted(options).into_iter().map(|(name, wanted)| (name, value(wanted))).collect()
}

enum Wanted {
    Exactly(String),
    AtLeast(u32),
}

fn wanted(options: &Options) -> Vec<(&'static str, Wanted)> {
    let exactly = |value: &str| Wanted::Exactly(value.to_owned());
    let mut wanted = vec![
        // The log's time is the log's own, not that of whoever appends.
        ("message.timestamp.type", exactly("LogAppendTime")),
        ("cleanup.policy", exactly("delete")),
        ("retention.ms", Wanted::Exactly(options.retention.as_millis().to_string())),
        ("retention.bytes", exactly("-1")),
        // A replica that lacks acknowledged events must never lead.
        ("unclean.leader.election.enable", exactly("false")),
        // A batch above this fails as a whole, with all the small events in it.
        ("max.message.bytes", Wanted::AtLeast(BATCH_BYTES_MAX)),
    ];
    if options.replicas >= 3 {
        wanted.push(("min.insync.replicas", Wanted::AtLeast(2)));
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitting(options: &Options) -> Topic {
        let properties = properties(options).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Topic { partitions: options.partitions as usize, leaders: 0, replicas: usize::from(options.replicas), properties }
    }

    #[test]
    fn a_topic_as_it_is_created_fits() {
        let options = Options::new("localhost:9092", "log");
        assert_eq!(problems(&options, &fitting(&options)), [""; 0]);
    }

    #[test]
    fn each_mismatch_says_what_is_and_what_must_be() {
        let options = Options::new("localhost:9092", "log");
        let mut topic = fitting(&options);
        (topic.partitions, topic.replicas) = (12, 1);
        topic.properties = vec![
            ("message.timestamp.type".to_owned(), "CreateTime".to_owned()),
            ("cleanup.policy".to_owned(), "compact".to_owned()),
            ("retention.ms".to_owned(), "604800000".to_owned()),
            ("retention.bytes".to_owned(), "1000000".to_owned()),
            ("unclean.leader.election.enable".to_owned(), "true".to_owned()),
            ("min.insync.replicas".to_owned(), "1".to_owned()),
        ];
        assert_eq!(
            problems(&options, &topic),
            [
                "it has 12 partitions, it must have exactly 1024",
                "a partition of it has 1 replicas, it must have at least 3",
                "its message.timestamp.type is CreateTime, it must be LogAppendTime",
                "its cleanup.policy is compact, it must be delete",
                "its retention.ms is 604800000, it must be 1209600000",
                "its retention.bytes is 1000000, it must be -1",
                "its unclean.leader.election.enable is true, it must be false",
                "its max.message.bytes is unknown, it must be at least 1048588",
                "its min.insync.replicas is 1, it must be at least 2",
            ]
        );
    }
}
