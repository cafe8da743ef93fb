//! What goes on beside the requests: blocks are copied into the directory, and revocations by other processes are heard of.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod support;

use std::{sync::Arc, time::Duration};

use dunlin::{
    engine::{Engine, EngineOptions},
    secrets::make_key,
};
use dunlin_app::{App, AppError, Copies, Rules};
use dunlin_model::{LogKey, Millis, Name, Offset, Pair, Partition, RULES, Scope, UserId};
use dunlin_ports::{Clock, Directory};
use support::{add_users, open, user};

/// Stands still, so that nothing is asked again because it is old.
struct Still;

impl Clock for Still {
    fn now(&self) -> Millis {
        Millis(1_000_000)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_process_revokes_is_heard_of_though_it_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let app = App { clock: Arc::new(Still), identities: Arc::default(), ..engine.app.clone() };
    let directory = &*engine.folder.directory;
    let (ann, name) = (user("ann"), Name::parse("shop").unwrap());
    let (key, shown) = make_key(directory, &*app.ids, name, Scope::ALL, Millis(1)).await.unwrap();
    let secret = shown.rsplit('_').next().unwrap();
    let hearing = tokio::spawn({
        let app = app.clone();
        async move { app.hear_announcements().await }
    });
    app.user_by_token(&ann, Millis(100)).await.unwrap();
    app.server_key(&key.id, secret).await.unwrap();

    let is_refused = || async {
        let (token, key) = (app.user_by_token(&ann, Millis(100)).await, app.server_key(&key.id, secret).await);
        matches!(token, Err(AppError::TokenRevoked)) && matches!(key, Err(AppError::NoServerKey))
    };
    let mut tries = 0;
    while !is_refused().await {
        tries += 1;
        assert!(tries < 100, "a revocation is not heard of");
        // Again and again: it may not be listening yet.
        directory.revoke_tokens(&ann, Millis(200)).await.unwrap();
        directory.revoke_server_key(&key.id, Millis(200)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    app.user_by_token(&ann, Millis(300)).await.unwrap();
    hearing.abort();
}

const WHOLE_LOG: Partition = Partition(0);

async fn projected(engine: &Engine) -> Offset {
    engine.caught_up(|_, _| {}).await.unwrap();
    engine.app.store.checkpoint(WHOLE_LOG).await.unwrap().unwrap().seq.offset().next()
}

fn copies(engine: &Engine) -> Copies {
    let app = &engine.app;
    Copies { log: Arc::clone(&app.log), store: Arc::clone(&app.store), directory: Arc::clone(&app.directory) }
}

async fn copied(directory: &dyn Directory, blocker: &UserId) -> Vec<(UserId, bool)> {
    directory.blocks_copied(blocker, None, 10).await.unwrap().into_iter().map(|block| (block.blocked, block.on)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_are_copied_up_to_where_the_projector_is_and_each_once() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let names = ["ann", "bea", "cem"].map(user);
    let [ann, bea, cem] = &names;
    add_users(&engine, &names).await;
    let (app, copies) = (&engine.app, copies(&engine));
    app.block(ann, bea, true).await.unwrap();
    app.block(cem, ann, true).await.unwrap();
    let both = projected(&engine).await;
    copies.bring_forward(WHOLE_LOG, Offset(both.0 - 1)).await.unwrap();
    assert_eq!(copied(&*app.directory, ann).await, [(bea.clone(), true)]);
    assert_eq!(copied(&*app.directory, cem).await, [], "only what is projected");
    copies.bring_forward(WHOLE_LOG, both).await.unwrap();
    assert_eq!(copied(&*app.directory, cem).await, [(ann.clone(), true)]);

    app.block(ann, bea, false).await.unwrap();
    copies.bring_forward(WHOLE_LOG, projected(&engine).await).await.unwrap();
    assert_eq!(copied(&*app.directory, ann).await, [(bea.clone(), false)]);
    let up_to = app.directory.copied_up_to(WHOLE_LOG).await.unwrap();
    // Nothing new, or somebody who is behind.
    copies.bring_forward(WHOLE_LOG, both).await.unwrap();
    assert_eq!(app.directory.copied_up_to(WHOLE_LOG).await.unwrap(), up_to);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_was_set_aside_is_copied_when_it_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["ann", "bea"].map(user);
    let [ann, bea] = &names;
    let options = EngineOptions { rules: Rules { known: RULES - 1, ..Rules::default() }, ..EngineOptions::default() };
    let older = Engine::open(dir.path(), options).unwrap();
    add_users(&older, &names).await;
    let _ = older.app.block(ann, bea, true).await;
    copies(&older).bring_forward(WHOLE_LOG, projected(&older).await).await.unwrap();
    assert_eq!(copied(&*older.app.directory, ann).await, []);
    older.close().unwrap();

    let engine = open(dir.path()).await;
    let key: LogKey = Pair::new(ann.clone(), bea.clone()).log_key();
    dunlin_app::unpark(&*engine.app.log, &*engine.app.ids, key, None).await.unwrap();
    copies(&engine).bring_forward(WHOLE_LOG, projected(&engine).await).await.unwrap();
    assert_eq!(copied(&*engine.app.directory, ann).await, [(bea.clone(), true)]);
}
