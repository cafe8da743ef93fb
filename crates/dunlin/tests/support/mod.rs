//! What the tests of a whole engine share.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::{path::Path, sync::Arc, time::Duration};

use dunlin::engine::{Engine, EngineOptions};
use dunlin_app::{App, AppError, Destination, SendMessage, Sent, check};
use dunlin_embedded::Options;
use dunlin_model::{ClientId, Content, ConversationId, MessageType, Millis, Outcome, Pair, Seq, UserId};
use dunlin_ports::{Directory as _, MessageStore, Order, SeqRange};

/// Small files, so that a short run rolls segments, flushes and compacts.
pub fn options() -> EngineOptions {
    let folder = Options {
        segment_bytes: 2 << 20,
        memtable_bytes: 256 << 10,
        sealed_max: 2,
        cache_bytes: 4 << 20,
        files_max: 64,
        ..Options::default()
    };
    EngineOptions { folder, ..EngineOptions::default() }
}

pub async fn open(dir: &Path) -> Engine {
    let engine = Engine::open(dir, options()).expect("the folder opens");
    engine.caught_up(|_, _| {}).await.expect("the log replays");
    engine
}

pub fn user(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

pub async fn add_users(engine: &Engine, names: &[UserId]) {
    for name in names {
        engine.folder.directory.upsert_user(name, Default::default(), Millis(1)).await.unwrap();
    }
}

pub fn text_to(to: Destination, sender: &UserId, client_id: &str, text: &str) -> SendMessage {
    SendMessage {
        sender: Some(sender.clone()),
        to,
        client_id: ClientId::parse(client_id).unwrap(),
        message_type: MessageType::text(),
        content: Content::text(text).unwrap(),
        reply_to: None,
        metadata: None,
    }
}

/// Sends until it is settled, as a client that retries does.
pub async fn send(app: &App, sender: &UserId, to: &UserId, client_id: &str, text: &str) -> Outcome {
    loop {
        match app.send(text_to(Destination::User(to.clone()), sender, client_id, text)).await {
            Ok(Sent { outcome: Some(outcome), .. }) => return outcome,
            Ok(_) | Err(AppError::Busy) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("send failed: {error}"),
        }
    }
}

pub fn direct(one: &UserId, other: &UserId) -> ConversationId {
    ConversationId::direct(&Pair::new(one.clone(), other.clone()))
}

/// All of a conversation, oldest first, as (seq, sender, client_id).
pub async fn everything(store: &dyn MessageStore, conversation: ConversationId) -> Vec<(Seq, Option<UserId>, ClientId)> {
    let (mut all, mut after) = (Vec::new(), Seq::ZERO);
    loop {
        let rows = store.messages(conversation, SeqRange { after, before: Seq::MAX }, Order::OldestFirst, 500).await.unwrap();
        let Some(last) = rows.last() else { return all };
        after = last.seq;
        all.extend(rows.into_iter().map(|row| (row.seq, row.sender, row.client_id)));
    }
}

/// Fails with what is wrong in the folder.
pub async fn assert_right(engine: &Engine) {
    let store: Arc<dyn MessageStore> = engine.app.store.clone();
    let report = check::check(&*store, check::Options::default(), &mut |_| {}).await.expect("the state can be read");
    assert!(report.is_clean(), "{report}");
}

/// The state made anew from the log alone, as a digest.
pub async fn digest_of_replay(dir: &Path) -> (u64, u32) {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(dir, copy.path());
    dunlin_embedded::Folder::set_state_aside(copy.path(), &options().folder).expect("the log is whole");
    let engine = open(copy.path()).await;
    engine.folder.store.digest().unwrap()
}

pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
