//! Every promise of the event log, kept by Kafka. The broker's address is in DUNLIN_TEST_KAFKA.

mod support;

use support::Cluster;

dunlin_contract::event_log!(Box::new(Cluster::given().new_log().await));
