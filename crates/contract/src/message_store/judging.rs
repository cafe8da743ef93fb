//! What the projector asks and keeps: inputs as of an event, outcomes, parked events, checkpoints.

use bytes::Bytes;
use dunlin_model::{
    Accepted, BlockRow, ContentHash, ConversationId, DedupKey, DedupRow, LogKey, Millis, N, Outcome, OutcomeRow, Partition, Rejection, Seq,
    UserId,
};
use dunlin_ports::{Batch, Checkpoint, MessageStore, Parked, ParkedRow, Replay, Wanted, Write};

use super::make::*;
use crate::ids;

pub async fn what_is_known_comes_in_the_order_of_the_question(store: &dyn MessageStore) {
    let pairs = [ids::pair(), ids::pair(), ids::pair()];
    let conversations = pairs.clone().map(|pair| ConversationId::direct(&pair));
    let heads = vec![(conversations[2], head(&pairs[2], 1)), (conversations[0], head(&pairs[0], 2))];
    store.apply(&Batch { heads, ..Batch::default() }).await.unwrap();
    let row = message(3);
    apply(store, [Write::Message { conversation: conversations[1], row: row.clone().into() }]).await;
    let wanted = Wanted {
        heads: conversations.to_vec(),
        messages: vec![(conversations[0], seq(3)), (conversations[1], seq(3))],
        ..Wanted::default()
    };
    let known = store.known(&wanted).await.unwrap();
    assert_eq!(known.heads, [Some(head(&pairs[0], 2)), None, Some(head(&pairs[2], 1))]);
    assert_eq!(known.messages, [None, Some(row)]);
}

pub async fn dedup_rows_are_known_as_of_an_event(store: &dyn MessageStore) {
    let key = DedupKey { conversation: ids::conversation(), sender: Some(ids::user()), client_id: ids::client_id() };
    let row = |at| DedupRow { seq: seq(at), n: N(at), created_at: Millis(at), hash: ContentHash::of(&[7]) };
    apply(store, [Write::Dedup { key: key.clone(), row: row(5) }]).await;
    apply(store, [Write::Dedup { key: key.clone(), row: row(9) }, Write::Dedup { key: key.clone(), row: row(5) }]).await;
    let system = DedupKey { sender: None, ..key.clone() };
    let other = DedupKey { client_id: ids::client_id(), ..key.clone() };
    let ask = [(&key, 5), (&key, 6), (&key, 9), (&key, 10), (&system, 10), (&other, 10)];
    let wanted = Wanted { dedup: ask.iter().map(|(key, below)| ((*key).clone(), seq(*below))).collect(), ..Wanted::default() };
    let known = store.known(&wanted).await.unwrap().dedup;
    assert_eq!(known, [None, Some(row(5)), Some(row(5)), Some(row(9)), None, None]);
}

pub async fn blocks_are_known_as_of_an_event(store: &dyn MessageStore) {
    let pair = ids::pair();
    let users: Vec<UserId> = pair.users().cloned().collect();
    let row = |from: usize, at, on| BlockRow {
        blocker: users[from].clone(),
        blocked: users[1 - from].clone(),
        at: seq(at),
        since: Millis(at),
        on,
    };
    let rows = [row(0, 5, true), row(1, 6, true), row(0, 8, false)];
    apply(store, rows.clone().map(Write::Block)).await;
    apply(store, [Write::Block(rows[0].clone())]).await;
    let ask = [5, 6, 8, 9].map(|below| (pair.log_key(), seq(below)));
    let wanted = Wanted { blocks: ask.to_vec(), ..Wanted::default() };
    let mut known = store.known(&wanted).await.unwrap().blocks;
    known.iter_mut().for_each(|rows| rows.sort_by_key(|row| row.at));
    let [first, second, third] = rows;
    assert_eq!(known, [vec![], vec![first.clone()], vec![first, second.clone()], vec![second, third]]);
}

