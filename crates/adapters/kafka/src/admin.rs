//! Questions about the topic, and its creation. Everything here blocks.

use std::time::{Duration, Instant};

use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};
use tokio::runtime::Handle;

use crate::{
    OpenError, Options,
    client::{self, Context},
    error::sentence,
    topic::Topic,
};

/// An answer that is late may still come within the time that is left, but gets this long in any case.
const ANSWER_WAIT_MIN: Duration = Duration::from_secs(1);

/// In librdkafka's words about a broker that took no connection; how often it said so may follow.
const NEVER_CONNECTED: &str = "in state CONNECT";

/// How long librdkafka is left alone with a question: it tries on until its time is over, also with a password that was refused.
const TURN: Duration = Duration::from_secs(1);

/// The reasons come after the error, one by one.
const REASONS_WAIT: Duration = Duration::from_millis(100);

pub struct Admin<'a> {
    options: &'a Options,
    until: Instant,
    admin: AdminClient<DefaultClientContext>,
    /// Asks for metadata in its stead: an admin client is silent about why no broker can be reached.
    asking: BaseConsumer<Context>,
    context: Context,
}

impl Admin<'_> {
    /// To be done with everything at `until`.
    pub fn new(options: &Options, until: Instant) -> Result<Admin<'_>, OpenError> {
        let config = client::config(options, &[], &[]);
        let refused = |error: KafkaError| OpenError::Refused(sentence(&error));
        let context = Context::default();
        let asking = config.create_with_context(context.clone()).map_err(refused)?;
        Ok(Admin { options, until, admin: config.create().map_err(refused)?, asking, context })
    }

    pub fn members(&self, group: &str) -> Result<usize, OpenError> {
        let groups = self.ask(|turn| self.asking.fetch_group_list(Some(group), turn))?;
        Ok(groups.groups().iter().map(|group| group.members().len()).sum())
    }

    pub fn topic(&self) -> Result<Topic, OpenError> {
        let name = &self.options.topic;
        let metadata = self.ask(|turn| self.asking.fetch_metadata(Some(name), turn))?;
        let found = metadata.topics().first().filter(|topic| !topic.partitions().is_empty());
        let Some(found) = found else {
            return Err(match metadata.topics().first().and_then(|topic| topic.error()) {
                None | Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) => OpenError::NoTopic(name.clone()),
                Some(error) => self.away(&KafkaError::MetadataFetch(error.into()), Waited::ForAnAnswer),
            });
        };
        Ok(Topic {
            partitions: found.partitions().len(),
            leaders: found.partitions().iter().filter(|partition| partition.leader() >= 0).count(),
            replicas: found.partitions().iter().map(|partition| partition.replicas().len()).min().unwrap_or(0),
            properties: self.properties()?,
        })
    }

    fn properties(&self) -> Result<Vec<(String, String)>, OpenError> {
        let topic = ResourceSpecifier::Topic(&self.options.topic);
        let answer = Handle::current().block_on(self.admin.describe_configs([&topic], &self.admin_options()));
        let described = answer.and_then(|answers| match answers.into_iter().next() {
            Some(Ok(described)) => Ok(described),
            Some(Err(code)) => Err(KafkaError::AdminOp(code)),
            None => Err(KafkaError::AdminOp(RDKafkaErrorCode::UnknownTopicOrPartition)),
        });
        let entries = described.map_err(|error| self.away(&error, Waited::InVain))?.entries;
        Ok(entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect())
    }

    pub fn create(&self, properties: &[(&str, String)]) -> Result<(), OpenError> {
        self.ask_to_create(properties, &self.admin_options())
    }

    /// Whether Kafka would create it. Nothing is created.
    pub fn could_create(&self, properties: &[(&str, String)]) -> Result<(), OpenError> {
        self.ask_to_create(properties, &self.admin_options().validate_only(true))
    }

    fn ask_to_create(&self, properties: &[(&str, String)], admin_options: &AdminOptions) -> Result<(), OpenError> {
        let not_created = |why: String| OpenError::NotCreated { topic: self.options.topic.clone(), why };
        let partitions = i32::try_from(self.options.partitions).map_err(|error| not_created(error.to_string()))?;
        let replication = TopicReplication::Fixed(i32::from(self.options.replicas));
        let topic = NewTopic::new(&self.options.topic, partitions, replication);
        let topic = properties.iter().fold(topic, |topic, (name, value)| topic.set(name, value));
        let answer = Handle::current().block_on(self.admin.create_topics([&topic], admin_options));
        match answer.map_err(|error| not_created(sentence(&error)))?.into_iter().next() {
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(()),
            Some(Err((_, RDKafkaErrorCode::InvalidReplicationFactor))) => Err(not_created(format!(
                "Kafka has too few brokers for the {} replicas that the configuration asks for",
                self.options.replicas
            ))),
            Some(Err((_, code))) => Err(not_created(code.to_string())),
            _ => Ok(()),
        }
    }

    pub fn delete(&self) -> Result<(), OpenError> {
        let answer = Handle::current().block_on(self.admin.delete_topics(&[&self.options.topic], &self.admin_options()));
        answer.map(drop).map_err(|error| self.away(&error, Waited::InVain))
    }

    /// In turns, so that who is not let in hears of it before the time is over.
    fn ask<T>(&self, question: impl Fn(Duration) -> KafkaResult<T>) -> Result<T, OpenError> {
        loop {
            let (asked, turn) = (Instant::now(), self.time_left().min(TURN));
            let error = match question(turn) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let waited = if asked.elapsed() >= turn { Waited::InVain } else { Waited::ForAnAnswer };
            let error = self.away(&error, waited);
            if waited == Waited::ForAnAnswer || matches!(error, OpenError::NotLetIn { .. }) || Instant::now() >= self.until {
                return Err(error);
            }
        }
    }

    /// With what librdkafka said beside its error, which is rarely more than "timed out".
    fn away(&self, error: &KafkaError, waited: Waited) -> OpenError {
        while self.asking.poll(REASONS_WAIT).is_some() {}
        not_answered(&self.options.brokers, error, waited, &self.context)
    }

    fn admin_options(&self) -> AdminOptions {
        AdminOptions::new().request_timeout(Some(self.time_left())).operation_timeout(Some(self.time_left()))
    }

    fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now()).max(ANSWER_WAIT_MIN)
    }
}

