//! `check` finds nothing wrong with what the projector makes, and names whatever is damaged.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod damage;
mod random;
mod world;

use dunlin_app::check::{Options, PROBLEMS_OF_A_PLACE_MAX, Report, check};
use dunlin_contract::{ModelStore, State};
use dunlin_model::{ConversationId, Millis, N, Pair, UserId};
use dunlin_ports::Write;

use damage::Damage;
use world::{LONG, LONG_DELETED, World};

async fn report(state: State) -> Report {
    let store = ModelStore::default();
    *store.state() = state;
    check(&store, Options::default(), &mut |_| {}).await.unwrap()
}

#[tokio::test]
async fn what_the_projector_makes_is_clean() {
    let (state, cast) = world::healthy().await;
    let report = report(state.clone()).await;
    assert!(report.is_clean(), "{report}");
    let messages = LONG + 9 + 3 + 1;
    assert_eq!((report.conversations, report.messages, report.deleted_numbers), (5, messages, LONG_DELETED + 1));
    assert_eq!((report.buckets, report.index_rows, report.dedup_rows), (4, 5, messages));
    assert_eq!((report.members, report.inbox_rows, report.unread_checked), (9, 9, 8));
    assert_eq!((report.users, report.feed_rows), (4, state.feed.keys().filter(|(user, _)| user.as_str() != "robot").count() as u64));
    assert!(state.inbox[&(cast.cem.clone(), cast.empty)].tip.is_none(), "a row with marks only is no problem");
}

#[tokio::test]
async fn every_damage_is_named() {
    let (state, cast) = world::healthy().await;
    let tables: [&[(&str, Damage)]; 4] = [damage::MESSAGES, damage::HEADS, damage::MEMBERS, damage::FEEDS];
    let mut unnamed = Vec::new();
    for (expected, damage) in tables.into_iter().flatten() {
        let mut damaged = state.clone();
        damage(&mut damaged, &cast);
        assert!(damaged != state, "nothing was damaged for: {expected}");
        let text = report(damaged).await.to_string();
        if !text.contains(expected) {
            unnamed.push(format!("expected: {expected}\n{text}"));
        }
    }
    assert!(unnamed.is_empty(), "{}", unnamed.join("\n\n"));
}

#[tokio::test]
async fn one_damage_is_one_problem() {
    let (mut state, cast) = world::healthy().await;
    state.index.remove(&(cast.long, N(501)));
    let report = report(state).await;
    assert_eq!(report.problems_total, 1, "{report}");
    assert_eq!(report.problems[0].place.conversation, Some(cast.long));
    assert!(report.to_string().ends_with(&format!("1 problem:\n  conversation {}: there is no index row at n 501", cast.long)), "{report}");
}

#[tokio::test]
async fn problems_beyond_the_first_are_counted() {
    let (mut state, _) = world::healthy().await;
    state.feed.clear();
    let report = report(state).await;
    let missing = 2 * (LONG + 9 + 3) + 1;
    let kept = 2 * (PROBLEMS_OF_A_PLACE_MAX + 9 + 3) + 1;
    assert_eq!((report.problems.len(), report.problems_total), (kept, missing));
    let more = missing - kept as u64;
    assert!(report.to_string().ends_with(&format!("\n  and {more} more")), "{report}");
}

#[tokio::test]
async fn what_has_expired_is_not_missed() {
    let (mut state, _) = world::healthy().await;
    state.dedup.clear();
    state.checkpoints.values_mut().for_each(|checkpoint| checkpoint.log_time.0 += 2 * Millis::DAY);
    let dedup_gone = report(state.clone()).await;
    assert!(dedup_gone.is_clean() && dedup_gone.dedup_rows == 0, "{dedup_gone}");
    state.feed.clear();
    state.checkpoints.values_mut().for_each(|checkpoint| checkpoint.log_time.0 += 400 * Millis::DAY);
    let feed_gone = report(state.clone()).await;
    assert!(feed_gone.is_clean(), "{feed_gone}");
    let store = ModelStore::default();
    *store.state() = state;
    let patient = check(&store, Options { dedup_window_ms: 500 * Millis::DAY }, &mut |_| {}).await.unwrap();
    assert_eq!(patient.problems_total, patient.messages, "{patient}");
}

#[tokio::test]
async fn buckets_are_counted_across_their_cuts() {
    const MESSAGES: u64 = 10_100;
    let mut world = World::new().await;
    let ann = UserId::parse("ann").unwrap();
    let pair = Pair::new(ann.clone(), ann.clone());
    for _ in 0..MESSAGES {
        world.say(Some(&ann), &pair, "text", "hi").await;
    }
    world.flush().await;
    let mut told = Vec::new();
    let report = check(&world.store, Options::default(), &mut |report: &Report| told.push(report.messages)).await.unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.messages, report.buckets, report.index_rows), (MESSAGES, 2, 21));
    assert!(told.len() > 20 && told.is_sorted() && told.last() == Some(&MESSAGES), "progress is told by page: {told:?}");

    let conversation = ConversationId::direct(&pair);
    let first_of_second = {
        let state = world.store.state();
        state.messages.values().filter_map(|stored| stored.row()).find(|row| row.bucket == 1).unwrap()
    };
    let row = dunlin_model::MessageRow { bucket: 0, ..first_of_second };
    world.store.state().write(Write::Message { conversation, row: row.into() });
    let report = check(&world.store, Options::default(), &mut |_| {}).await.unwrap().to_string();
    for expected in ["bucket 0 holds more than 10000 messages", "but bucket 1 is the last and holds 99", "there is no index row at n 10002"]
    {
        assert!(report.contains(expected), "{report}");
    }
}
