//! What the use cases promise, on the embedded engine.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod support;

use dunlin::engine::Engine;
use dunlin_app::{AppError, Destination, HistoryQuery, InboxQuery, Status};
use dunlin_model::{Accepted, Content, Emoji, Happening, MessageType, N, Outcome, Rejection, Seq, Shown, UserId, VisibilityChange};
use dunlin_ports::{Batch, Write};
use support::{add_users, assert_right, direct, open, send, text_to, user};
use tempfile::TempDir;

struct World {
    engine: Engine,
    ann: UserId,
    bea: UserId,
    _dir: TempDir,
}

async fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let (ann, bea) = (user("ann"), user("bea"));
    add_users(&engine, &[ann.clone(), bea.clone(), user("cem")]).await;
    World { engine, ann, bea, _dir: dir }
}

impl World {
    async fn ann_sends(&self, count: u64) -> Vec<Accepted> {
        let mut sent = Vec::new();
        for number in 0..count {
            sent.push(accepted(send(&self.engine.app, &self.ann, &self.bea, &format!("a{number}"), &format!("message {number}")).await));
        }
        sent
    }

    async fn bea_replies(&self, client_id: &str) -> Accepted {
        accepted(send(&self.engine.app, &self.bea, &self.ann, client_id, "a reply").await)
    }

    fn conversation(&self) -> dunlin_model::ConversationId {
        direct(&self.ann, &self.bea)
    }

    async fn inbox_of(&self, who: &UserId) -> Vec<dunlin_app::ConversationView> {
        self.engine.app.inbox(who, InboxQuery { limit: 50, ..InboxQuery::default() }).await.unwrap().conversations
    }

    async fn unread_of(&self, who: &UserId) -> u64 {
        self.engine.app.unread(who, 1).await.unwrap().totals.messages
    }

    async fn history_of(&self, who: &UserId) -> Vec<Option<Content>> {
        let page = self.engine.app.history(who, self.conversation(), HistoryQuery::Newest, 50).await.unwrap();
        page.messages.iter().map(|view| view.message.current().cloned()).collect()
    }
}

fn accepted(outcome: Outcome) -> Accepted {
    let Outcome::Accepted(accepted) = outcome else { panic!("{outcome:?}") };
    accepted
}

/// The log deletes what is old, projected or not: before that happens, it takes nothing more.
#[tokio::test]
async fn nothing_is_taken_while_what_waits_is_too_old() {
    let world = world().await;
    world.ann_sends(1).await;
    world.engine.app.outcomes.set_overdue(true);
    let refused = world.engine.app.send(text_to(Destination::User(world.bea.clone()), &world.ann, "a9", "too late")).await;
    assert!(matches!(refused, Err(AppError::Overdue)));
    let again = send(&world.engine.app, &world.ann, &world.bea, "a0", "message 0").await;
    assert!(matches!(again, Outcome::Duplicate(_)), "what was taken before is still known: {again:?}");
    world.engine.app.outcomes.set_overdue(false);
    assert_eq!(world.bea_replies("b0").await.n, N(2));
}

#[tokio::test]
async fn a_retry_returns_the_first_answer_and_another_body_is_refused() {
    let world = world().await;
    let first = world.ann_sends(1).await[0];
    // Once from memory, and once from the projector's own rows.
    let again = send(&world.engine.app, &world.ann, &world.bea, "a0", "message 0").await;
    assert_eq!(again, Outcome::Duplicate(first));
    let request = |text| text_to(Destination::User(world.bea.clone()), &world.ann, "a0", text);
    let submitted = world.engine.app.send_soon(request("message 0")).await.unwrap();
    assert_eq!(world.engine.app.outcome(submitted).await.outcome, Some(Outcome::Duplicate(first)));
    let other = world.engine.app.send_soon(request("something else")).await.unwrap();
    assert_eq!(world.engine.app.outcome(other).await.outcome, Some(Outcome::Rejected(Rejection::ClientIdReused)));
    assert_eq!(world.unread_of(&world.bea).await, 1);
    assert_right(&world.engine).await;
}

#[tokio::test]
async fn a_message_to_nobody_is_an_error_and_makes_no_ghost() {
    let world = world().await;
    let nobody = user("nobody");
    let sent = world.engine.app.send(text_to(Destination::User(nobody.clone()), &world.ann, "1", "hello?")).await;
    assert!(matches!(sent, Err(AppError::NoUser(who)) if who == nobody));
    assert!(world.inbox_of(&world.ann).await.is_empty());
}

