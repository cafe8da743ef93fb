//! Messages and what belongs to one: revisions, pages, index, reactions.

use dunlin_model::{Cell, Content, EditRow, Emoji, IndexRow, MessageRow, Millis, N, Seq, limits};
use dunlin_ports::{MessageStore, Order, SeqRange, Wanted, Write};

use super::make::*;
use crate::ids;

pub async fn a_message_reads_back_whole(store: &dyn MessageStore) {
    let conversation = ids::conversation();
    let mut row = message(7);
    row.content = Some(Content::opaque("application/x", &vec![0xff; limits::OPAQUE_BYTES_MAX]).unwrap());
    row.reply_to = Some(seq(3));
    row.sender = None;
    row.bucket = 9;
    let bucket = IndexRow { seq: row.seq, n: row.n, at: row.created_at, bucket: row.bucket };
    apply(store, [Write::Index { conversation, row: bucket }, Write::Message { conversation, row: row.clone().into() }]).await;
    assert_eq!(store.message(conversation, seq(7)).await.unwrap(), Some(row));
    assert_eq!(store.message(conversation, seq(8)).await.unwrap(), None);
    assert_eq!(store.message(ids::conversation(), seq(7)).await.unwrap(), None);
}

pub async fn a_message_written_again_keeps_its_revision(store: &dyn MessageStore) {
    let (conversation, row) = (ids::conversation(), message(1));
    let sent = Write::Message { conversation, row: row.clone().into() };
    let revision = Write::Revision { conversation, target: row.seq, bucket: 0, revision: edited(2, "better") };
    apply(store, [sent.clone()]).await;
    apply(store, [revision.clone()]).await;
    apply(store, [sent, revision]).await;
    let read = store.message(conversation, row.seq).await.unwrap().unwrap();
    assert_eq!(read.current(), Some(&text("better")));
    assert_eq!(read.content, row.content, "as it was sent");
}

pub async fn the_later_revision_stands_whichever_came_first(store: &dyn MessageStore) {
    let (conversation, row) = (ids::conversation(), message(1));
    let revise = |revision| Write::Revision { conversation, target: row.seq, bucket: 0, revision };
    apply(store, [Write::Message { conversation, row: row.clone().into() }]).await;
    apply(store, [revise(edited(9, "last"))]).await;
    apply(store, [revise(edited(5, "earlier"))]).await;
    assert_eq!(store.message(conversation, row.seq).await.unwrap().unwrap().current(), Some(&text("last")));
}

pub async fn a_deletion_takes_the_content_away_for_good(store: &dyn MessageStore) {
    let (conversation, row) = (ids::conversation(), message(1));
    let revise = |revision| Write::Revision { conversation, target: row.seq, bucket: 0, revision };
    apply(store, [Write::Message { conversation, row: row.clone().into() }]).await;
    apply(store, [revise(deleted(6))]).await;
    apply(store, [revise(edited(5, "too late")), Write::Message { conversation, row: row.clone().into() }]).await;
    let read = store.message(conversation, row.seq).await.unwrap().unwrap();
    assert!(read.is_deleted());
    assert_eq!((read.content.as_ref(), read.current()), (None, None));
    assert_eq!((read.n, read.sender), (row.n, row.sender), "the marker stays");
}

/// Pages that meet: what one page ends with, the next begins after, while messages keep arriving.
pub async fn adjacent_pages_meet_under_writes(store: &dyn MessageStore) {
    let conversation = ids::conversation();
    write_messages(store, conversation, 1..=30).await;
    let first = store.messages(conversation, SeqRange::ALL, Order::NewestFirst, 20).await.unwrap();
    write_messages(store, conversation, 31..=40).await;
    let before = SeqRange { before: first.last().unwrap().seq, ..SeqRange::ALL };
    let second = store.messages(conversation, before, Order::NewestFirst, 20).await.unwrap();
    assert_eq!(numbers(&first), (11..=30).rev().collect::<Vec<_>>());
    assert_eq!(numbers(&second), (1..=10).rev().collect::<Vec<_>>());
}

