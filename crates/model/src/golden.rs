//! Heads and rows are written as they always were. (Events and ids have the like beside them.)

use crate::{
    Accepted, BlockRow, Bucket, Cell, ClientId, Content, ContentHash, ConversationId, DedupRow, Deleted, EditRow, FeedKey, FeedRow,
    Happening, Head, InboxRow, IndexRow, Kind, Last, Mark, MemberRow, MessageRow, MessageType, Millis, N, Outcome, Pair, RecentIds,
    Rejection, Revision, Seq, Standing, Tip, UserId, decode, encode,
};

fn seq(number: u64) -> Seq {
    Seq::from_u64(number).unwrap()
}

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

fn text(text: &str) -> Content {
    Content::text(text).unwrap()
}

fn head() -> Head {
    let mut deleted = Deleted::default();
    deleted.add(N(2));
    Head {
        applied: seq(10),
        born: seq(1),
        opened_at: Millis(500),
        n: N(3),
        last: Some(Last { seq: seq(9), at: Millis(1_000) }),
        bucket: Bucket { number: 1, messages: 2, bytes: 300 },
        kind: Kind::Direct(Pair::new(user("alice"), user("bob"))),
        deleted,
        recent: None,
    }
}

fn head_with_recent_ids() -> Head {
    let mut recent = RecentIds::new(Millis::ZERO);
    recent.add(Some(&user("alice")), &ClientId::parse("c1").unwrap(), Millis(1_000));
    Head { recent: Some(recent), ..head() }
}

fn inbox_row() -> InboxRow {
    let mut row = InboxRow::new(conversation());
    row.tip = Some(Cell { at: seq(9), value: Tip::of(&head()) });
    row.deleted = Some(Cell { at: seq(8), value: head().deleted });
    row.seen = Mark { n: N(1), seq: seq(2) };
    row.hidden = Mark { n: N(1), seq: seq(2) };
    row.archived = Some(Cell { at: seq(7), value: Some(seq(6)) });
    row.veiled = Some(Cell { at: seq(5), value: seq(4) });
    row
}

fn message(revision: Option<Revision>) -> MessageRow {
    MessageRow {
        seq: seq(9),
        n: N(3),
        created_at: Millis(1_000),
        sender: Some(user("alice")),
        message_type: MessageType::text(),
        content: Some(text("hi")),
        reply_to: Some(seq(4)),
        bucket: 1,
        revision: revision.map(|value| Cell { at: seq(12), value }),
        client_id: ClientId::parse("c1").unwrap(),
        metadata: None,
    }
}

fn conversation() -> ConversationId {
    ConversationId::direct(&Pair::new(user("alice"), user("bob")))
}

/// Encodes a value after seeing that it reads back.
fn line<T>(value: &T) -> String
where
    T: minicbor::Encode<()> + for<'b> minicbor::Decode<'b, ()> + PartialEq + std::fmt::Debug,
{
    let bytes = encode(value);
    assert_eq!(decode::<T>(&bytes).unwrap(), *value);
    data_encoding::HEXLOWER.encode(&bytes)
}

#[test]
fn heads_and_rows_are_written_as_they_always_were() {
    let mut standing = Standing::new(user("bob"));
    standing.blocked_by_me = Some(Cell { at: seq(3), value: Some(Millis(7)) });
    let accepted = Accepted { seq: seq(9), n: N(3), created_at: Millis(1_000) };
    let key = FeedKey { at: Millis(1_000), conversation: conversation(), seq: seq(9) };
    let written = [
        line(&head()),
        line(&inbox_row()),
        line(&InboxRow::new(conversation())),
        line(&message(None)),
        line(&message(Some(Revision::Edited { content: text("better"), edited_at: Millis(2_000) }))),
        line(&message(Some(Revision::Deleted { by: Some(user("alice")), deleted_at: Millis(2_000) }))),
        line(&EditRow { at: seq(12), edited_at: Millis(2_000), content: text("better") }),
        line(&IndexRow { seq: seq(9), n: N(3), at: Millis(1_000), bucket: 1 }),
        line(&MemberRow { user: user("bob"), read: Mark { n: N(1), seq: seq(2) }, delivered: Mark { n: N(2), seq: seq(4) } }),
        line(&Cell { at: seq(3), value: true }),
        line(&vec![BlockRow { blocker: user("alice"), blocked: user("bob"), at: seq(3), since: Millis(7), on: true }]),
        line(&standing),
        line(&vec![DedupRow { seq: seq(9), n: N(3), created_at: Millis(1_000), hash: ContentHash::of(b"hi") }]),
        line(&FeedRow { key, what: Happening::Edited, target: Some(seq(9)) }),
        line(&Outcome::Accepted(accepted)),
        line(&Outcome::Duplicate(accepted)),
        line(&Outcome::Rejected(Rejection::Blocked)),
        line(&Outcome::Done(seq(9))),
        line(&head_with_recent_ids()),
    ];
    let golden: Vec<&str> = include_str!("../golden/rows.hex").lines().collect();
    assert_eq!(written.join("\n"), golden.join("\n"), "these bytes stand in data folders: a change needs a new number, not new bytes");
}
