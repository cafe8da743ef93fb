//! Cases of what is worth knowing for a while.

use std::time::Duration;

use dunlin_model::{ContentHash, DedupKey, DedupRow, Millis, N};
use dunlin_ports::{AnswerKey, Ephemeral};

use crate::ids;

const LONG_MS: u64 = 60_000;
const SHORT_MS: u64 = 50;

pub async fn a_send_is_recalled(ephemeral: &dyn Ephemeral) {
    let (key, row) = (fresh_key(), fresh_row());
    remember(ephemeral, &key, row, LONG_MS).await;
    assert_eq!(recall(ephemeral, &key).await, Some(row));
    assert_eq!(recall(ephemeral, &key).await, Some(row), "recalling does not use it up");
}

pub async fn what_was_not_remembered_is_not_recalled(ephemeral: &dyn Ephemeral) {
    assert_eq!(recall(ephemeral, &fresh_key()).await, None);
}

pub async fn every_part_of_the_key_counts(ephemeral: &dyn Ephemeral) {
    let key = fresh_key();
    remember(ephemeral, &key, fresh_row(), LONG_MS).await;
    let others = [
        DedupKey { conversation: ids::conversation(), ..key.clone() },
        DedupKey { sender: Some(ids::user()), ..key.clone() },
        DedupKey { sender: None, ..key.clone() },
        DedupKey { client_id: ids::client_id(), ..key.clone() },
    ];
    for other in &others {
        assert_eq!(recall(ephemeral, other).await, None, "{other:?}");
    }
}

pub async fn the_later_row_stands(ephemeral: &dyn Ephemeral) {
    let (key, later) = (fresh_key(), fresh_row());
    remember(ephemeral, &key, fresh_row(), LONG_MS).await;
    remember(ephemeral, &key, later, LONG_MS).await;
    assert_eq!(recall(ephemeral, &key).await, Some(later));
}

pub async fn a_send_is_forgotten_after_its_time(ephemeral: &dyn Ephemeral) {
    let key = fresh_key();
    remember(ephemeral, &key, fresh_row(), SHORT_MS).await;
    tokio::time::sleep(Duration::from_millis(3 * SHORT_MS)).await;
    assert_eq!(recall(ephemeral, &key).await, None);
}

pub async fn remembering_again_starts_the_time_again(ephemeral: &dyn Ephemeral) {
    let (key, later) = (fresh_key(), fresh_row());
    remember(ephemeral, &key, fresh_row(), SHORT_MS).await;
    remember(ephemeral, &key, later, LONG_MS).await;
    tokio::time::sleep(Duration::from_millis(3 * SHORT_MS)).await;
    assert_eq!(recall(ephemeral, &key).await, Some(later));
}

pub async fn an_answer_is_recalled_under_its_key_only(ephemeral: &dyn Ephemeral) {
    let (key, other) = (AnswerKey(ids::bits128()), AnswerKey(ids::bits128()));
    let recall = |key| async move { ephemeral.recall_answer(key).await.expect("recall") };
    assert_eq!(recall(key).await, None);
    ephemeral.remember_answer(key, "first".into(), LONG_MS).await.expect("remember");
    assert_eq!(recall(key).await.as_deref(), Some(&b"first"[..]));
    assert_eq!(recall(other).await, None);
    ephemeral.remember_answer(key, "second \0".into(), LONG_MS).await.expect("remember");
    assert_eq!(recall(key).await.as_deref(), Some(&b"second \0"[..]), "the later one stands");
}

pub async fn an_answer_is_forgotten_after_its_time(ephemeral: &dyn Ephemeral) {
    let key = AnswerKey(ids::bits128());
    ephemeral.remember_answer(key, "answer".into(), SHORT_MS).await.expect("remember");
    tokio::time::sleep(Duration::from_millis(3 * SHORT_MS)).await;
    assert_eq!(ephemeral.recall_answer(key).await.expect("recall"), None);
}

fn fresh_key() -> DedupKey {
    DedupKey { conversation: ids::conversation(), sender: Some(ids::user()), client_id: ids::client_id() }
}

fn fresh_row() -> DedupRow {
    DedupRow { seq: ids::seq(), n: N(7), created_at: Millis(1_700_000_000_000), hash: ContentHash::of(&ids::bits128()) }
}

async fn remember(ephemeral: &dyn Ephemeral, key: &DedupKey, row: DedupRow, ttl_ms: u64) {
    ephemeral.remember_send(key, row, ttl_ms).await.expect("remember");
}

async fn recall(ephemeral: &dyn Ephemeral, key: &DedupKey) -> Option<DedupRow> {
    ephemeral.recall_send(key).await.expect("recall")
}