/// A bucket begins with an index row; index rows also come in between.
pub async fn pages_cross_buckets(store: &dyn MessageStore) {
    let conversation = ids::conversation();
    for number in 1..=12 {
        let row = MessageRow { bucket: (number as u32 - 1) / 4, ..message(number) };
        let index = IndexRow { seq: row.seq, n: row.n, at: row.created_at, bucket: row.bucket };
        let index = (number % 2 == 1).then_some(Write::Index { conversation, row: index });
        apply(store, index.into_iter().chain([Write::Message { conversation, row: row.into() }])).await;
    }
    let read = async |after, before, order, limit| {
        let range = SeqRange { after: seq(after), before: seq(before) };
        numbers(&store.messages(conversation, range, order, limit).await.unwrap())
    };
    assert_eq!(read(0, 99, Order::NewestFirst, 10).await, (3..=12).rev().collect::<Vec<_>>());
    assert_eq!(read(0, 3, Order::NewestFirst, 10).await, [2, 1]);
    assert_eq!(read(3, 10, Order::OldestFirst, 99).await, [4, 5, 6, 7, 8, 9]);
    assert_eq!(read(3, 10, Order::NewestFirst, 99).await, [9, 8, 7, 6, 5, 4]);
    assert_eq!(read(4, 99, Order::OldestFirst, 3).await, [5, 6, 7]);
    assert_eq!(store.message(conversation, seq(8)).await.unwrap().unwrap().bucket, 1);
    let targets = [(conversation, seq(4)), (conversation, seq(9))];
    let known = store.known(&Wanted { messages: targets.to_vec(), ..Wanted::default() }).await.unwrap().messages;
    assert_eq!(known.into_iter().flatten().map(|row| row.bucket).collect::<Vec<_>>(), [0, 2]);
}

/// Also of messages in several buckets.
pub async fn reactions_cross_buckets(store: &dyn MessageStore) {
    let (conversation, user) = (ids::conversation(), ids::user());
    for number in 1..=6 {
        let bucket = (number as u32 - 1) / 2;
        let row = MessageRow { bucket, ..message(number) };
        let index = IndexRow { seq: row.seq, n: row.n, at: row.created_at, bucket };
        let emoji = Emoji::parse("👍").unwrap();
        let on = Cell { at: seq(100 + number), value: true };
        let reaction = Write::Reaction { conversation, target: row.seq, bucket, user: user.clone(), emoji, on };
        apply(store, [Write::Index { conversation, row: index }, Write::Message { conversation, row: row.into() }, reaction]).await;
    }
    let read = async |after, before, limit| {
        let rows = store.reactions(conversation, SeqRange { after: seq(after), before: seq(before) }, limit).await.unwrap();
        rows.iter().map(|row| row.target).collect::<Vec<_>>()
    };
    assert_eq!(read(0, 99, 99).await, (1..=6).map(seq).collect::<Vec<_>>());
    assert_eq!(read(1, 6, 3).await, [2, 3, 4].map(seq));
}

pub async fn a_range_leaves_out_both_ends(store: &dyn MessageStore) {
    let conversation = ids::conversation();
    write_messages(store, conversation, 1..=10).await;
    let range = |after, before| SeqRange { after: seq(after), before: seq(before) };
    let read = async |range, order, limit| numbers(&store.messages(conversation, range, order, limit).await.unwrap());
    assert_eq!(read(range(3, 7), Order::OldestFirst, 9).await, [4, 5, 6]);
    assert_eq!(read(range(3, 7), Order::NewestFirst, 2).await, [6, 5]);
    assert_eq!(read(range(3, 4), Order::OldestFirst, 9).await, [0u64; 0]);
    assert_eq!(read(range(7, 3), Order::OldestFirst, 9).await, [0u64; 0], "an empty range is not an error");
}

pub async fn conversations_do_not_mix(store: &dyn MessageStore) {
    let (one, other) = (ids::conversation(), ids::conversation());
    write_messages(store, one, [1, 3]).await;
    write_messages(store, other, [2, 4]).await;
    assert_eq!(numbers(&store.messages(one, SeqRange::ALL, Order::OldestFirst, 9).await.unwrap()), [1, 3]);
    assert_eq!(numbers(&store.messages(other, SeqRange::ALL, Order::NewestFirst, 9).await.unwrap()), [4, 2]);
}

