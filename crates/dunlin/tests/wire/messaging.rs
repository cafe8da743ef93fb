//! Two people talk.

use dunlin_client::protocol::{EditBody, Metadata, Opaque, Outcome, SendBody, SendToBody, Status, Visibility};

use crate::{
    people::{code, unique},
    server::Server,
};

#[tokio::test]
async fn a_message_arrives_and_is_unread_until_it_is_read() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let sent = ann.sends(&bea, "hello").await;
    assert_eq!((sent.outcome, sent.n), (Outcome::Accepted, Some(1)));
    let inbox = bea.inbox().await;
    let preview = inbox[0].last_message.as_ref().unwrap().preview.as_deref();
    assert_eq!((inbox.len(), inbox[0].unread, inbox[0].other.as_deref(), preview), (1, 1, Some(&*ann.id), Some("hello")));
    assert_eq!(inbox[0].first_unread_at, sent.created_at);
    let read = bea.client.mark_read(&sent.conversation, sent.seq.unwrap()).await;
    bea.done(read).await;
    assert_eq!((bea.unread().await, bea.inbox().await[0].first_unread_at), (0, None));
    assert_eq!(ann.sees(&sent.conversation).await[0].status, Status::Read);
}

#[tokio::test]
async fn a_retry_returns_the_first_seq_and_another_body_is_refused() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let first = ann.settled(ann.client.send(&bea.id, "1", "hello").await.unwrap()).await;
    let again = ann.settled(ann.client.send(&bea.id, "1", "hello").await.unwrap()).await;
    assert_eq!((again.outcome, again.seq, again.created_at), (Outcome::Duplicate, first.seq, first.created_at));
    assert_eq!(code(ann.client.send(&bea.id, "1", "other").await), "client_id_reused");
    let with_metadata = SendToBody {
        to: bea.id.clone(),
        client_id: "1".into(),
        text: Some("hello".into()),
        metadata: Some(Metadata::from([("a".into(), "b".into())])),
        ..SendToBody::default()
    };
    assert_eq!(code(ann.client.send_to_user(&with_metadata).await), "client_id_reused");
    assert_eq!(bea.texts(&first.conversation).await.len(), 1);
    let others = bea.settled(bea.client.send(&ann.id, "1", "my own").await.unwrap()).await;
    assert_eq!(others.outcome, Outcome::Accepted, "a client_id belongs to its sender");
}

#[tokio::test]
async fn an_older_mark_never_raises_unread() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let sent = ann.sends_many(&bea, 10).await;
    for up_to in [8, 2] {
        let read = bea.client.mark_read(&sent[0].conversation, sent[up_to].seq.unwrap()).await;
        bea.done(read).await;
        assert_eq!(bea.unread().await, 1);
    }
    let beyond = sent[9].seq.unwrap() + 1_000_000;
    assert_eq!(code(bea.client.mark_read(&sent[0].conversation, beyond).await), "beyond_head");
}

#[tokio::test]
async fn delivered_and_read_show_as_status_and_receipts() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let sent = ann.sends_many(&bea, 2).await;
    let (conversation, first, second) = (&sent[0].conversation, sent[0].seq.unwrap(), sent[1].seq.unwrap());
    let status = async || ann.sees(conversation).await.iter().map(|message| message.status).collect::<Vec<_>>();
    assert_eq!(status().await, [Status::Sent, Status::Sent]);
    let delivered = bea.client.mark_delivered(conversation, second).await;
    bea.done(delivered).await;
    let read = bea.client.mark_read(conversation, first).await;
    bea.done(read).await;
    assert_eq!(status().await, [Status::Delivered, Status::Read]);
    let receipts = ann.client.receipts(conversation, first).await.unwrap();
    assert_eq!((receipts.read_by, receipts.delivered_to), (vec![bea.id.clone()], vec![]));
    let members = ann.client.members(conversation).await.unwrap().data;
    let bea = members.iter().find(|member| member.user == bea.id).unwrap();
    assert_eq!((bea.read_up_to, bea.delivered_up_to), (Some(first), Some(second)));
}

