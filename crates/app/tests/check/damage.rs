//! Ways in which a store can go wrong, each with what the report must say about it.

use dunlin_contract::State;
use dunlin_model::{
    Cell, Content, ConversationId, Deleted, FeedKey, FeedRow, Happening, Head, InboxRow, Last, Mark, MemberRow, MessageRow, Millis, N,
    Revision, Seq, Tip, UserId,
};
use dunlin_ports::Write;

use crate::world::{Cast, LONG};

pub type Damage = fn(&mut State, &Cast);

pub const MESSAGES: &[(&str, Damage)] = &[
    ("has n 101, expected 100", |state, cast| drop(state.messages.remove(&(cast.long, seq(state, cast.long, 100))))),
    ("head has n 620, the last message has 619", |state, cast| drop(state.messages.remove(&(cast.long, seq(state, cast.long, LONG))))),
    ("has n 1000, expected 10", |state, cast| message(state, cast.long, 10, |row| row.n = N(1_000))),
    ("message n 7 has time 5, earlier than", |state, cast| message(state, cast.short, 7, |row| row.created_at = Millis(5))),
    ("is in bucket 2, expected 1 or the one before", |state, cast| message(state, cast.long, 300, |row| row.bucket = 2)),
    ("is from ann, who is no member", |state, cast| message(state, cast.short, 2, |row| row.sender = Some(cast.ann.clone()))),
    ("message n 2 is deleted and still has its content", |state, cast| {
        let value = Revision::Deleted { by: None, deleted_at: Millis(1) };
        message(state, cast.short, 2, |row| row.revision = Some(Cell { at: row.seq.next(), value }));
    }),
    ("message n 2 has no content", |state, cast| message(state, cast.short, 2, |row| row.content = None)),
    ("message n 2 was revised at seq", |state, cast| {
        let value = Revision::Deleted { by: None, deleted_at: Millis(1) };
        message(state, cast.short, 2, |row| row.revision = Some(Cell { at: row.seq, value }));
    }),
    ("which does not come before it", |state, cast| message(state, cast.short, 2, |row| row.reply_to = Some(row.seq))),
    ("does not say what was sent", |state, cast| message(state, cast.short, 2, |row| row.content = Content::text("x").ok())),
    ("what follows was not checked", |state, cast| repeat_the_first(state, cast, LONG)),
    (", not above ", |state, cast| repeat_the_first(state, cast, 300)),
    ("is not known by its client_id", |state, cast| state.dedup.retain(|(key, _), row| key.conversation != cast.short || row.n != N(3))),
    ("is known by its client_id as n 77", |state, cast| {
        state.dedup.iter_mut().find(|((key, _), _)| key.conversation == cast.notes).unwrap().1.n = N(77);
    }),
];

pub const HEADS: &[(&str, Damage)] = &[
    ("head has n 621, the last message has 620", |state, cast| head(state, cast.long).n = N(621)),
    ("has time 1, expected", |state, cast| last(state, cast.long).at = Millis(1)),
    ("head's last message is not the last message: it has seq", |state, cast| last(state, cast.long).seq = Seq::ZERO),
    ("it should have seq", |state, cast| head(state, cast.notes).last = None),
    ("outside of", |state, cast| head(state, cast.long).applied = head(state, cast.long).born),
    ("beyond the last one applied", |state, cast| head(state, cast.notes).born = Seq::MAX),
    ("head counts 619 messages in bucket 0, but bucket 0 is the last and holds 620", |state, cast| {
        head(state, cast.long).bucket.messages = 619
    }),
    ("head counts 1 bytes", |state, cast| head(state, cast.long).bucket.bytes = 1),
    ("head belongs to conversation", |state, cast| head(state, cast.notes).kind = head(state, cast.short).kind.clone()),
    ("head's deleted numbers are wrong: n 9 is missing", |state, cast| head(state, cast.short).deleted = Deleted::default()),
    ("head's deleted numbers are wrong: they have others", |state, cast| head(state, cast.notes).deleted.add(N(1))),
    ("from n 11 to 11 there are 1 deleted messages and 0 deleted numbers", |state, cast| {
        state.deleted.retain(|key| *key != (cast.long, N(11)))
    }),
    ("from n 12 to 12 there are 0 deleted messages and 1 deleted numbers", |state, cast| state.deleted.extend([(cast.long, N(12))])),
    ("1 deleted numbers lie above the last message", |state, cast| state.deleted.extend([(cast.short, N(10))])),
    ("there is no index row at n 501", |state, cast| state.index.retain(|key, _| *key != (cast.long, N(501)))),
    ("there is an index row at n 502, where none belongs", |state, cast| index(state, cast.long, 502, 502)),
    ("there is an index row at n 900, where none belongs", |state, cast| index(state, cast.long, 900, 900)),
    ("index row differs from its message", |state, cast| index(state, cast.long, 501, 501)),
    ("index row at n 501 is not found by its number: that at n 1 is", |state, cast| {
        let row = state.index.remove(&(cast.long, N(501)));
        state.index.extend(row.map(|row| ((cast.long, N(502)), row)));
    }),
];

