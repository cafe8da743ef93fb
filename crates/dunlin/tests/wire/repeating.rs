//! Requests that are made again, and requests that come too often.

use std::process::Command;

use crate::server::Server;

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
    let server = Server::start();
    let (ann, bea) = server.two().await;
    let sent = ann.sends_many(&bea, 2).await;
    let token = String::from_utf8(server.run(&["token", "bea"]).stdout).unwrap();
    let authorization = format!("Authorization: Bearer {}", token.trim());
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

#[tokio::test]
async fn who_calls_too_often_is_told_when_to_come_back() {
    let server = Server::with(&[], &[("DUNLIN_LIMITS_USER_PER_S", "2"), ("DUNLIN_LIMITS_USER_BURST", "3")]);
    let token = |user| format!("Authorization: Bearer {}", String::from_utf8(server.run(&["token", user]).stdout).unwrap().trim());
    let (ann, bea) = (token("ann"), token("bea"));
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
