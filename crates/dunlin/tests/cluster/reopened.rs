//! The log of a cluster is lost: nodes refuse the one that took its place until the operator says so, and then go on behind what there was.

use std::{
    path::Path,
    process::{Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use dunlin_client::{
    Client,
    protocol::{Message, Outcome, TokenBody},
};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
};

use crate::{node::Node, profile::Place};

const PATIENCE: Duration = Duration::from_secs(60);
/// At any port: someone may be at the usual one.
const SERVE: &[&str] = &["serve", "--listen", "127.0.0.1:0"];

struct Cluster {
    place: Place,
    data: std::path::PathBuf,
}

impl Cluster {
    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = crate::dunlin();
        command.args(arguments).arg("--data").arg(&self.data).envs(self.place.environment.iter().cloned()).env("DUNLIN_LOG", "error");
        // Whoever is asked gets no answer.
        command.stdin(Stdio::null());
        command
    }

    fn refused(&self, arguments: &[&str], why: &str) {
        let output = self.run(arguments);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && told.contains(why), "{arguments:?}: {told}");
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {said} {why}");
        said.into_owned()
    }

    fn value(&self, name: &str) -> &str {
        &self.place.environment.iter().find(|(key, _)| key == name).unwrap().1
    }

    /// With all that it holds.
    async fn delete_topic(&self) {
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", self.value("DUNLIN_KAFKA_BROKERS")).create().unwrap();
        let deleted = admin.delete_topics(&[self.value("DUNLIN_KAFKA_TOPIC")], &AdminOptions::new()).await.unwrap();
        deleted.into_iter().for_each(|topic| drop(topic.unwrap()));
        let begun = Instant::now();
        // Brokers hear of it one after the other.
        while dunlin_kafka::has_topic(&self.log()).await.unwrap() {
            assert!(begun.elapsed() < PATIENCE, "the topic stays");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Until so many nodes take part in projecting.
    async fn joined(&self, nodes: usize) {
        let begun = Instant::now();
        while dunlin_kafka::nodes(&self.log()).await.unwrap() != nodes {
            assert!(begun.elapsed() < PATIENCE, "there are not {nodes}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn log(&self) -> dunlin_kafka::Options {
        let (config, _) = dunlin::config::Config::load(None, self.place.environment.iter().cloned(), &[]).unwrap();
        dunlin::cluster::kafka(&config).unwrap()
    }

    fn make_topic_anew(&self) {
        let begun = Instant::now();
        // It takes Kafka a moment to forget the old one.
        while !self.run(&["schema", "apply"]).status.success() {
            assert!(begun.elapsed() < PATIENCE, "the topic can't be made");
        }
    }
}

fn stop(mut node: Node) {
    node.signal("-TERM");
    let ended = node.process.wait().unwrap();
    assert!(ended.success(), "a node that was told to stop ended with {ended}");
}

async fn ended(node: &mut Node) -> ExitStatus {
    let begun = Instant::now();
    loop {
        match node.process.try_wait().unwrap() {
            Some(status) => return status,
            None => assert!(begun.elapsed() < PATIENCE, "it goes on"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn sent(client: &Client, to: &str, text: &str) {
    let begun = Instant::now();
    loop {
        match client.send(to, text, text).await {
            Ok(sent) if matches!(sent.outcome, Outcome::Accepted | Outcome::Duplicate) => return,
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Newest first.
async fn history(client: &Client) -> Vec<Message> {
    let conversation = client.inbox().get().await.unwrap().data.remove(0).id;
    client.history(&conversation).limit(200).get().await.unwrap().data
}

async fn login(node: &Node, key: &str, user: &str) -> Client {
    let host = Client::new(node.url.parse().unwrap(), key);
    host.put_user(user, &Default::default()).await.unwrap();
    let token = host.mint_token(user, &TokenBody::default()).await.unwrap().token;
    Client::new(node.url.parse().unwrap(), &token)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_was_lost_is_refused_until_it_is_reopened_and_nothing_of_the_state_is_lost() {
    let place = Place::of_cluster();
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster { place, data: dir.path().join("data") };
    let start = |data: &Path| Node::start(&cluster.place, data);

    let node = start(&cluster.data);
    let key = node.key.clone().unwrap();
    let (ann, bea) = (login(&node, &key, "ann").await, login(&node, &key, "bea").await);
    for text in ["one", "two", "three"] {
        sent(&ann, "bea", text).await;
    }
    let before = history(&bea).await;
    bea.mark_read(&before[0].conversation, before[2].seq).await.unwrap();
    let before = history(&bea).await;
    cluster.refused(&["log", "reopen", "--yes"], "stop all nodes first: 1 run");
    // A slip in the configuration must not split the state between two logs.
    let slip = [("DUNLIN_KAFKA_TOPIC", format!("{}_other", cluster.place.keyspace))];
    assert!(cluster.command(&["schema", "apply"]).envs(slip.clone()).output().unwrap().status.success());
    let reopened = cluster.command(&["log", "reopen", "--yes"]).envs(slip).output().unwrap();
    let told = String::from_utf8(reopened.stderr).unwrap();
    assert!(reopened.status.code() == Some(2) && told.contains("stop all nodes first: 1 run"), "{told}");
    stop(node);
    cluster.refused(&["log", "reopen", "--yes"], "there is nothing to reopen");

    let node = start(&cluster.data);
    cluster.joined(1).await;
    let mut sleeper = start(&cluster.data);
    cluster.joined(2).await;
    // It stands still through all of this, and comes back with what it knew.
    sleeper.signal("-STOP");
    cluster.delete_topic().await;
    cluster.refused(&["schema", "apply"], "is gone, and stop all nodes first");
    stop(node);
    cluster.joined(0).await;
    cluster.refused(SERVE, "does not exist: run `dunlin schema apply`");
    cluster.make_topic_anew();
    cluster.refused(SERVE, "stop all nodes and run `dunlin log reopen`");
    cluster.refused(&["schema", "check"], "is not the log that the state was made from");
    let unanswered = cluster.run(&["log", "reopen"]);
    let said = String::from_utf8(unanswered.stdout).unwrap();
    assert!(
        unanswered.status.code() == Some(1) && said.contains("epoch 3 would begin") && said.ends_with("nothing was changed\n"),
        "{said}"
    );
    cluster.refused(SERVE, "dunlin log reopen");
    let said = cluster.done(&["log", "reopen", "--yes"]);
    assert!(said.contains("that go on where the state ends: 0") && said.contains("epoch 3 has begun"), "{said}");

    let node = start(&cluster.data);
    let (ann, bea) = (login(&node, &key, "ann").await, login(&node, &key, "bea").await);
    assert_eq!(history(&bea).await, before, "what was there is there");
    sleeper.signal("-CONT");
    assert_eq!(ended(&mut sleeper).await.code(), Some(2), "it knows an epoch that is over");
    for text in ["four", "five"] {
        sent(&ann, "bea", text).await;
    }
    let after = history(&bea).await;
    assert_eq!(after[2..], before);
    assert_eq!(after.iter().map(|message| message.n).collect::<Vec<_>>(), [5, 4, 3, 2, 1]);
    assert!(after[1].seq >= 3 << 40 && before[0].seq < 3 << 40, "{} {}", after[1].seq, before[0].seq);
    assert!(after.is_sorted_by(|one, other| one.seq > other.seq && one.created_at >= other.created_at));
    assert_eq!(bea.unread().await.unwrap().messages, 4);
    sent(&ann, "bea", "three").await;
    assert_eq!(history(&bea).await, after, "a retry of what was sent before is still known");
    stop(node);
    cluster.done(&["schema", "check"]);
    stop(start(&cluster.data));
    cluster.done(&["check"]);
}