#[tokio::test]
async fn edits_deletions_replies_reactions_and_metadata_show() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let first = ann.sends(&bea, "frist").await;
    let (conversation, seq) = (first.conversation.clone(), first.seq.unwrap());
    let metadata = Metadata::from([("colour".to_owned(), "blue".to_owned())]);
    let reply = SendBody {
        client_id: "r".into(),
        text: Some("what?".into()),
        reply_to: Some(seq),
        metadata: Some(metadata.clone()),
        ..SendBody::default()
    };
    let reply = bea.settled(bea.client.send_to_conversation(&conversation, &reply).await.unwrap()).await;
    let body = EditBody { text: Some("first".into()), ..EditBody::default() };
    assert_eq!(code(bea.client.edit(&conversation, seq, &body).await), "not_sender");
    ann.done(ann.client.edit(&conversation, seq, &body).await).await;
    bea.done(bea.client.react(&conversation, seq, "👍").await).await;
    let seen = ann.sees(&conversation).await;
    assert_eq!((seen[0].reply_to, &seen[0].metadata), (Some(seq), &metadata));
    assert_eq!(seen[1].text.as_deref(), Some("first"));
    assert!(seen[1].edited_at.is_some());
    assert_eq!((&*seen[1].reactions[0].emoji, &seen[1].reactions[0].users), ("👍", &vec![bea.id.clone()]));
    bea.done(bea.client.unreact(&conversation, seq, "👍").await).await;
    assert!(ann.client.message(&conversation, seq).await.unwrap().reactions.is_empty());

    assert_eq!(code(ann.client.delete_for_everyone(&conversation, reply.seq.unwrap()).await), "not_sender");
    ann.done(ann.client.delete_for_me(&conversation, reply.seq.unwrap()).await).await;
    assert_eq!((ann.sees(&conversation).await.len(), bea.sees(&conversation).await.len()), (1, 2));
    assert_eq!(code(ann.client.message(&conversation, reply.seq.unwrap()).await), "message_not_found");
    bea.done(bea.client.delete_for_everyone(&conversation, reply.seq.unwrap()).await).await;
    let marker = &bea.sees(&conversation).await[0];
    assert_eq!((&marker.text, marker.deleted_by.as_deref(), marker.metadata.len()), (&None, Some(&*bea.id), 0));
    assert_eq!(code(bea.client.edit(&conversation, reply.seq.unwrap(), &body).await), "message_deleted");
}

#[tokio::test]
async fn opaque_content_comes_back_as_it_was_and_has_no_preview() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let opaque = Opaque { content_type: "application/x-sealed".into(), data: "AAEC/w==".into() };
    let body = SendToBody { to: bea.id.clone(), client_id: "1".into(), opaque: Some(opaque.clone()), ..SendToBody::default() };
    let sent = ann.settled(ann.client.send_to_user(&body).await.unwrap()).await;
    assert_eq!(bea.sees(&sent.conversation).await[0].opaque.as_ref(), Some(&opaque));
    assert_eq!(bea.inbox().await[0].last_message.as_ref().unwrap().preview, None);
}

#[tokio::test]
async fn a_block_stops_messages_both_ways_and_tells_why() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let sent = ann.sends(&bea, "hello").await;
    bea.done(bea.client.block(&ann.id).await).await;
    assert_eq!(code(ann.client.send(&bea.id, "2", "are you there?").await), "blocked");
    assert_eq!(code(bea.client.send(&ann.id, "2", "no").await), "blocked");
    assert_eq!((bea.unread().await, ann.sees(&sent.conversation).await.len()), (1, 1), "nothing changed");
    let (anns, beas) = (ann.inbox().await.remove(0), bea.inbox().await.remove(0));
    assert_eq!((anns.blocked_me, anns.blocked_by_me, beas.blocked_me, beas.blocked_by_me), (true, false, false, true));
    let blocks = bea.client.blocks().await.unwrap().data;
    assert_eq!(blocks.iter().map(|block| &*block.user).collect::<Vec<_>>(), [&*ann.id]);
    bea.done(bea.client.block(&ann.id).await).await;
    assert_eq!(bea.client.blocks().await.unwrap().data, blocks, "it stands since it first did");
    assert_eq!(code(bea.client.unblock("nobody").await), "user_not_found");
    bea.done(bea.client.unblock(&ann.id).await).await;
    let again = ann.settled(ann.client.send(&bea.id, "2", "are you there?").await.unwrap()).await;
    assert_eq!(again.outcome, Outcome::Accepted, "a rejected message does not use its client_id up");
}

