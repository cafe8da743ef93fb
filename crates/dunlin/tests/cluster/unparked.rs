//! What an older node set aside comes back by `dunlin unpark` while others run.

use std::{process::Output, sync::Arc, time::Duration};

use dunlin::{config::Config, life};
use dunlin_app::{Order, Outcomes, Progress, Projector, Rules};
use dunlin_client::{
    Client,
    protocol::{Outcome, TokenBody},
};
use dunlin_model::{NodeId, Pair, Partition, RULES, UserId};
use dunlin_ports::EventLog as _;
use tokio::sync::watch;

use crate::{node::Node, profile::Place};

fn user(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// One partition, by a program that sets aside whatever it reads, until it has read so far.
async fn set_aside(config: &Config, pair: &Pair, events: u64) {
    let (store, log) = life::open(config).await.unwrap();
    let partition = pair.log_key().partition(log.partitions());
    let node = NodeId(7);
    let projector = Projector {
        log: Arc::new(log),
        store: Arc::new(store),
        bus: Arc::new(dunlin_embedded::SessionBus::new(node)),
        outcomes: Arc::new(Outcomes::new(node, 10)),
        node,
        rules: Rules { known: RULES - 1, ..Rules::default() },
        order: Order::OfEachKey,
        ticks: None,
    };
    let (sender, mut progress) = watch::channel(Progress::default());
    let running = tokio::spawn(async move { projector.run(partition, sender).await });
    progress.wait_for(|progress| progress.next.0 >= events).await.unwrap();
    drop(progress);
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_older_node_set_aside_comes_back_while_others_run() {
    let place = Place::of_cluster();
    let (config, _) = Config::load(None, place.environment.iter().cloned(), &[]).unwrap();
    let pair = Pair::new(user("ann"), user("bea"));
    let key = pair.log_key();
    {
        // Sent, and in the log; the first to project it is an older node.
        let (store, log) = life::open(&config).await.unwrap();
        drop(store);
        for text in ["one", "two"] {
            let event = message(&pair, text);
            log.append(&event.key, &event).await.unwrap();
        }
        log.close().await;
    }
    set_aside(&config, &pair, 2).await;

    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let nodes = [Node::start(&place, &data), Node::start(&place, &data)];
    let host = Client::new(nodes[0].url.parse().unwrap(), nodes[0].key.as_ref().unwrap());
    let mut clients = Vec::new();
    for user in ["ann", "bea"] {
        host.put_user(user, &Default::default()).await.unwrap();
        let token = host.mint_token(user, &TokenBody::default()).await.unwrap().token;
        clients.push(Client::new(nodes[0].url.parse().unwrap(), &token));
    }
    let run = |arguments: &[&str]| {
        let mut command = crate::dunlin();
        command.args(arguments).arg("--data").arg(&data).envs(place.environment.iter().cloned());
        command.env("DUNLIN_LOG", "error").output().unwrap()
    };
    let refused = parked(&clients[0]).await;
    assert!(refused.contains("conversation_parked"), "{refused}");
    let unparked = run(&["unpark", &key.to_string()]);
    assert!(unparked.status.success() && said(&unparked).contains("unparked 1 of 1"), "{}", said(&unparked));
    // The node that did not project it hears of it within ten seconds.
    settled(&clients[0], "three").await;
    // Somebody else writes into the topic, where this conversation is. Nobody but the operator hears of it.
    let options = dunlin::cluster::kafka(&config).unwrap();
    let partition = key.partition(options.partitions);
    let bare = dunlin_kafka::BareProducer::open(&options).unwrap();
    assert!(bare.send(partition.0, None, b"hello").await);
    settled(&clients[0], "four").await;
    let strangers = dunlin_model::LogKey::of_strangers(partition).to_string();
    let listed = said(&run(&["unpark"]));
    assert!(listed.contains(&strangers) && listed.contains("nobody of ours") && listed.contains("parked log keys: 1"), "{listed}");
    let unparked = run(&["unpark", &strangers]);
    assert!(unparked.status.success() && said(&unparked).contains("unparked 1 of 1"), "{}", said(&unparked));
    // A tool copies an event of theirs into another partition, where seqs are far ahead of their own.
    let elsewhere = Partition((partition.0 + 1) % options.partitions);
    for _ in 0..50 {
        assert!(bare.send(elsewhere.0, None, b"hello").await);
    }
    assert!(bare.send(elsewhere.0, None, &message(&pair, "stray").encode()).await);
    let strangers = dunlin_model::LogKey::of_strangers(elsewhere).to_string();
    let mut tries = 0;
    while !said(&run(&["unpark"])).contains(&strangers) {
        tries += 1;
        assert!(tries < 150, "it is not set aside");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let unparked = run(&["unpark", "--all"]);
    assert!(unparked.status.success(), "{}", said(&unparked));
    settled(&clients[0], "five").await;
    // A tool writes under their key, in their partition. Nobody will ever read that; what comes after it must not wait for ever.
    assert!(bare.send(partition.0, Some(&key), b"hello").await);
    let refused = parked(&clients[0]).await;
    assert!(refused.contains("conversation_parked"), "{refused}");
    let stays = said(&run(&["unpark", &key.to_string()]));
    let event = stays.split("from event ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_else(|| panic!("{stays}"));
    let wrong = run(&["unpark", &key.to_string(), "--leave-out", "7"]);
    assert!(wrong.status.code() == Some(2) && said(&wrong).contains("no event 7 is parked"), "{}", said(&wrong));
    let unparked = run(&["unpark", &key.to_string(), "--leave-out", event]);
    assert!(unparked.status.success() && said(&unparked).contains("unparked 1 of 1"), "{}", said(&unparked));
    settled(&clients[0], "six").await;
    let conversation = clients[1].inbox().get().await.unwrap().data.remove(0);
    let history = clients[1].history(&conversation.id).limit(10).get().await.unwrap().data;
    assert!(!conversation.degraded && conversation.unread == history.len() as u64, "{conversation:?}");
    // What was sent to find out whether the key is parked may be there, too.
    let texts: Vec<_> = history.iter().map(|message| message.text.clone().unwrap()).filter(|text| text != "zero").collect();
    assert_eq!(texts, ["six", "five", "four", "three", "two", "one"]);
    drop(nodes);
    let checked = run(&["check"]);
    assert!(checked.status.success(), "{}", said(&checked));
}

/// Sends until it is known that the message is there: a busy machine, or a key that is parked for a moment longer, takes several tries.
async fn settled(client: &Client, text: &str) {
    let mut tries = 0;
    while !matches!(client.send("bea", text, text).await, Ok(sent) if sent.outcome != Outcome::Pending) {
        tries += 1;
        assert!(tries < 150, "{text} does not arrive");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// What a send is answered, once the node knows that the key is parked.
async fn parked(client: &Client) -> String {
    for _ in 0..100 {
        match client.send("bea", "zero", "zero").await {
            Ok(sent) => assert_eq!(sent.outcome, Outcome::Pending, "it was parked"),
            Err(error) => return format!("{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    "nothing".to_owned()
}

fn message(pair: &Pair, text: &str) -> dunlin_model::Event {
    use dunlin_model::{Body, ClientId, Content, ConversationId, Event, EventId, Message, MessageType, Opening};
    let body = Body::Message(Message {
        conversation: ConversationId::direct(pair),
        opening: Some(Opening::Direct(pair.clone())),
        client_id: ClientId::parse(text).unwrap(),
        message_type: MessageType::text(),
        content: Content::text(text).unwrap(),
        reply_to: None,
        metadata: None,
    });
    Event {
        id: EventId(getrandom::u64().unwrap().to_be_bytes().repeat(2).try_into().unwrap()),
        key: pair.log_key(),
        rules: RULES,
        origin: None,
        actor: Some(user("ann")),
        body,
    }
}
