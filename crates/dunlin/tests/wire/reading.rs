//! Pages, feeds, tags, and reads that must see a write.

use dunlin_client::protocol::{Happening, Time};
use dunlin_model::Millis;

use crate::{people::code, server::Server};

#[tokio::test]
async fn every_way_into_a_history_meets_the_others() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let sent = ann.sends_many(&bea, 25).await;
    let conversation = &sent[0].conversation;
    let seq = |n: usize| sent[n - 1].seq.unwrap();
    let history = || bea.client.history(conversation);
    let numbers =
        async |query: dunlin_client::History<'_>| query.get().await.unwrap().data.iter().map(|message| message.n).collect::<Vec<_>>();
    let down = |from: u64, to: u64| (to..=from).rev().collect::<Vec<_>>();
    assert_eq!(numbers(history().limit(5)).await, down(25, 21));
    assert_eq!(numbers(history().limit(5).before(seq(21))).await, down(20, 16));
    assert_eq!(numbers(history().limit(5).after(seq(20))).await, down(25, 21));
    assert_eq!(numbers(history().limit(5).around(seq(10))).await, down(12, 8));
    assert_eq!(numbers(history().limit(5).around(seq(25))).await, down(25, 21));
    let all_of_it = history().limit(200).after(0).get().await.unwrap();
    assert_eq!((all_of_it.next, all_of_it.prev), (None, None), "there is nothing beyond");
    assert_eq!(numbers(history().from_n(3).to_n(6)).await, down(6, 3));
    let at = bea.client.message(conversation, seq(10)).await.unwrap().created_at;
    let earlier = numbers(history().limit(200).before_time(at)).await;
    assert!(earlier.iter().all(|&n| n < 10) && earlier.last() == Some(&1), "{earlier:?}");
    assert_eq!(numbers(history().before_time(Time(Millis(0)))).await, [] as [u64; 0]);

    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let query = history().limit(7);
        let page = match &cursor {
            None => query.get().await.unwrap(),
            Some(cursor) => query.cursor(cursor).get().await.unwrap(),
        };
        all.extend(page.data.iter().map(|message| message.n));
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(all, down(25, 1));
    let back = history().limit(7).cursor(&cursor.unwrap()).get().await.unwrap();
    let newer = history().limit(3).cursor(&back.prev.unwrap()).get().await.unwrap();
    assert_eq!(newer.data.iter().map(|message| message.n).collect::<Vec<_>>(), down(7, 5));
}

#[tokio::test]
async fn a_page_of_large_messages_ends_early_and_the_next_goes_on() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let large = "x".repeat(60_000);
    let mut sent = Vec::new();
    for number in 0..40 {
        sent.push(ann.settled(ann.client.send(&bea.id, &number.to_string(), &large).await.unwrap()).await);
    }
    let (conversation, seq) = (&sent[0].conversation, |n: usize| sent[n - 1].seq.unwrap());
    let (mut all, mut pages, mut cursor) = (Vec::new(), 0, None::<String>);
    loop {
        let query = bea.client.history(conversation).limit(200);
        let page = match &cursor {
            None => query.get().await.unwrap(),
            Some(cursor) => query.cursor(cursor).get().await.unwrap(),
        };
        assert!((1..=17).contains(&page.data.len()), "a page has a mebibyte of texts at most, and this one {}", page.data.len());
        all.extend(page.data.iter().map(|message| message.n));
        pages += 1;
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!((all, pages), ((1..=40).rev().collect::<Vec<_>>(), 3));
    let after = bea.client.history(conversation).limit(200).after(seq(5)).get().await.unwrap();
    assert_eq!((after.data.last().unwrap().n, after.data.len(), after.prev.is_some()), (6, 17, true), "nearest first");
    let around = bea.client.history(conversation).limit(200).around(seq(20)).get().await.unwrap();
    assert!(around.data.iter().any(|message| message.n == 20) && around.next.is_some() && around.prev.is_some());
    let range = bea.client.history(conversation).from_n(2).to_n(40).get().await.unwrap();
    assert_eq!((range.data.last().unwrap().n, range.data.len(), range.prev.is_some()), (2, 17, true));
}