#[tokio::test]
async fn archived_and_deleted_conversations_come_back_with_a_new_message() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let conversation = ann.sends(&bea, "one").await.conversation;
    bea.done(bea.client.archive(&conversation).await).await;
    let shown = async |visibility| bea.client.inbox().visibility(visibility).get().await.unwrap().data.len();
    assert_eq!((shown(Visibility::Displayed).await, shown(Visibility::Archived).await, bea.unread().await), (0, 1, 0));
    bea.done(bea.client.activate(&conversation).await).await;
    assert_eq!(shown(Visibility::Displayed).await, 1);
    bea.done(bea.client.archive(&conversation).await).await;
    ann.sends(&bea, "two").await;
    assert_eq!((shown(Visibility::Displayed).await, bea.unread().await), (1, 1));

    bea.done(bea.client.delete_conversation(&conversation).await).await;
    assert_eq!((bea.inbox().await.len(), bea.sees(&conversation).await.len(), ann.sees(&conversation).await.len()), (0, 0, 2));
    ann.sends(&bea, "three").await;
    assert_eq!(bea.texts(&conversation).await, [Some("three".to_owned())]);
}

#[tokio::test]
async fn notes_to_self_are_never_unread() {
    let server = Server::shared();
    let ann = server.someone("ann").await;
    let sent = ann.sends(&ann, "milk").await;
    assert_eq!((ann.unread().await, ann.inbox().await[0].other.as_deref()), (0, Some(&*ann.id)));
    assert_eq!(ann.texts(&sent.conversation).await, [Some("milk".to_owned())]);
}

#[tokio::test]
async fn the_system_and_robots_may_post_anywhere() {
    let server = Server::with(&[], &[("DUNLIN_MESSAGES_ROBOTS", "helper")]);
    let (ann, bea) = server.two().await;
    let conversation = ann.sends(&bea, "hello").await.conversation;
    let note = SendBody { client_id: "s".into(), text: Some("the ad was sold".into()), ..SendBody::default() };
    let robot = server.person("helper").await;
    for (sender, client) in [(None, server.host()), (Some("helper"), robot.client.clone())] {
        let sent = client.send_to_conversation(&conversation, &note).await.unwrap();
        assert_ne!(client.send_status(&sent.token).await.unwrap().outcome, Outcome::Rejected, "whoever sent it may ask");
        let seen = bea.client.history(&conversation).at_least(&sent.token).get().await.unwrap().data.remove(0);
        let kind = if sender.is_some() { "robot" } else { "system" };
        assert_eq!((seen.sender.as_deref(), &*seen.message_type), (sender, kind));
    }
    let pretended = SendBody { message_type: Some("system".into()), ..note };
    assert_eq!(code(ann.client.send_to_conversation(&conversation, &pretended).await), "invalid_field");
}

#[tokio::test]
async fn users_are_made_by_the_host_or_by_their_first_token() {
    let server = Server::shared();
    let (ann, bea, cleo) = (server.someone("ann").await, unique("bea"), unique("cleo"));
    assert_eq!(code(ann.client.send("nobody", "1", "hello").await), "user_not_found");
    let body = serde_json::from_str(r#"{"display_name": "Bea", "metadata": {"plan": "gold"}}"#).unwrap();
    let made = server.host().put_user(&bea, &body).await.unwrap();
    assert_eq!((made.display_name.as_deref(), made.metadata["plan"].as_str()), (Some("Bea"), "gold"));
    ann.client.send(&bea, "1", "hello").await.unwrap();
    let changed = ann.client.change_me(&serde_json::from_str(r#"{"display_name": "Ann"}"#).unwrap()).await.unwrap();
    assert_eq!(server.host().user(&ann.id).await.unwrap(), changed);
    assert_eq!(ann.client.me().await.unwrap().display_name.as_deref(), Some("Ann"));
    let cleared = server.host().put_user(&bea, &serde_json::from_str(r#"{"display_name": null}"#).unwrap()).await.unwrap();
    assert_eq!((cleared.display_name, cleared.metadata.len()), (None, 1), "what is not named stays");
    let token = server.run(&["token", &cleo]).stdout;
    assert_eq!(server.client(String::from_utf8(token).unwrap().trim()).me().await.unwrap().id, cleo);
    ann.client.send(&cleo, "2", "welcome").await.unwrap();
}

#[tokio::test]
async fn a_user_has_room_for_so_many_emojis_on_a_message() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let sent = ann.sends(&bea, "look").await;
    let (conversation, seq) = (sent.conversation, sent.seq.unwrap());
    for number in 0..16 {
        bea.done(bea.client.react(&conversation, seq, &format!("e{number}")).await).await;
    }
    assert_eq!(code(bea.client.react(&conversation, seq, "e16").await), "too_many_reactions");
    bea.done(bea.client.unreact(&conversation, seq, "e3").await).await;
    bea.done(bea.client.react(&conversation, seq, "e3").await).await;
    ann.done(ann.client.react(&conversation, seq, "e16").await).await;
    let reactions = bea.client.message(&conversation, seq).await.unwrap().reactions;
    assert_eq!(reactions.len(), 17, "the other has room of their own");
}