pub async fn an_outcome_reads_back(store: &dyn MessageStore) {
    let conversation = ids::conversation();
    let duplicate = Outcome::Duplicate(Accepted { seq: seq(1), n: N(1), created_at: Millis(1) });
    let duplicate = OutcomeRow { outcome: duplicate, actor: None };
    let rejected = OutcomeRow { outcome: Outcome::Rejected(Rejection::Blocked), actor: Some(ids::user()) };
    let rows = [(5, duplicate.clone()), (6, rejected.clone())];
    apply(store, rows.map(|(at, row)| Write::Outcome { conversation, at: seq(at), row })).await;
    assert_eq!(store.outcome(conversation, seq(5)).await.unwrap(), Some(duplicate));
    assert_eq!(store.outcome(conversation, seq(6)).await.unwrap(), Some(rejected));
    assert_eq!(store.outcome(conversation, seq(7)).await.unwrap(), None);
}

fn park(key: LogKey, at: u64) -> Write {
    Write::Parked { key, at: seq(at), time: Millis(at + 100), bytes: Bytes::from(format!("event {at}")) }
}

async fn parked_under(store: &dyn MessageStore, key: LogKey) -> Vec<Parked> {
    store.parked(1_000_000).await.unwrap().into_iter().filter(|parked| parked.key == key).collect()
}

pub async fn parked_keys_are_listed_once(store: &dyn MessageStore) {
    let key = ids::pair().log_key();
    apply(store, [park(key, 2), park(key, 1)]).await;
    apply(store, [park(key, 2)]).await;
    assert_eq!(parked_under(store, key).await, [Parked { key, first: Some(seq(1)), replays: vec![] }], "with the first of its events");
}

pub async fn parked_events_come_back_in_order_and_as_they_were(store: &dyn MessageStore) {
    let (key, other) = (ids::pair().log_key(), ids::pair().log_key());
    apply(store, [park(key, 3), park(key, 1), park(other, 2), park(key, 2)]).await;
    let rows = store.parked_rows(&key, seq(2), 10).await.unwrap();
    let row = |at| ParkedRow { at: seq(at), time: Millis(at + 100), bytes: Bytes::from(format!("event {at}")) };
    assert_eq!(rows, [row(2), row(3)]);
    assert_eq!(store.parked_rows(&key, Seq::ZERO, 1).await.unwrap(), [row(1)]);
}

pub async fn what_was_replayed_is_no_longer_parked_and_what_came_later_is(store: &dyn MessageStore) {
    let key = ids::pair().log_key();
    let replay = |at, from, to| Replay { at: seq(at), time: Millis(at + 7), from: seq(from), to: seq(to) };
    let unpark = |replay| Write::Unparked { key, replay };
    apply(store, [park(key, 1), park(key, 2), park(key, 3), unpark(replay(5, 1, 2)), unpark(replay(5, 1, 3))]).await;
    apply(store, [unpark(replay(5, 1, 2))]).await;
    let first = replay(5, 1, 3);
    assert_eq!(parked_under(store, key).await, [Parked { key, first: Some(seq(3)), replays: vec![first] }], "it stopped at 3");
    let second = replay(7, 3, 7);
    apply(store, [unpark(second)]).await;
    assert_eq!(parked_under(store, key).await, [Parked { key, first: None, replays: vec![first, second] }]);
    apply(store, [park(key, 9), park(key, 2)]).await;
    assert_eq!(parked_under(store, key).await, [Parked { key, first: Some(seq(9)), replays: vec![first, second] }]);
}

pub async fn a_checkpoint_never_falls_and_moves_the_horizon(store: &dyn MessageStore) {
    let partition = Partition(0);
    let now = store.checkpoint(partition).await.unwrap();
    let (offset, time) = now.map_or((10, 1_000), |now| (now.seq.offset().0 + 10, now.log_time.0 + 1_000));
    let checkpoint = |more| Checkpoint { seq: seq(offset + more), log_time: Millis(time + more), event_id: ids::event_id() };
    let (early, late) = (checkpoint(0), checkpoint(5));
    for written in [early, late, early] {
        store.apply(&Batch { checkpoint: Some((partition, written)), ..Batch::default() }).await.unwrap();
    }
    assert_eq!(store.checkpoint(partition).await.unwrap(), Some(late));
    assert!(store.horizon(1).await.unwrap() >= late.log_time);
    assert_eq!(store.horizon(1_000_000).await.unwrap(), Millis(0), "a partition without a checkpoint may still bring anything");
}
