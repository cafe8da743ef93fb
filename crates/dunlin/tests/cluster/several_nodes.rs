//! Three servers on the same engines, under load, while one of them is killed, and one stops for so long that others take over from it, then
//! comes back as if nothing had been, and leaves in good order at last: everything that was acknowledged is there once, in order, and counted
//! right.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use dunlin_client::{
    Client,
    protocol::{Outcome, TokenBody},
};

use crate::{node::Node, profile::Place};

/// Longer than a member of the group may be silent.
const LONGER_THAN_A_SESSION: Duration = Duration::from_secs(14);
/// What a node that leaves had to project is others' at once, and sent to for some more time.
const HANDED_OVER: Duration = Duration::from_secs(3);
const PAIRS: usize = 8;

/// Whether a sender waits for each message to be visible before it sends the next.
#[derive(Clone, Copy, PartialEq)]
enum Pace {
    Acknowledged,
    Visible,
}

/// Sends numbers until told to stop, to whichever node answers; gives back how many were acknowledged, and the longest wait for one.
async fn send_numbers(clients: Vec<Client>, to: String, pace: Pace, stop: Arc<AtomicBool>) -> (u64, Duration) {
    let (mut number, mut longest, mut turn) = (0, Duration::ZERO, 0);
    while !stop.load(Ordering::Relaxed) {
        let (begun, text) = (Instant::now(), number.to_string());
        loop {
            let answer = tokio::time::timeout(Duration::from_secs(3), clients[turn % clients.len()].send(&to, &text, &text)).await;
            match answer {
                Ok(Ok(sent)) if sent.outcome == Outcome::Pending && pace == Pace::Visible => {}
                Ok(Ok(sent)) if sent.outcome != Outcome::Rejected => break,
                Ok(Ok(sent)) => panic!("{text} was rejected: {sent:?}"),
                // A node that is gone, stopped or busy: the next one, with the same client id.
                Ok(Err(_)) | Err(_) => turn += 1,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        longest = longest.max(begun.elapsed());
        number += 1;
    }
    (number, longest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_die_and_nodes_that_return_lose_and_double_nothing() {
    let place = Place::of_cluster();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut nodes: Vec<_> = (0..3).map(|_| Node::start(&place, &data)).collect();
    let host = Client::new(nodes[0].url.parse().unwrap(), nodes[0].key.as_ref().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let mut sending = Vec::new();
    for pair in 0..PAIRS {
        let (from, to) = (format!("from{pair}"), format!("to{pair}"));
        host.put_user(&to, &Default::default()).await.unwrap();
        let token = host.mint_token(&from, &TokenBody::default()).await.unwrap().token;
        let clients = nodes.iter().map(|node| Client::new(node.url.parse().unwrap(), &token)).collect();
        let pace = if pair % 2 == 0 { Pace::Acknowledged } else { Pace::Visible };
        sending.push(tokio::spawn(send_numbers(clients, to, pace, Arc::clone(&stop))));
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    // A zombie: it stops in the middle of things, others take over, it goes on with what it had in its hands.
    nodes[1].signal("-STOP");
    tokio::time::sleep(LONGER_THAN_A_SESSION).await;
    nodes[1].signal("-CONT");
    tokio::time::sleep(Duration::from_secs(4)).await;
    nodes[2].signal("-KILL");
    tokio::time::sleep(LONGER_THAN_A_SESSION).await;
    nodes[1].signal("-TERM");
    let left = tokio::task::block_in_place(|| nodes[1].process.wait()).unwrap();
    assert!(left.success(), "a node leaves in good order while others send to it");
    tokio::time::sleep(HANDED_OVER).await;
    stop.store(true, Ordering::Relaxed);
    let mut sent = Vec::new();
    for task in sending {
        sent.push(task.await.unwrap());
    }
    let total: u64 = sent.iter().map(|(count, _)| count).sum();
    let longest = |of| sent.iter().skip(of).step_by(2).map(|(_, longest)| *longest).max().unwrap();
    let (acknowledged, visible) = (longest(0), longest(1));
    println!("{total} sends were acknowledged, at the latest after {acknowledged:.1?}, and visible after {visible:.1?}");

    for (pair, (count, _)) in sent.iter().enumerate() {
        let token = host.mint_token(&format!("to{pair}"), &TokenBody::default()).await.unwrap().token;
        let reader = Client::new(nodes[0].url.parse().unwrap(), &token);
        let expected: Vec<_> = (0..*count).map(|number| Some(number.to_string())).collect();
        let seen = seen_by(&reader, *count).await;
        assert_eq!(seen, expected, "every acknowledged message once, in order");
        let unread = reader.unread().await.unwrap();
        assert_eq!((unread.messages, unread.conversations), (*count, 1));
    }
    nodes.truncate(1);
    nodes[0].signal("-TERM");
    assert!(nodes[0].process.wait().unwrap().success(), "the last one too");
    let mut check = crate::dunlin();
    let checked = check.arg("check").arg("--data").arg(&data).envs(place.environment.iter().cloned()).output().unwrap();
    println!("{}", String::from_utf8_lossy(&checked.stdout));
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// The texts of the one conversation, oldest first, once there are so many; or after a while as they are.
async fn seen_by(reader: &Client, count: u64) -> Vec<Option<String>> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let inbox = reader.inbox().get().await.unwrap().data;
        let mut texts = Vec::new();
        if let Some(conversation) = inbox.first() {
            let mut cursor: Option<String> = None;
            loop {
                let query = reader.history(&conversation.id).limit(200);
                let page = match &cursor {
                    None => query.get().await.unwrap(),
                    Some(cursor) => query.cursor(cursor).get().await.unwrap(),
                };
                texts.extend(page.data.into_iter().map(|message| message.text));
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
        }
        if texts.len() as u64 >= count || Instant::now() > until {
            texts.reverse();
            return texts;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
