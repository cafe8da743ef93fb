//! What holds on a cluster beyond the contract: slots, several nodes, and what operators do.

mod common;

use std::{sync::Arc, time::Duration};

use common::{channel, cluster, key, masters, row, slot};
use dunlin_contract::ids;
use dunlin_model::NodeId;
use dunlin_ports::{AnswerKey, Ephemeral as _, Frame, Inbound, SessionBus as _};
use dunlin_redis::{Cluster, Ephemeral, Options, SessionBus};
use tokio::{sync::Mutex, time::timeout};

const SOON: Duration = Duration::from_secs(5);
const LONG_MS: u64 = 60_000;

/// Held by tests that look at keys: one of them takes all keys away.
static KEYS: Mutex<()> = Mutex::const_new(());

async fn next(inbound: &mut Box<dyn Inbound>) -> Frame {
    timeout(SOON, inbound.next()).await.expect("a frame comes soon").expect("nobody took over")
}

#[tokio::test]
async fn each_operation_names_one_key_whose_slot_is_that_of_its_tag() {
    let _alone = KEYS.lock().await;
    let prefix = format!("test-{}:", ids::hex());
    let ephemeral = Ephemeral::new(Cluster::open(&Options { prefix: prefix.clone(), ..common::options() }).unwrap());
    ephemeral.remember_send(&key(), row(), LONG_MS).await.unwrap();
    ephemeral.remember_answer(AnswerKey(ids::bits128()), "answer".into(), LONG_MS).await.unwrap();
    let mut found = Vec::new();
    for master in masters().await {
        let keys: Vec<String> = master.ask(redis::cmd("KEYS").arg(format!("{prefix}*"))).await;
        for key in keys {
            let (_, tag) = key.split_once('{').expect("a key has a tag");
            let tag = tag.strip_suffix('}').expect("the tag ends the key");
            assert_eq!(tag.len(), 26, "128 bits in base32");
            assert_eq!(slot(&key).await, slot(tag).await);
            let left_ms: u64 = master.ask(redis::cmd("PTTL").arg(&key)).await;
            assert!((1..=LONG_MS).contains(&left_ms), "{left_ms}");
            found.push(key[prefix.len()..].split('{').next().unwrap().to_owned());
        }
    }
    found.sort();
    assert_eq!(found, ["answer:", "dedup:msg:"]);
}

#[tokio::test]
async fn any_time_is_taken() {
    let _alone = KEYS.lock().await;
    let ephemeral = Ephemeral::new(cluster());
    let (key, row) = (key(), row());
    ephemeral.remember_send(&key, row, u64::MAX).await.unwrap();
    assert_eq!(ephemeral.recall_send(&key).await.unwrap(), Some(row));
    ephemeral.remember_send(&key, row, 0).await.unwrap();
    assert_eq!(ephemeral.recall_send(&key).await.unwrap(), None, "what is over at once replaces what was there");
}

#[tokio::test]
async fn an_emptied_cluster_has_forgotten_and_goes_on() {
    let _alone = KEYS.lock().await;
    let (ephemeral, bus, node) = (Ephemeral::new(cluster()), SessionBus::new(cluster(), ids::node()), ids::node());
    let mut inbound = bus.listen(node).await.unwrap();
    let (key, row) = (key(), row());
    ephemeral.remember_send(&key, row, LONG_MS).await.unwrap();
    for master in masters().await {
        let () = master.ask(redis::cmd("FLUSHALL").arg("SYNC")).await;
    }
    assert_eq!(ephemeral.recall_send(&key).await.unwrap(), None);
    ephemeral.remember_send(&key, row, LONG_MS).await.unwrap();
    assert_eq!(ephemeral.recall_send(&key).await.unwrap(), Some(row));
    bus.publish(node, vec![]).await.unwrap();
    assert_eq!(next(&mut inbound).await.number, 1);
}

