//! Events that an older program could not judge, and what was set aside with them, come back by `dunlin unpark`.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod support;

use std::{
    path::Path,
    process::{Command, Output},
};

use dunlin::engine::EngineOptions;
use dunlin_app::{AppError, Destination, Rules};
use dunlin_model::{Outcome, RULES};
use support::{add_users, direct, open, send, text_to, user};

/// What a program does that knows no rules yet: it sets aside whatever it reads.
fn older() -> Rules {
    Rules { known: RULES - 1, ..Rules::default() }
}

fn dunlin(data: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dunlin")).args(arguments).arg("--data").arg(data).env("DUNLIN_LOG", "error").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_older_program_set_aside_comes_back_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let names = ["ann", "bea", "cem"].map(user);
    let [ann, bea, cem] = &names;
    let engine = open(&data).await;
    add_users(&engine, &names).await;
    send(&engine.app, ann, bea, "1", "before").await;
    // Into files, here and below: what only the log holds, the next program judges as it comes by.
    engine.close().unwrap();

    let options = EngineOptions { rules: older(), ..EngineOptions::default() };
    let engine = dunlin::engine::Engine::open(&data, options).unwrap();
    for text in ["one", "two"] {
        let sent = engine.app.send(text_to(Destination::User(bea.clone()), ann, text, text)).await;
        // The first parks the conversation; what is refused after that was never in the log.
        assert!(matches!(sent, Ok(_) | Err(AppError::Parked)));
    }
    engine.caught_up(|_, _| {}).await.unwrap();
    engine.close().unwrap();

    let engine = open(&data).await;
    let key = direct(ann, bea).log_key();
    assert!(matches!(engine.app.send(text_to(Destination::User(bea.clone()), ann, "3", "three")).await, Err(AppError::Parked)));
    assert!(engine.app.conversation(bea, direct(ann, bea)).await.unwrap().degraded);
    assert!(engine.troubles()[0].contains(&key.to_string()), "{:?}", engine.troubles());
    assert!(matches!(send(&engine.app, ann, cem, "1", "elsewhere").await, Outcome::Accepted(_)));
    assert!(!engine.app.conversation(cem, direct(ann, cem)).await.unwrap().degraded);
    drop(engine);

    let listed = said(&dunlin(&data, &["unpark"]));
    assert!(listed.contains(&format!("{key} from event ")) && listed.contains("parked log keys: 1"), "{listed}");
    let wrong = dunlin(&data, &["unpark", &direct(ann, cem).log_key().to_string()]);
    assert!(wrong.status.code() == Some(2) && said(&wrong).contains("is not parked"), "{}", said(&wrong));
    let unparked = dunlin(&data, &["unpark", &key.to_string()]);
    assert!(unparked.status.success() && said(&unparked).contains("unparked 1 of 1"), "{}", said(&unparked));
    assert!(said(&dunlin(&data, &["unpark", "--all"])).contains("parked log keys: 0"));

    let engine = open(&data).await;
    assert_eq!(engine.troubles(), [""; 0]);
    let texts = |page: dunlin_app::HistoryPage| page.messages.len();
    let history = engine.app.history(bea, direct(ann, bea), dunlin_app::HistoryQuery::Newest, 50).await.unwrap();
    let count = texts(history);
    assert!(count >= 2, "what was set aside is there: {count}");
    let again = send(&engine.app, ann, bea, "one", "one").await;
    assert!(matches!(again, Outcome::Duplicate(_)), "a retry is known again: {again:?}");
    assert!(matches!(send(&engine.app, ann, bea, "3", "three").await, Outcome::Accepted(_)));
    assert_eq!(engine.app.unread(bea, 1).await.unwrap().totals.messages, count as u64 + 1);
    drop(engine);
    let checked = dunlin(&data, &["check"]);
    assert!(checked.status.success(), "{}", said(&checked));
}