/// Until an error came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waited {
    /// The time was over.
    InVain,
    ForAnAnswer,
}

fn not_answered(brokers: &str, error: &KafkaError, waited: Waited, context: &Context) -> OpenError {
    let brokers = brokers.to_owned();
    // The crate tells none of this one.
    let code = match error {
        KafkaError::AdminOp(code) => Some(*code),
        error => error.rdkafka_error_code(),
    };
    let trouble = context.trouble();
    // A listener that wants TLS or a password hangs up. Whether librdkafka has words for that depends on who was faster; without, it is
    // told from one that only keeps silent by not having taken all the time.
    let hangs_up = code == Some(RDKafkaErrorCode::BrokerTransportFailure)
        && trouble.as_ref().map_or(waited == Waited::ForAnAnswer, |trouble| !trouble.contains(NEVER_CONNECTED));
    let why = trouble.unwrap_or_else(|| match waited {
        Waited::InVain => "nothing came back in all the time that there was".to_owned(),
        Waited::ForAnAnswer => sentence(error),
    });
    if code == Some(RDKafkaErrorCode::UnsupportedFeature) {
        OpenError::TooOld { brokers, why: sentence(error) }
    } else if context.is_not_let_in() {
        OpenError::NotLetIn { brokers, why }
    } else if hangs_up {
        let why =
            format!("it hangs up, as one does that expects TLS or a password, or is no Kafka ({why}): look at kafka.tls and kafka.sasl");
        OpenError::Away { brokers, why }
    } else {
        OpenError::Away { brokers, why }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::ClientContext as _;

    use super::*;

    #[test]
    fn who_does_not_answer_is_away_too_old_or_does_not_let_us_in() {
        let (context, of) = (Context::default(), |code| KafkaError::AdminOp(code));
        let told = |error, context| not_answered("here:1", &error, Waited::ForAnAnswer, context).to_string();
        assert!(told(of(RDKafkaErrorCode::OperationTimedOut), &context).starts_with("Kafka at here:1 does not answer"));
        assert!(told(of(RDKafkaErrorCode::BrokerTransportFailure), &context).contains("kafka.tls and kafka.sasl"));
        assert!(told(of(RDKafkaErrorCode::UnsupportedFeature), &context).starts_with("Kafka at here:1 is too old"));
        let transport = || of(RDKafkaErrorCode::BrokerTransportFailure);
        context.error(KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure), "Send failed: Broken pipe (after 2ms in state UP)");
        let hung_up = told(transport(), &context);
        assert!(hung_up.contains("Broken pipe") && hung_up.contains("kafka.tls and kafka.sasl"), "{hung_up}");
        let silent = not_answered("here:1", &transport(), Waited::InVain, &Context::default()).to_string();
        assert!(silent.contains("nothing came back") && !silent.contains("kafka.sasl"), "{silent}");
        for refused in ["(after 0ms in state CONNECT)", "(after 0ms in state CONNECT, 5 identical error(s) suppressed)"] {
            context.error(KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure), &format!("Connection refused {refused}"));
            let away = told(transport(), &context);
            assert!(away.contains("does not answer: Connection refused") && !away.contains("kafka.sasl"), "{away}");
        }
        context.error(KafkaError::Global(RDKafkaErrorCode::Authentication), "SASL: no");
        for error in [of(RDKafkaErrorCode::OperationTimedOut), transport()] {
            let refused = told(error, &context);
            assert!(refused.starts_with("Kafka at here:1 does not let us in: SASL: no; look at kafka.sasl"), "{refused}");
        }
    }
}
