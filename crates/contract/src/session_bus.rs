//! Cases of the bus between nodes.

use std::time::Duration;

use dunlin_model::{NodeId, Outcome};
use dunlin_ports::{Frame, Inbound, Notice, SessionBus};
use tokio::time::timeout;

use crate::ids;

/// Far longer than a frame takes; a case that waits this long has failed.
const SOON: Duration = Duration::from_secs(5);
/// Long enough to believe that nothing more is coming by itself.
const QUIET: Duration = Duration::from_millis(200);

pub async fn frames_arrive_in_order_with_their_notices(bus: &dyn SessionBus) {
    let node = ids::node();
    let mut inbound = listen(bus, node).await;
    let sent = [vec![notice()], vec![notice(), notice()], vec![notice()]];
    for notices in &sent {
        publish(bus, node, notices.clone()).await;
    }
    let mut publishers = Vec::new();
    for (number, notices) in (1..).zip(sent) {
        let frame = next(inbound.as_mut()).await;
        assert_eq!((frame.number, frame.notices), (number, notices));
        publishers.push(frame.publisher);
    }
    publishers.dedup();
    assert_eq!(publishers.len(), 1, "a publisher keeps its name");
}

pub async fn an_empty_frame_arrives(bus: &dyn SessionBus) {
    let node = ids::node();
    let mut inbound = listen(bus, node).await;
    publish(bus, node, vec![]).await;
    let frame = next(inbound.as_mut()).await;
    assert_eq!((frame.number, frame.notices), (1, vec![]));
}

pub async fn frames_reach_their_node_only(bus: &dyn SessionBus) {
    let (node, other) = (ids::node(), ids::node());
    let (mut inbound, mut others) = (listen(bus, node).await, listen(bus, other).await);
    let wanted = vec![notice()];
    publish(bus, node, wanted.clone()).await;
    assert_eq!(next(inbound.as_mut()).await.notices, wanted);
    assert!(timeout(QUIET, others.next()).await.is_err(), "another node's frame");
}

pub async fn each_node_has_numbers_of_its_own(bus: &dyn SessionBus) {
    let (node, other) = (ids::node(), ids::node());
    let (mut inbound, mut others) = (listen(bus, node).await, listen(bus, other).await);
    for to in [node, node, other, node] {
        publish(bus, to, vec![]).await;
    }
    for number in 1..=3 {
        assert_eq!(next(inbound.as_mut()).await.number, number);
    }
    assert_eq!(next(others.as_mut()).await.number, 1);
}

pub async fn nobody_listening_is_no_error_and_counts(bus: &dyn SessionBus) {
    let node = ids::node();
    publish(bus, node, vec![notice()]).await;
    publish(bus, node, vec![notice()]).await;
    let mut inbound = listen(bus, node).await;
    publish(bus, node, vec![]).await;
    assert_eq!(next(inbound.as_mut()).await.number, 3, "only what came from now on, and its number tells of the rest");

    drop(inbound);
    publish(bus, node, vec![notice()]).await;
    let mut again = listen(bus, node).await;
    publish(bus, node, vec![]).await;
    assert_eq!(next(again.as_mut()).await.number, 5);
}

pub async fn a_second_listener_takes_over(bus: &dyn SessionBus) {
    let node = ids::node();
    let mut first = listen(bus, node).await;
    let mut second = listen(bus, node).await;
    let wanted = vec![notice()];
    publish(bus, node, wanted.clone()).await;
    assert_eq!(next(second.as_mut()).await.notices, wanted);
    assert_eq!(timeout(SOON, first.next()).await.expect("the first is told"), None);
}

/// A listener that does not read may miss frames, but it sees that it did: the numbers go on counting.
pub async fn whatever_is_lost_leaves_a_gap(bus: &dyn SessionBus) {
    const SENT: u64 = 3_000;
    let node = ids::node();
    let mut inbound = listen(bus, node).await;
    for _ in 0..SENT {
        publish(bus, node, vec![notice()]).await;
    }
    let mut sent = SENT;
    let mut last = 0;
    // The queue may be full, so empty frames are tried until one has come through, as a beat does.
    while last <= SENT {
        match timeout(QUIET, inbound.next()).await {
            Ok(frame) => {
                let number = frame.expect("nobody took over").number;
                assert!(number > last && number <= sent, "{number} after {last} of {sent}");
                last = number;
            }
            Err(_) => {
                assert!(sent < SENT + 20, "{last} came last: what was lost did not count, or nothing comes through any more");
                publish(bus, node, vec![]).await;
                sent += 1;
            }
        }
    }
}

fn notice() -> Notice {
    Notice::Outcome { request: ids::request(), outcome: Outcome::Done(ids::seq()) }
}

async fn listen(bus: &dyn SessionBus, node: NodeId) -> Box<dyn Inbound> {
    bus.listen(node).await.expect("listen")
}

async fn publish(bus: &dyn SessionBus, to: NodeId, notices: Vec<Notice>) {
    bus.publish(to, notices).await.expect("publish");
}

async fn next(inbound: &mut dyn Inbound) -> Frame {
    timeout(SOON, inbound.next()).await.expect("a frame comes soon").expect("nobody took over")
}
