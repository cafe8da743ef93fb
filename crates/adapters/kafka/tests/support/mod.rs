//! Topics of the Kafka that the tests were given.
#![allow(dead_code, reason = "each test uses some of it")]

use std::time::Duration;

use dunlin_contract::ids;
use dunlin_kafka::{EventLog, Options, create_topic};

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
}
