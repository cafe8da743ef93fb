//! Outcomes reach the node that asked, over the bus, and by itself when the bus is silent.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod support;

use std::{sync::Arc, time::Duration};

use dunlin::engine::Engine;
use dunlin_app::{App, Destination, Order, Outcomes, Progress, Projector, Rules, Ticks};
use dunlin_embedded::{Ephemeral, Folder, RandomIds, SessionBus, SystemClock};
use dunlin_model::{Block, Body, Event, EventId, LogKey, Millis, NodeId, Outcome, Pair, Partition, RULES};
use dunlin_ports::{MessageStore as _, SessionBus as _};
use support::{options, text_to, user};
use tokio::sync::watch;

/// The use cases of one node, on a folder that another one projects.
fn node(folder: &Folder, node: NodeId) -> App {
    App {
        log: folder.log.clone(),
        store: folder.store.clone(),
        directory: folder.directory.clone(),
        ephemeral: Arc::new(Ephemeral::new(Arc::new(SystemClock))),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        outcomes: Arc::new(Outcomes::new(node, 100)),
        drive: None,
        known: Arc::default(),
        identities: Arc::default(),
        node,
        robots: Arc::from([]),
        dedup_window_ms: Millis::DAY,
    }
}

async fn send_one(app: &App) -> Option<Outcome> {
    for name in ["ann", "bea"] {
        app.directory.upsert_user(&user(name), Default::default(), Millis(1)).await.unwrap();
    }
    app.send(text_to(Destination::User(user("bea")), &user("ann"), "1", "hello")).await.unwrap().outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_nodes_projector_tells_the_origin() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path(), &options().folder).unwrap();
    let (origin, other) = (node(&folder, NodeId(1)), node(&folder, NodeId(2)));
    let bus = Arc::new(SessionBus::new(NodeId(2)));
    let (outcomes, listening) = (Arc::clone(&origin.outcomes), Arc::clone(&bus));
    // Listening before anything is sent.
    let mut inbound = listening.listen(NodeId(1)).await.unwrap();
    let listener = tokio::spawn(async move {
        while let Some(frame) = inbound.next().await {
            outcomes.take_in(frame);
        }
    });
    let projector = Projector {
        log: folder.log.clone(),
        store: folder.store.clone(),
        bus,
        outcomes: Arc::clone(&other.outcomes),
        node: NodeId(2),
        rules: Rules::default(),
        order: Order::OfTheLog,
        ticks: None,
    };
    let (sender, progress) = watch::channel(Progress::default());
    let projecting = tokio::spawn(async move { projector.run(Partition(0), sender).await });
    assert!(matches!(send_one(&origin).await, Some(Outcome::Accepted(_))));
    assert_eq!(origin.outcomes.waiting_len(), 0);
    drop(progress);
    projecting.await.unwrap().unwrap();
    listener.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_bus_only_makes_it_slower() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(dir.path(), options()).unwrap();
    // This node is not the one that projects, and nobody tells it anything.
    let deaf = node(&engine.folder, NodeId(1));
    assert!(matches!(send_one(&deaf).await, Some(Outcome::Accepted(_))), "found in the store");
    assert_eq!(deaf.outcomes.waiting_len(), 1, "its place is still taken");
    let (outcomes, store) = (Arc::clone(&deaf.outcomes), deaf.store.clone());
    let sweeper = tokio::spawn(async move { outcomes.sweep(&*store).await });
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while deaf.outcomes.waiting_len() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "the place was never given back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sweeper.abort();
}

/// Otherwise feeds would wait for a partition in which nothing happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_partition_moves_the_horizon_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path(), &options().folder).unwrap();
    assert_eq!(folder.store.horizon(1).await.unwrap(), Millis::ZERO);
    let app = node(&folder, NodeId(1));
    let projector = Projector {
        log: folder.log.clone(),
        store: folder.store.clone(),
        bus: Arc::new(SessionBus::new(NodeId(1))),
        outcomes: Arc::clone(&app.outcomes),
        node: NodeId(1),
        rules: Rules::default(),
        order: Order::OfEachKey,
        ticks: Some(Ticks { after: Duration::from_millis(20), ids: app.ids.clone() }),
    };
    let (sender, mut progress) = watch::channel(Progress::default());
    let projecting = tokio::spawn(async move { projector.run(Partition(0), sender).await });
    let ticked = progress.wait_for(|progress| progress.next.0 >= 2);
    tokio::time::timeout(Duration::from_secs(30), ticked).await.expect("it ticks").unwrap();
    drop(progress);
    projecting.await.unwrap().unwrap();
    assert!(folder.store.horizon(1).await.unwrap() > Millis::ZERO, "its checkpoint is written when it ends, at the latest");
}

/// An event of a newer version, which this one can't judge.
async fn append_unreadable(engine: &Engine, key: &LogKey) {
    let pair = Pair::new(user("ann"), user("bea"));
    let body = Body::Block(Block { pair, on: true });
    let event = Event { id: EventId([1; 16]), key: *key, rules: RULES + 1, origin: None, actor: Some(user("ann")), body };
    engine.app.log.append(key, &event).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_cannot_be_read_parks_its_conversation_only() {
    let dir = tempfile::tempdir().unwrap();
    let engine = support::open(dir.path()).await;
    let names = ["ann", "bea", "cem"].map(user);
    support::add_users(&engine, &names).await;
    let [ann, bea, cem] = names;
    support::send(&engine.app, &ann, &bea, "1", "hello").await;
    append_unreadable(&engine, &support::direct(&ann, &bea).log_key()).await;
    engine.caught_up(|_, _| {}).await.unwrap();
    let refused = engine.app.send(text_to(Destination::User(bea.clone()), &ann, "2", "hello?")).await;
    assert!(matches!(refused, Err(dunlin_app::AppError::Parked)));
    assert!(engine.troubles()[0].contains("parked"), "{:?}", engine.troubles());
    assert!(matches!(support::send(&engine.app, &ann, &cem, "1", "others go on").await, Outcome::Accepted(_)));
    drop(engine);
    let engine = support::open(dir.path()).await;
    let refused = engine.app.send(text_to(Destination::User(bea), &ann, "2", "hello?")).await;
    assert!(matches!(refused, Err(dunlin_app::AppError::Parked)), "also after a restart");
}