#[tokio::test]
async fn a_block_in_either_direction_stops_messages_and_changes_nothing() {
    let world = world().await;
    world.ann_sends(2).await;
    world.engine.app.block(&world.bea, &world.ann, true).await.unwrap();
    let before = world.inbox_of(&world.bea).await;
    for (number, (from, to)) in [(&world.ann, &world.bea), (&world.bea, &world.ann)].into_iter().enumerate() {
        assert_eq!(send(&world.engine.app, from, to, &format!("b{number}"), "no").await, Outcome::Rejected(Rejection::Blocked));
    }
    assert_eq!(world.inbox_of(&world.bea).await, before);
    assert!(before[0].blocked_by_me && !before[0].blocked_me);
    assert!(world.inbox_of(&world.ann).await[0].blocked_me);
    world.engine.app.block(&world.bea, &world.ann, false).await.unwrap();
    // A rejected message does not use its client id up.
    assert!(matches!(send(&world.engine.app, &world.ann, &world.bea, "b0", "yes").await, Outcome::Accepted(_)));
    let feed = world.engine.app.feed(&world.ann, None, 50).await.unwrap();
    let what: Vec<Happening> = feed.rows.iter().map(|row| row.what).collect();
    use Happening::{Blocked, Message, Rejected, Unblocked};
    assert_eq!(what, [Message, Message, Blocked, Rejected, Unblocked, Message]);
}

#[tokio::test]
async fn an_older_mark_never_raises_unread() {
    let world = world().await;
    let sent = world.ann_sends(10).await;
    world.engine.app.mark_read(&world.bea, world.conversation(), sent[8].seq).await.unwrap();
    world.engine.app.mark_read(&world.bea, world.conversation(), sent[2].seq).await.unwrap(); // an offline device wakes up
    let view = &world.inbox_of(&world.bea).await[0];
    assert_eq!((view.unread, view.first_unread_at), (1, Some(sent[9].created_at)));
    let beyond = Seq::from_u64(sent[9].seq.get() + 1_000).unwrap();
    let refused = world.engine.app.mark_read(&world.bea, world.conversation(), beyond).await;
    assert!(matches!(refused, Err(AppError::Rejected(Rejection::BeyondHead))));
}

#[tokio::test]
async fn an_own_send_is_seen_and_deleted_messages_do_not_count() {
    let world = world().await;
    let sent = world.ann_sends(3).await;
    assert_eq!((world.unread_of(&world.ann).await, world.unread_of(&world.bea).await), (0, 3));
    world.engine.app.delete_for_everyone(&world.ann, world.conversation(), sent[0].seq).await.unwrap();
    let view = &world.inbox_of(&world.bea).await[0];
    assert_eq!((view.unread, view.first_unread_at), (2, Some(sent[1].created_at)));
    world.bea_replies("b").await;
    assert_eq!((world.unread_of(&world.ann).await, world.unread_of(&world.bea).await), (1, 0));
    assert_right(&world.engine).await;
}

#[tokio::test]
async fn a_message_brings_an_archived_conversation_back() {
    let world = world().await;
    world.ann_sends(1).await;
    world.engine.app.set_visibility(&world.bea, world.conversation(), VisibilityChange::Archive).await.unwrap();
    let view = &world.inbox_of(&world.bea).await[0];
    assert_eq!((view.shown, view.unread), (Shown::Archived, 0));
    world.engine.app.set_visibility(&world.bea, world.conversation(), VisibilityChange::Activate).await.unwrap();
    assert_eq!(world.inbox_of(&world.bea).await[0].shown, Shown::Displayed);
    world.engine.app.set_visibility(&world.bea, world.conversation(), VisibilityChange::Archive).await.unwrap();
    send(&world.engine.app, &world.ann, &world.bea, "again", "are you there?").await;
    let view = &world.inbox_of(&world.bea).await[0];
    assert_eq!((view.shown, view.unread), (Shown::Displayed, 1));
}

#[tokio::test]
async fn a_deleted_conversation_comes_back_with_new_messages_only() {
    let world = world().await;
    world.ann_sends(3).await;
    world.engine.app.set_visibility(&world.bea, world.conversation(), VisibilityChange::Delete).await.unwrap();
    assert!(world.inbox_of(&world.bea).await.is_empty());
    assert!(world.history_of(&world.bea).await.is_empty());
    send(&world.engine.app, &world.ann, &world.bea, "new", "new").await;
    assert_eq!(world.inbox_of(&world.bea).await[0].unread, 1);
    assert_eq!(world.history_of(&world.bea).await, [Some(Content::text("new").unwrap())]);
    assert_eq!(world.history_of(&world.ann).await.len(), 4, "the other side keeps its own view");
}

