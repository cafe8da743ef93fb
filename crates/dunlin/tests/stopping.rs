//! A projector that is stopped while its store is away leaves no hole: what it could not apply is applied by the next one, before what came later.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use dunlin_app::{Order, Outcomes, Progress, Projector, Rules};
use dunlin_contract::ModelStore;
use dunlin_embedded::{Folder, SessionBus};
use dunlin_model::{
    Body, ClientId, Content, Event, EventId, Message, MessageType, NodeId, Opening, Origin, Pair, Partition, RULES, RequestId,
};
use dunlin_ports::EventLog as _;
use support::{options, user};
use tokio::sync::watch;

async fn say(folder: &Folder, number: u64) {
    let pair = Pair::new(user("ann"), user("bea"));
    let message = Message {
        conversation: dunlin_model::ConversationId::direct(&pair),
        opening: Some(Opening::Direct(pair.clone())),
        client_id: ClientId::parse(&number.to_string()).unwrap(),
        message_type: MessageType::text(),
        content: Content::text("hello").unwrap(),
        reply_to: None,
        metadata: None,
    };
    let id = EventId(u128::from(number).to_be_bytes());
    let origin = Origin { node: NodeId(1), request: RequestId(number) };
    let body = Body::Message(message);
    let event = Event { id, key: pair.log_key(), rules: RULES, origin: Some(origin), actor: Some(user("ann")), body };
    folder.log.append(&pair.log_key(), &event).await.unwrap();
}

/// Starts a projector on a store that is away, lets more events come, stops it just when the store comes back, and looks for a hole.
async fn stop_while_away(folder: &Folder, more: u64) {
    let away = Arc::new(AtomicBool::new(true));
    let store = Arc::new(ModelStore::unavailable_while(Arc::clone(&away)));
    let projector = Projector {
        log: folder.log.clone(),
        store: store.clone(),
        bus: Arc::new(SessionBus::new(NodeId(1))),
        outcomes: Arc::new(Outcomes::new(NodeId(1), 100)),
        node: NodeId(1),
        rules: Rules::default(),
        order: Order::OfTheLog,
        ticks: None,
    };
    let (sender, mut progress) = watch::channel(Progress::default());
    let projecting = tokio::spawn(async move { projector.run(Partition(0), sender).await });
    progress.wait_for(|progress| progress.trouble.is_some()).await.unwrap();
    say(folder, more).await;
    away.store(false, Ordering::Relaxed);
    drop(progress);
    projecting.await.unwrap().unwrap();
    let state = store.state();
    let applied = state.checkpoints.get(&Partition(0)).map_or(0, |checkpoint| checkpoint.seq.offset().0 + 1);
    assert_eq!(state.messages.len() as u64, applied, "everything below the checkpoint is there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_applied_at_a_stop_is_not_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path(), &options().folder).unwrap();
    say(&folder, 0).await;
    for more in 1..20 {
        stop_while_away(&folder, more).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_is_it_when_the_next_batch_was_judged_ahead() {
    /// More than two batches.
    const EVENTS: u64 = 9_000;
    let dir = tempfile::tempdir().unwrap();
    let folder = Arc::new(Folder::open(dir.path(), &options().folder).unwrap());
    let senders = (0..64).map(|sender| {
        let folder = Arc::clone(&folder);
        tokio::spawn(async move {
            for number in (sender..EVENTS).step_by(64) {
                say(&folder, number).await;
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    for more in 0..3 {
        stop_while_away(&folder, EVENTS + more).await;
    }
}
