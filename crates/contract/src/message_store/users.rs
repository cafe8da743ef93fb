//! What is kept per user: inbox, standings, feed.

use dunlin_model::{BlockRow, Cell, ConversationId, Deleted, FeedKey, FeedRow, Happening, Millis, N, Seq, UserId};
use dunlin_ports::{MessageStore, Write};

use super::make::*;
use crate::ids;

pub async fn inbox_cells_merge_in_any_order(store: &dyn MessageStore) {
    let pair = ids::pair();
    let conversation = ConversationId::direct(&pair);
    let user = pair.users().next().unwrap().clone();
    let mut gone = Deleted::default();
    gone.add(N(4));
    let archived = |at, value| Write::InboxArchived { user: user.clone(), conversation, archived: Cell { at: seq(at), value } };
    let deleted =
        |at, value: &Deleted| Write::InboxDeleted { user: user.clone(), conversation, deleted: Cell { at: seq(at), value: value.clone() } };
    let veiled = |at, value| Write::InboxVeiled { user: user.clone(), conversation, veiled: Cell { at: seq(at), value: seq(value) } };
    apply(store, [archived(6, None), deleted(7, &gone), veiled(9, 8)]).await;
    apply(store, [tip_of(&user, conversation, &pair, 9)]).await;
    apply(store, [tip_of(&user, conversation, &pair, 3), archived(5, Some(seq(4))), deleted(2, &Deleted::default()), veiled(4, 3)]).await;
    let row = store.inbox_row(&user, conversation).await.unwrap().unwrap();
    assert_eq!(row.tip, Some(tip(&pair, 9)));
    assert_eq!(row.archived, Some(Cell { at: seq(6), value: None }));
    assert_eq!(row.deleted, Some(Cell { at: seq(7), value: gone }));
    assert_eq!(row.veiled, Some(Cell { at: seq(9), value: seq(8) }));
    assert_eq!(store.inbox(&user, None, 9).await.unwrap(), [row]);
}

pub async fn a_conversation_is_in_an_inbox_once(store: &dyn MessageStore) {
    let pair = ids::pair();
    let conversation = ConversationId::direct(&pair);
    let user = pair.users().next().unwrap().clone();
    for number in 1..=20 {
        apply(store, [tip_of(&user, conversation, &pair, number)]).await;
    }
    let rows = store.inbox(&user, None, 9).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].tip, Some(tip(&pair, 20)));
}

/// Also for users whose ids begin alike.
pub async fn pages_of_an_inbox_meet_and_hold_nobody_elses(store: &dyn MessageStore) {
    let user = ids::user();
    let longer = UserId::parse(&format!("{user}x")).unwrap();
    let mut mine = Vec::new();
    for number in 0..7 {
        let pair = dunlin_model::Pair::new(user.clone(), ids::user());
        let conversation = ConversationId::direct(&pair);
        mine.push(conversation);
        apply(store, [tip_of(&user, conversation, &pair, number + 1), tip_of(&longer, ids::conversation(), &pair, 1)]).await;
    }
    let first = store.inbox(&user, None, 4).await.unwrap();
    let second = store.inbox(&user, Some(first[3].conversation), 4).await.unwrap();
    let rows: Vec<_> = first.into_iter().chain(second).collect();
    let moves = store.inbox_moves(&user, None, 4).await.unwrap();
    let more = store.inbox_moves(&user, Some(moves[3].0), 4).await.unwrap();
    let moved = rows.iter().map(|row| (row.conversation, row.tip.as_ref().map(|tip| tip.value.moved_at())));
    assert!(moved.eq(moves.into_iter().chain(more)), "the same rows in the same order");
    let mut seen: Vec<_> = rows.into_iter().map(|row| row.conversation).collect();
    // The order is the store's own.
    mine.sort();
    seen.sort();
    assert_eq!(seen, mine);
}

pub async fn the_later_block_stands_for_both_users(store: &dyn MessageStore) {
    let (ann, bea) = (ids::user(), ids::user());
    let block = |blocker: &UserId, blocked: &UserId, at, on| {
        Write::Block(BlockRow { blocker: blocker.clone(), blocked: blocked.clone(), at: seq(at), since: Millis(at), on })
    };
    apply(store, [block(&ann, &bea, 5, true), block(&bea, &ann, 6, true)]).await;
    apply(store, [block(&bea, &ann, 8, false), block(&ann, &bea, 3, false)]).await;
    let of_ann = &store.standings(&ann, None, 9).await.unwrap()[0];
    assert_eq!((of_ann.other.clone(), of_ann.blocks_since(), of_ann.is_blocked_by_other()), (bea.clone(), Some(Millis(5)), false));
    let of_bea = &store.standings(&bea, None, 9).await.unwrap()[0];
    assert_eq!((of_bea.other.clone(), of_bea.blocks_since(), of_bea.is_blocked_by_other()), (ann, None, true));
}

pub async fn pages_of_standings_meet(store: &dyn MessageStore) {
    let user = ids::user();
    let mut others: Vec<_> = (0..5).map(|_| ids::user()).collect();
    let block = |other: &UserId| BlockRow { blocker: user.clone(), blocked: other.clone(), at: seq(1), since: Millis(1), on: true };
    apply(store, others.iter().map(|other| Write::Block(block(other)))).await;
    others.sort();
    let first = store.standings(&user, None, 2).await.unwrap();
    let second = store.standings(&user, Some(&first[1].other), 9).await.unwrap();
    let seen: Vec<_> = first.into_iter().chain(second).map(|standing| standing.other).collect();
    assert_eq!(seen, others);
}

pub async fn a_feed_is_ordered_by_time_over_months(store: &dyn MessageStore) {
    const MONTH: u64 = 31 * Millis::DAY;
    let (user, conversation) = (ids::user(), ids::conversation());
    let key = |at, number| FeedKey { at: Millis(at), conversation, seq: seq(number) };
    let row = |at, number| FeedRow { key: key(at, number), what: Happening::Message, target: Some(seq(1)) };
    let rows = [row(5, 2), row(5, 3), row(7, 1), row(3 * MONTH, 4), row(3 * MONTH + 1, 5), row(9 * MONTH, 6)];
    for row in rows.iter().rev().chain(&rows) {
        apply(store, [Write::Feed { user: user.clone(), row: *row }]).await;
    }
    let start = FeedKey { at: Millis(0), conversation: ConversationId::FIRST, seq: Seq::ZERO };
    assert_eq!(store.feed(&user, start, 99).await.unwrap(), rows);
    assert_eq!(store.feed(&user, key(5, 2), 3).await.unwrap(), rows[1..4]);
    assert_eq!(store.feed(&user, key(9 * MONTH, 6), 3).await.unwrap(), []);
    assert_eq!(store.feed(&ids::user(), start, 3).await.unwrap(), []);
}