pub const MEMBERS: &[(&str, Damage)] = &[
    ("user bob: has no inbox row, and there are messages", |state, cast| drop(state.inbox.remove(&(cast.bob.clone(), cast.long)))),
    ("has an inbox row without a tip", |state, cast| inbox(state, &cast.bob, cast.long).tip = None),
    ("is in nobody's inbox", |state, cast| drop(state.inbox.remove(&(cast.ann.clone(), cast.empty)))),
    ("user dot: has an inbox row of a conversation that does not exist", |state, cast| {
        let nowhere = ConversationId::FIRST;
        state.inbox.insert((cast.dot.clone(), nowhere), InboxRow::new(nowhere));
    }),
    ("user dot: has an inbox row and is no member", |state, cast| {
        state.inbox.insert((cast.dot.clone(), cast.long), InboxRow::new(cast.long));
    }),
    ("user bob: inbox tip has n 619, the head 620", |state, cast| tip(state, &cast.bob, cast.long).n = N(619)),
    ("inbox tip's last message is not the head's", |state, cast| tip(state, &cast.bob, cast.long).last = None),
    ("another birth or kind", |state, cast| tip(state, &cast.bob, cast.long).opened_at = Millis(1)),
    ("inbox tip was written at seq", |state, cast| {
        inbox(state, &cast.bob, cast.long).tip.as_mut().unwrap().at = Seq::ZERO;
    }),
    ("inbox's deleted numbers are wrong: n 599 is missing", |state, cast| inbox(state, &cast.bob, cast.long).deleted = None),
    ("inbox's deleted numbers were written", |state, cast| inbox(state, &cast.bob, cast.long).deleted.as_mut().unwrap().at = Seq::MAX),
    ("has 600 unread, but 310 messages above n 20 are", |state, cast| inbox(state, &cast.bob, cast.long).deleted = None),
    ("are deleted, and n goes to", |state, cast| tip(state, &cast.bob, cast.long).n = N(21)),
    ("user ann: seen, n 621 and", |state, cast| inbox(state, &cast.ann, cast.long).seen = Mark { n: N(621), seq: Seq::MAX }),
    ("is at the message n 9", |state, cast| inbox(state, &cast.bob, cast.short).seen.n = N(8)),
    ("hidden, n 2 and seq", |state, cast| inbox(state, &cast.dot, cast.cleared).hidden.seq = seq(state, cast.cleared, 2).next()),
    ("user bob: own message n 18 lies above seen, n 0", |state, cast| inbox(state, &cast.bob, cast.long).seen = Mark::default()),
    ("user bob: read, n 20, lies above seen, n 18", |state, cast| {
        inbox(state, &cast.bob, cast.long).seen = Mark { n: N(18), seq: seq(state, cast.long, 18) };
    }),
    ("user bob: read, n 21 and seq", |state, cast| member(state, &cast.bob, cast.long).read.n = N(21)),
    ("user bob: delivered, n 700 and seq", |state, cast| member(state, &cast.bob, cast.long).delivered.n = N(700)),
    ("user dot: has marks and is no member", |state, cast| {
        state.members.insert((cast.long, cast.dot.clone()), MemberRow::new(cast.dot.clone()));
    }),
    ("which is no message", |state, cast| inbox(state, &cast.ann, cast.cleared).archived.as_mut().unwrap().value = Some(Seq::MAX)),
    ("is veiled in the inbox and not hidden", |state, _| state.hidden.clear()),
];