#[tokio::test]
async fn two_nodes_talk_to_each_other() {
    let (ann, bea) = (ids::node(), ids::node());
    let (anns, beas) = (SessionBus::new(cluster(), ann), SessionBus::new(cluster(), bea));
    let (mut to_ann, mut to_bea) = (anns.listen(ann).await.unwrap(), beas.listen(bea).await.unwrap());
    for number in 1..=3 {
        anns.publish(bea, vec![]).await.unwrap();
        beas.publish(ann, vec![]).await.unwrap();
        assert_eq!(next(&mut to_bea).await, Frame { publisher: ann, number, notices: vec![] });
        assert_eq!(next(&mut to_ann).await, Frame { publisher: bea, number, notices: vec![] });
    }
}

#[tokio::test]
async fn a_listener_of_another_process_takes_over() {
    let node = ids::node();
    let (one, other) = (SessionBus::new(cluster(), node), SessionBus::new(cluster(), ids::node()));
    let mut first = one.listen(node).await.unwrap();
    let mut second = other.listen(node).await.unwrap();
    assert_eq!(timeout(SOON, first.next()).await.expect("the first is told"), None);
    one.publish(node, vec![]).await.unwrap();
    assert_eq!(next(&mut second).await.number, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_published_at_once_arrive_in_the_order_of_their_numbers() {
    const FRAMES: u64 = 500;
    let (bus, node) = (Arc::new(SessionBus::new(cluster(), ids::node())), ids::node());
    let mut inbound = bus.listen(node).await.unwrap();
    let mut publishing = tokio::task::JoinSet::new();
    for _ in 0..FRAMES {
        let bus = Arc::clone(&bus);
        publishing.spawn(async move { bus.publish(node, vec![]).await });
    }
    for number in 1..=FRAMES {
        assert_eq!(next(&mut inbound).await.number, number);
    }
    while let Some(published) = publishing.join_next().await {
        published.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_strange_frame_is_passed_over() {
    let (bus, node) = (SessionBus::new(cluster(), ids::node()), ids::node());
    let mut inbound = bus.listen(node).await.unwrap();
    let slot = slot(&channel(node)).await;
    let owner = masters().await.into_iter().find(|master| master.owns(slot)).unwrap();
    let heard_by: u64 = owner.ask(redis::cmd("SPUBLISH").arg(channel(node)).arg("hello")).await;
    assert_eq!(heard_by, 1);
    bus.publish(node, vec![]).await.unwrap();
    assert_eq!(next(&mut inbound).await.number, 1);
}

#[tokio::test]
async fn a_listener_follows_its_channel_to_another_master() {
    let (bus, node) = (SessionBus::new(cluster(), ids::node()), ids::node());
    let mut inbound = bus.listen(node).await.unwrap();
    bus.publish(node, vec![]).await.unwrap();
    assert_eq!(next(&mut inbound).await.number, 1);
    let home = move_channel(node, None).await;
    hears_again(&bus, node, &mut inbound, 1).await;
    move_channel(node, Some(home)).await;
    hears_again(&bus, node, &mut inbound, 2).await;
}

/// Gives the channel's slot to another master, as an operator does who spreads slots anew. Returns whose it was.
async fn move_channel(node: NodeId, to: Option<String>) -> String {
    let (slot, masters) = (slot(&channel(node)).await, masters().await);
    let from = masters.iter().find(|master| master.owns(slot)).expect("every slot has an owner");
    let to = masters.iter().find(|master| to.as_ref().map_or(master.id != from.id, |to| master.id == *to)).expect("there are several");
    let set_slot = |what: &str, id: &str| redis::cmd("CLUSTER").arg("SETSLOT").arg(slot).arg(what).arg(id).take();
    let () = to.ask(&set_slot("IMPORTING", &from.id)).await;
    let () = from.ask(&set_slot("MIGRATING", &to.id)).await;
    for master in [to, from] {
        let () = master.ask(&set_slot("NODE", &to.id)).await;
    }
    from.id.clone()
}

/// Beats until one comes through.
async fn hears_again(bus: &SessionBus, node: NodeId, inbound: &mut Box<dyn Inbound>, last: u64) {
    for _ in 0..50 {
        let _ = bus.publish(node, vec![]).await;
        if let Ok(frame) = timeout(Duration::from_millis(200), inbound.next()).await {
            assert!(frame.expect("nobody took over").number > last);
            return;
        }
    }
    panic!("nothing is heard any more");
}