pub async fn the_index_finds_numbers_and_times(store: &dyn MessageStore) {
    let conversation = ids::conversation();
    let rows = [1, 501, 1001].map(|n| IndexRow { seq: seq(n * 2), n: N(n), at: Millis(n * 1_000), bucket: 0 });
    apply(store, rows.map(|row| Write::Index { conversation, row })).await;
    let at_n = async |n| store.index_at_n(conversation, N(n)).await.unwrap().map(|row| row.n.0);
    assert_eq!(
        [at_n(0).await, at_n(1).await, at_n(500).await, at_n(501).await, at_n(9_999).await],
        [None, Some(1), Some(1), Some(501), Some(1001)]
    );
    let from = async |at| store.index_from_time(conversation, Millis(at)).await.unwrap().map(|row| row.n.0);
    assert_eq!([from(0).await, from(1_000).await, from(1_001).await, from(1_001_001).await], [Some(1), Some(1), Some(501), None]);
    assert_eq!(store.index(conversation, N(1), 9).await.unwrap(), rows[1..]);
    assert_eq!(store.index(conversation, N::ZERO, 2).await.unwrap(), rows[..2]);
    assert_eq!(store.index_at_n(ids::conversation(), N(5)).await.unwrap(), None);
    assert_eq!(store.index_from_time(ids::conversation(), Millis(0)).await.unwrap(), None);
}

/// Two stretches may begin in the same millisecond.
pub async fn index_rows_of_one_time_all_exist(store: &dyn MessageStore) {
    let conversation = ids::conversation();
    let rows = [1, 501].map(|n| IndexRow { seq: seq(n), n: N(n), at: Millis(5), bucket: 0 });
    apply(store, rows.map(|row| Write::Index { conversation, row })).await;
    assert_eq!(store.index_from_time(conversation, Millis(5)).await.unwrap(), Some(rows[0]));
    assert_eq!(store.index(conversation, N::ZERO, 9).await.unwrap(), rows);
}

pub async fn a_deleted_number_counts_once(store: &dyn MessageStore) {
    let conversation = ids::conversation();
    let gone = |n| Write::DeletedNumber { conversation, n: N(n), at: seq(n + 100) };
    apply(store, [gone(2), gone(5)]).await;
    apply(store, [gone(5), gone(9)]).await;
    let above = async |n| store.deleted_above(conversation, N(n)).await.unwrap();
    assert_eq!([above(0).await, above(2).await, above(4).await, above(9).await], [3, 2, 2, 0]);
    assert_eq!(store.deleted_above(ids::conversation(), N::ZERO).await.unwrap(), 0);
}

pub async fn a_hidden_message_is_hidden_from_its_user_only(store: &dyn MessageStore) {
    let (conversation, user) = (ids::conversation(), ids::user());
    let hide = |target| Write::Hidden { user: user.clone(), conversation, target: seq(target), at: seq(50) };
    apply(store, [hide(3), hide(1), hide(7)]).await;
    let hidden = async |user, range| store.hidden(user, conversation, range, 9).await.unwrap();
    assert_eq!(hidden(&user, SeqRange::ALL).await, [seq(1), seq(3), seq(7)]);
    assert_eq!(hidden(&user, SeqRange { after: seq(1), before: seq(7) }).await, [seq(3)]);
    assert_eq!(hidden(&ids::user(), SeqRange::ALL).await, [] as [Seq; 0]);
}

pub async fn the_later_reaction_stands_whichever_came_first(store: &dyn MessageStore) {
    let (conversation, user) = (ids::conversation(), ids::user());
    let react = |target, emoji: &str, at, value| Write::Reaction {
        conversation,
        target: seq(target),
        bucket: 0,
        user: user.clone(),
        emoji: Emoji::parse(emoji).unwrap(),
        on: Cell { at: seq(at), value },
    };
    apply(store, [react(1, "👍", 5, true), react(1, "🎉", 6, true), react(2, "👍", 9, false)]).await;
    apply(store, [react(2, "👍", 7, true), react(3, "👍", 8, true)]).await;
    let rows = store.reactions(conversation, SeqRange { after: Seq::ZERO, before: seq(3) }, 99).await.unwrap();
    let mut seen: Vec<_> = rows.iter().map(|row| (row.target, row.emoji.as_str(), row.on.value)).collect();
    seen.sort();
    assert_eq!(seen, [(seq(1), "🎉", true), (seq(1), "👍", true), (seq(2), "👍", false)]);
}

pub async fn edits_are_kept_oldest_first(store: &dyn MessageStore) {
    let conversation = ids::conversation();
    let row = |at| EditRow { at: seq(at), edited_at: Millis(at), content: text(&format!("edit {at}")) };
    let edit = |at| Write::Edit { conversation, target: seq(1), row: row(at) };
    apply(store, [edit(9), edit(5), edit(7)]).await;
    apply(store, [edit(7), Write::Edit { conversation, target: seq(2), row: row(8) }]).await;
    assert_eq!(store.edits(conversation, seq(1), 2).await.unwrap(), [row(5), row(7)]);
    assert_eq!(store.edits(conversation, seq(1), 99).await.unwrap(), [row(5), row(7), row(9)]);
}