#[tokio::test]
async fn an_inbox_is_paged_without_skipping_and_a_cursor_belongs_to_its_query() {
    let server = Server::shared();
    let ann = server.someone("ann").await;
    let mut friends = Vec::new();
    for _ in 0..12 {
        let friend = server.someone("friend").await;
        friend.sends(&ann, "hi").await;
        friends.insert(0, friend.id);
    }
    let (mut seen, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let query = ann.client.inbox().limit(5);
        let page = match &cursor {
            None => query.get().await.unwrap(),
            Some(cursor) => query.cursor(cursor).get().await.unwrap(),
        };
        seen.extend(page.data.into_iter().filter_map(|conversation| conversation.other));
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, friends, "most recent first, each once");
    let cursor = cursor.unwrap();
    assert_eq!(code(ann.client.feed().cursor(&cursor).get().await), "invalid_cursor");
    let unread = ann.client.unread().await.unwrap();
    assert_eq!((unread.messages, unread.conversations, unread.data.len()), (12, 12, 12));
    let conversation = ann.inbox().await[0].id.clone();
    assert_eq!(code(ann.client.history(&conversation).cursor(&cursor).get().await), "invalid_cursor");
}

#[tokio::test]
async fn a_feed_resumes_from_what_is_safe() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let first = ann.sends(&bea, "one").await;
    let feed = bea.client.feed().at_least(&first.token).get().await.unwrap();
    assert!(feed.data.iter().any(|item| item.event == Happening::Message && Some(item.seq) == first.seq));
    assert!(!feed.reset);
    let from_now = bea.client.feed().from("now").get().await.unwrap();
    assert_eq!((from_now.data.len(), from_now.next), (0, None));
    let second = ann.sends(&bea, "two").await;
    let news = bea.client.feed().cursor(&from_now.safe).at_least(&second.token).get().await.unwrap();
    assert!(news.data.iter().any(|item| Some(item.seq) == second.seq) && news.data.len() <= 3, "{news:?}");
    let more = bea.client.feed().cursor(&feed.safe).at_least(&second.token).get().await.unwrap();
    assert!(more.data.iter().any(|item| Some(item.seq) == second.seq), "{more:?}");
}

#[tokio::test]
async fn a_read_that_names_a_token_sees_its_write() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    for number in 0..20 {
        let sent = ann.client.send(&bea.id, &number.to_string(), "hello").await.unwrap();
        let page = bea.client.history(&sent.conversation).at_least(&sent.token).limit(1).get().await.unwrap();
        assert_eq!(page.data[0].client_id, number.to_string());
    }
    let conversation = bea.inbox().await[0].id.clone();
    let future = format!("{conversation}.{}", (2_u64 << 40) + 1_000_000);
    assert_eq!(code(bea.client.inbox().at_least(&future).get().await), "not_yet");
    assert_eq!(code(bea.client.inbox().at_least("nonsense").get().await), "invalid_cursor");
}

#[tokio::test]
async fn what_is_unchanged_is_not_sent_again() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let sent = ann.sends(&bea, "hello").await;
    let path = format!("/v1/conversations/{}?messages=10", sent.conversation);
    let ask = |tag: Option<String>| {
        let url = format!("{}{path}", server.url);
        let mut command = std::process::Command::new("curl");
        command.args(["-s", "-o", "/dev/null", "-w", "%{http_code} %header{etag}", &url]);
        command.args(["-H", &server.authorization(&bea.id)]);
        if let Some(tag) = tag {
            command.args(["-H", &format!("If-None-Match: {tag}")]);
        }
        let answer = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let (status, tag) = answer.split_once(' ').unwrap();
        (status.to_owned(), tag.to_owned())
    };
    let (status, tag) = ask(None);
    assert_eq!(status, "200");
    assert_eq!(ask(Some(tag.clone())), ("304".to_owned(), tag.clone()));
    let delivered = bea.client.mark_delivered(&sent.conversation, sent.seq.unwrap()).await;
    bea.done(delivered).await;
    let (status, other) = ask(Some(tag.clone()));
    assert_eq!(status, "200", "a delivered mark shows, though it moves no head");
    assert_ne!(other, tag);
}

#[tokio::test]
async fn a_read_mark_may_bring_the_conversation_with_it() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let sent = ann.sends_many(&bea, 3).await;
    let path = format!("/v1/conversations/{}/read?include=conversation", sent[0].conversation);
    let body = serde_json::json!({"up_to": sent[1].seq});
    let answer: serde_json::Value = bea.client.call("POST".parse().unwrap(), &path, Some(&body)).await.unwrap();
    assert_eq!((answer["unread"].as_u64(), answer["messages"]["data"].as_array().map(Vec::len)), (Some(1), Some(3)), "{answer}");
}