pub const FEEDS: &[(&str, Damage)] = &[
    ("user bob: message n 600 is not in the feed", |state, cast| {
        let missing = seq(state, cast.long, 600);
        state.feed.retain(|(user, key), _| *user != cast.bob || key.conversation != cast.long || key.seq != missing);
    }),
    ("feed row Message of seq", |state, cast| feed(state, &cast.ann, cast.long, Happening::Message)),
    ("is of a message that does not exist", |state, cast| feed(state, &cast.ann, cast.long, Happening::Message)),
    ("is of a conversation that does not exist", |state, cast| feed(state, &cast.ann, ConversationId::FIRST, Happening::Archived)),
    ("is of a conversation that the user is no member of", |state, cast| feed(state, &cast.ann, cast.short, Happening::Opened)),
    ("names no message", |state, cast| feed(state, &cast.ann, cast.long, Happening::Reacted)),
    ("has another time than its message", |state, cast| feed(state, &cast.dot, cast.notes, Happening::Message)),
    ("is about a message that does not exist", |state, _| {
        let edited = state.feed.values_mut().find(|row| row.what == Happening::Edited).unwrap();
        edited.target = Some(Seq::MAX);
    }),
    ("lies beyond the last event applied", |state, cast| head(state, cast.long).applied = seq(state, cast.long, LONG)),
    ("has no rejection for its outcome", |state, _| state.outcomes.clear()),
];

fn seq(state: &State, conversation: ConversationId, n: u64) -> Seq {
    let mut rows = state.messages.range((conversation, Seq::ZERO)..=(conversation, Seq::MAX));
    rows.find(|(_, stored)| stored.row().unwrap().n == N(n)).unwrap().0.1
}

fn message(state: &mut State, conversation: ConversationId, n: u64, change: impl FnOnce(&mut MessageRow)) {
    let key = (conversation, seq(state, conversation, n));
    let mut row = state.messages.remove(&key).unwrap().row().unwrap();
    change(&mut row);
    state.write(Write::Message { conversation, row: row.into() });
}

/// Another message's row under the key of this one.
fn repeat_the_first(state: &mut State, cast: &Cast, n: u64) {
    let first = state.messages[&(cast.long, seq(state, cast.long, 1))].clone();
    state.messages.insert((cast.long, seq(state, cast.long, n)), first);
}

fn head(state: &mut State, conversation: ConversationId) -> &mut Head {
    state.heads.get_mut(&conversation).unwrap()
}

fn last(state: &mut State, conversation: ConversationId) -> &mut Last {
    head(state, conversation).last.as_mut().unwrap()
}

fn index(state: &mut State, conversation: ConversationId, at: u64, n: u64) {
    let mut row = state.index[&(conversation, N(1))];
    row.n = N(n);
    state.index.insert((conversation, N(at)), row);
}

fn inbox<'s>(state: &'s mut State, user: &UserId, conversation: ConversationId) -> &'s mut InboxRow {
    state.inbox.get_mut(&(user.clone(), conversation)).unwrap()
}

fn tip<'s>(state: &'s mut State, user: &UserId, conversation: ConversationId) -> &'s mut Tip {
    &mut inbox(state, user, conversation).tip.as_mut().unwrap().value
}

fn member<'s>(state: &'s mut State, user: &UserId, conversation: ConversationId) -> &'s mut MemberRow {
    state.members.get_mut(&(conversation, user.clone())).unwrap()
}

/// A row about the last event of a conversation, at a time when it did not happen.
fn feed(state: &mut State, user: &UserId, conversation: ConversationId, what: Happening) {
    let seq = state.heads.get(&conversation).map_or(Seq::ZERO, |head| head.applied);
    let key = FeedKey { at: Millis(1_750_000_999_999), conversation, seq };
    state.feed.insert((user.clone(), key), FeedRow { key, what, target: None });
}