#[tokio::test]
async fn edits_reactions_and_deletions_show_to_both() {
    let world = world().await;
    let sent = world.ann_sends(2).await;
    let (app, conversation) = (&world.engine.app, world.conversation());
    app.edit(&world.ann, conversation, sent[1].seq, Content::text("better").unwrap()).await.unwrap();
    assert_eq!(world.inbox_of(&world.bea).await[0].last.as_ref().unwrap().preview.as_deref(), Some("better"));
    let not_mine = app.edit(&world.bea, conversation, sent[1].seq, Content::text("worse").unwrap()).await;
    assert!(matches!(not_mine, Err(AppError::Rejected(Rejection::NotSender))));
    let thumb = Emoji::parse("👍").unwrap();
    app.react(&world.bea, conversation, sent[1].seq, thumb.clone(), true).await.unwrap();
    let view = app.message(&world.ann, conversation, sent[1].seq).await.unwrap();
    assert_eq!((view.reactions[0].emoji.clone(), view.reactions[0].users.clone()), (thumb.clone(), vec![world.bea.clone()]));
    app.react(&world.bea, conversation, sent[1].seq, thumb, false).await.unwrap();
    assert!(app.message(&world.ann, conversation, sent[1].seq).await.unwrap().reactions.is_empty());
    app.delete_for_everyone(&world.ann, conversation, sent[1].seq).await.unwrap();
    assert_eq!(world.history_of(&world.bea).await[0], None, "a marker stays");
    let late = app.edit(&world.ann, conversation, sent[1].seq, Content::text("too late").unwrap()).await;
    assert!(matches!(late, Err(AppError::Rejected(Rejection::MessageDeleted))));
    app.delete_for_me(&world.bea, conversation, sent[0].seq).await.unwrap();
    assert_eq!((world.history_of(&world.bea).await.len(), world.history_of(&world.ann).await.len()), (1, 2));
    assert_right(&world.engine).await;
}

#[tokio::test]
async fn status_follows_the_recipients_marks() {
    let world = world().await;
    let sent = world.ann_sends(3).await;
    let (app, conversation) = (&world.engine.app, world.conversation());
    app.mark_delivered(&world.bea, conversation, sent[1].seq).await.unwrap();
    app.mark_read(&world.bea, conversation, sent[0].seq).await.unwrap();
    let page = app.history(&world.ann, conversation, HistoryQuery::Newest, 10).await.unwrap();
    let status: Vec<Status> = page.messages.iter().map(|view| view.status).collect();
    assert_eq!(status, [Status::Sent, Status::Delivered, Status::Read]);
    assert_eq!(app.receipts(&world.ann, conversation, sent[0].seq).await.unwrap().read_by, std::slice::from_ref(&world.bea));
    assert_eq!(app.receipts(&world.ann, conversation, sent[1].seq).await.unwrap().delivered_to, std::slice::from_ref(&world.bea));
}

#[tokio::test]
async fn a_stranger_finds_nothing() {
    let world = world().await;
    let sent = world.ann_sends(1).await;
    let (app, cem, conversation) = (&world.engine.app, user("cem"), world.conversation());
    assert!(matches!(app.history(&cem, conversation, HistoryQuery::Newest, 10).await, Err(AppError::NoConversation)));
    assert!(matches!(app.conversation(&cem, conversation).await, Err(AppError::NoConversation)));
    assert!(matches!(app.conversation(&cem, direct(&cem, &user("dov"))).await, Err(AppError::NoConversation)));
    assert!(matches!(app.message(&cem, conversation, sent[0].seq).await, Err(AppError::NoConversation)));
    let sending = app.send(text_to(Destination::Conversation(conversation), &cem, "1", "let me in")).await;
    assert!(matches!(sending, Err(AppError::NoConversation)));
}

