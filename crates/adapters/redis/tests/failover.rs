//! A master dies. Needs a cluster of its own, with replicas, and leaves it with a node less:
//! `DUNLIN_TEST_REDIS=… cargo test -p dunlin-redis --features engines --test failover -- --ignored --nocapture`

mod common;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use common::{channel, key, masters, row, slot};
use dunlin_contract::ids;
use dunlin_ports::{Ephemeral as _, SessionBus as _};
use dunlin_redis::{Cluster, Ephemeral, Options, SessionBus};
use tokio::{task::JoinSet, time::timeout};

const WATCHED: Duration = Duration::from_secs(15);
/// What a busy machine may add to a call's bound.
const SLACK: Duration = Duration::from_millis(300);
const CALLERS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "kills a master"]
async fn after_the_death_of_a_master_calls_are_bounded_and_all_works_again() {
    let options = Options::new(common::nodes());
    let bound = options.call_timeout + SLACK;
    let cluster = Cluster::open(&options).unwrap();
    let (bus, node) = (SessionBus::new(cluster.clone(), ids::node()), ids::node());
    let mut inbound = bus.listen(node).await.unwrap();
    bus.publish(node, vec![]).await.unwrap();
    assert_eq!(inbound.next().await.unwrap().number, 1);

    let slot = slot(&channel(node)).await;
    let owner = masters().await.into_iter().find(|master| master.owns(slot)).unwrap();
    let ephemeral = Arc::new(Ephemeral::new(cluster.clone()));
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        callers.spawn(call_again_and_again(Arc::clone(&ephemeral), began));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let died_at = began.elapsed();
    let mut connection = common::connect(&owner.address).await;
    let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").exec_async(&mut connection).await;

    let (mut last, mut failed, mut longest, mut back_at) = (1, 0, Duration::ZERO, None);
    let mut gaps = Vec::new();
    while began.elapsed() < WATCHED {
        let asked = Instant::now();
        failed += u32::from(bus.publish(node, vec![]).await.is_err());
        longest = longest.max(asked.elapsed());
        while let Ok(frame) = timeout(Duration::from_millis(50), inbound.next()).await {
            let number = frame.expect("nobody took over").number;
            assert!(number > last, "{number} after {last}");
            if number > last + 1 {
                gaps.push(last + 1..number);
                back_at = Some(began.elapsed() - died_at);
            }
            last = number;
        }
    }
    println!("bus: {failed} publishes failed, the longest took {longest:?}; gaps {gaps:?}; heard again {back_at:?} after the death");
    assert!(longest < bound, "{longest:?}");
    assert!(!gaps.is_empty(), "what was lost shows");
    let (mut calls, mut slow, mut failures) = (0, Duration::ZERO, Vec::new());
    for seen in callers.join_all().await {
        calls += seen.calls;
        slow = slow.max(seen.longest);
        failures.extend(seen.failures);
    }
    failures.sort();
    let (first, last) = (failures.first().map(|at| *at - died_at), failures.last().map(|at| *at - died_at));
    println!(
        "ephemeral: {} of {calls} calls failed, from {first:?} to {last:?} after the death, the longest took {slow:?}",
        failures.len()
    );
    assert!(slow < bound, "{slow:?}");
    assert!(failures.last().is_none_or(|at| *at < WATCHED - Duration::from_secs(3)), "it works again");
    assert_eq!(cluster.trouble(), None);
}

#[derive(Default)]
struct Seen {
    calls: u32,
    longest: Duration,
    failures: Vec<Duration>,
}

async fn call_again_and_again(ephemeral: Arc<Ephemeral>, began: Instant) -> Seen {
    let mut seen = Seen::default();
    while began.elapsed() < WATCHED {
        let asked = Instant::now();
        if ephemeral.remember_send(&key(), row(), 1_000).await.is_err() {
            seen.failures.push(began.elapsed());
        }
        seen.calls += 1;
        seen.longest = seen.longest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    seen
}
