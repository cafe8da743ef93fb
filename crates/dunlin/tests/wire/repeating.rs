//! Requests that are made again, and requests that come too often.

use std::process::Command;

use dunlin_client::protocol::SendBody;

use crate::{people::code, server::Server};

/// Status, headers and body of a call with curl.
pub fn curl(server: &Server, path: &str, arguments: &[&str]) -> (u16, String, String) {
    let mut command = Command::new("curl");
    command.args(["-s", "-i", "--path-as-is", "--max-time", "60", &format!("{}{path}", server.url)]).args(arguments);
    let answer = String::from_utf8_lossy(&command.output().expect("curl is there").stdout).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    // Whoever sends a large body may be asked to go on first.
    let (head, body) = if head.contains(" 100 Continue") { body.split_once("\r\n\r\n").unwrap_or((body, "")) } else { (head, body) };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, head.to_ascii_lowercase(), body.to_owned())
}

#[tokio::test]
async fn a_request_with_the_same_idempotency_key_gets_the_first_answer_again() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let sent = ann.sends_many(&bea, 2).await;
    let authorization = server.authorization(&bea.id);
    let path = format!("/v1/conversations/{}/read", sent[0].conversation);
    let mark = |index: usize, key: &str| {
        let body = format!("{{\"up_to\": {}}}", sent[index].seq.unwrap());
        let key = format!("Idempotency-Key: {key}");
        curl(&server, &path, &["-H", &authorization, "-H", &key, "-H", "Content-Type: application/json", "-d", &body])
    };
    let (status, head, first) = mark(0, "k1");
    assert_eq!(status, 200);
    assert!(!head.contains("idempotency-replayed"));
    let (status, head, again) = mark(0, "k1");
    assert_eq!((status, &again), (200, &first));
    assert!(head.contains("idempotency-replayed: true"));
    let (status, _, body) = mark(1, "k1");
    assert_eq!(status, 409);
    assert!(body.contains("idempotency_key_reused"));
    let (status, _, other) = mark(1, "k2");
    assert_eq!(status, 200);
    assert_ne!(other, first);
    assert_eq!(mark(1, &"x".repeat(300)).0, 422);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_one_idempotency_key_at_once_are_one_and_the_server_goes_on() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let authorization = server.authorization(&ann.id);
    let body = format!(r#"{{"to": "{}", "client_id": "1", "text": "hello"}}"#, bea.id);
    let arguments = ["-H", &authorization, "-H", "Idempotency-Key: k", "-H", "Content-Type: application/json", "-d", &body];
    let answers: Vec<_> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8).map(|_| scope.spawn(|| curl(&server, "/v1/messages", &arguments))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    for (status, _, body) in &answers {
        assert!(matches!(status, 200..=202) || *status == 409 && body.contains("idempotency_key_in_use"), "{status} {body}");
    }
    assert_eq!(curl(&server, "/healthz", &[]).0, 200);
}

#[tokio::test]
async fn a_reply_that_is_sent_again_is_the_same_though_what_it_replied_to_is_gone() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let first = ann.sends(&bea, "where?").await;
    let (conversation, target) = (first.conversation, first.seq.unwrap());
    let reply = SendBody { client_id: "r".into(), text: Some("here".into()), reply_to: Some(target), ..SendBody::default() };
    let sent = bea.settled(bea.client.send_to_conversation(&conversation, &reply).await.unwrap()).await;
    bea.done(bea.client.delete_for_me(&conversation, target).await).await;
    let again = bea.settled(bea.client.send_to_conversation(&conversation, &reply).await.unwrap()).await;
    assert_eq!(again.seq, sent.seq);
    let another = SendBody { client_id: "r2".into(), ..reply };
    assert_eq!(code(bea.client.send_to_conversation(&conversation, &another).await), "message_not_found");
}

#[tokio::test]
async fn who_calls_too_often_is_told_when_to_come_back() {
    let server = Server::with(&[], &[("DUNLIN_LIMITS_USER_PER_S", "2"), ("DUNLIN_LIMITS_USER_BURST", "3")]);
    let (ann, bea) = (server.authorization("ann"), server.authorization("bea"));
    let answers: Vec<_> = (0..5).map(|_| curl(&server, "/v1/me", &["-H", &ann])).collect();
    assert_eq!(answers[0].0, 200);
    assert!(
        answers[0].1.contains("ratelimit-policy: \"user\";q=3;w=2") && answers[0].1.contains("ratelimit: \"user\";r=2;"),
        "{}",
        answers[0].1
    );
    let refused = answers.iter().find(|answer| answer.0 == 429).expect("one too many");
    assert!(refused.1.contains("retry-after: ") && refused.2.contains("rate_limited"), "{refused:?}");
    assert_eq!(curl(&server, "/v1/me", &["-H", &bea]).0, 200, "others are not held back");
}