#[tokio::test]
async fn notes_to_self_are_a_conversation_of_one() {
    let world = world().await;
    let note = accepted(send(&world.engine.app, &world.ann, &world.ann, "note", "buy milk").await);
    assert_eq!(note.n, N(1));
    let inbox = world.inbox_of(&world.ann).await;
    assert_eq!((inbox.len(), inbox[0].unread, inbox[0].other.clone()), (1, 0, Some(world.ann.clone())));
    assert_eq!(world.engine.app.members(&world.ann, direct(&world.ann, &world.ann)).await.unwrap().len(), 1);
    assert_right(&world.engine).await;
}

#[tokio::test]
async fn reserved_types_are_for_those_they_are_reserved_for() {
    let world = world().await;
    world.ann_sends(1).await;
    let typed = |sender: Option<&UserId>, kind: &str| {
        let mut request = text_to(Destination::Conversation(world.conversation()), &world.ann, kind, "hello");
        request.sender = sender.cloned();
        request.message_type = MessageType::parse(kind).unwrap();
        request
    };
    for kind in ["system", "robot"] {
        assert!(matches!(world.engine.app.send(typed(Some(&world.ann), kind)).await, Err(AppError::ReservedType(_))));
    }
    let sent = world.engine.app.send(typed(None, "system")).await.unwrap();
    assert!(matches!(sent.outcome, Some(Outcome::Accepted(_))));
    assert_eq!((world.unread_of(&world.ann).await, world.unread_of(&world.bea).await), (1, 2), "a system message is unread to both");
    assert!(matches!(world.engine.app.send(typed(Some(&world.bea), "bid")).await.unwrap().outcome, Some(Outcome::Accepted(_))));
}

#[tokio::test]
async fn an_inbox_pages_without_skipping_or_repeating() {
    let world = world().await;
    let others: Vec<UserId> = (0..25).map(|number| user(&format!("other-{number}"))).collect();
    add_users(&world.engine, &others).await;
    for other in &others {
        send(&world.engine.app, other, &world.ann, "hi", "hi").await;
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = world.engine.app.inbox(&world.ann, InboxQuery { limit: 7, cursor, shown: None }).await.unwrap();
        seen.extend(page.conversations);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
        // Something moves meanwhile, which must not disturb what did not.
        send(&world.engine.app, &others[24], &world.ann, &format!("again {}", seen.len()), "hi again").await;
    }
    let from: Vec<UserId> = seen.iter().filter_map(|view| view.other.clone()).filter(|other| *other != others[24]).collect();
    let mut expected: Vec<UserId> = others[..24].to_vec();
    expected.reverse();
    let ordered = seen.windows(2).all(|pair| {
        (std::cmp::Reverse(pair[0].moved_at), pair[0].conversation) < (std::cmp::Reverse(pair[1].moved_at), pair[1].conversation)
    });
    assert!(ordered, "most recent first, ties by id");
    let (mut from_sorted, mut expected_sorted) = (from, expected);
    from_sorted.sort();
    expected_sorted.sort();
    assert_eq!(from_sorted, expected_sorted);
    let wrong = InboxQuery { limit: 7, cursor: Some(world.engine.app.feed(&world.ann, None, 1).await.unwrap().safe), shown: None };
    assert!(matches!(world.engine.app.inbox(&world.ann, wrong).await, Err(AppError::InvalidCursor)));
}

#[tokio::test]
async fn what_is_being_written_is_not_shown_before_the_head_tells_of_it() {
    let world = world().await;
    let sent = world.ann_sends(2).await;
    let store = &world.engine.app.store;
    // Of two messages under way the second is there first, as on a cluster that is catching up.
    let mut row = store.message(world.conversation(), sent[1].seq).await.unwrap().unwrap();
    (row.seq, row.n) = (row.seq.next().next(), N(4));
    let write = Write::Message { conversation: world.conversation(), row: row.clone().into() };
    store.apply(&Batch { writes: vec![write], ..Batch::default() }).await.unwrap();
    assert!(store.message(world.conversation(), row.seq).await.unwrap().is_some());

    let app = &world.engine.app;
    for query in [HistoryQuery::Newest, HistoryQuery::After(Seq::ZERO), HistoryQuery::Numbers { from: N(1), to: N(9) }] {
        let page = app.history(&world.bea, world.conversation(), query, 50).await.unwrap();
        assert_eq!(page.messages.iter().map(|view| view.message.n).collect::<Vec<_>>(), [N(2), N(1)], "{query:?}");
        assert_eq!(page.newer, None, "{query:?}");
    }
    assert!(matches!(app.message(&world.bea, world.conversation(), row.seq).await, Err(AppError::NoMessage)));
}
