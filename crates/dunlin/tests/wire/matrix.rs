//! Who may do what: every operation of the document has a row here, and every row is tried by everyone.

use std::collections::BTreeSet;

use dunlin_client::{
    Client, Error,
    protocol::{TokenBody, UserBody},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::{people::Person, server::Server};

/// Who tries.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Who {
    Anonymous,
    Expired,
    Revoked,
    /// A member whose token may only read.
    Reader,
    Member,
    /// Not in the conversation.
    Stranger,
    /// A member whom the other has blocked.
    Blocked,
    /// A member who has deleted the conversation.
    Deleted,
    /// A server key that may act, in the name of the member.
    KeyForMember,
    /// The same, in nobody's name.
    KeyForNobody,
    /// A server key with the scope `users` only.
    KeyOfUsers,
    /// A server key that may only look at metrics, in the name of the member.
    KeyWithout,
}

use Who::*;

/// An operation, and what it answers whom: a member, a stranger, one who is blocked, one who has deleted.
struct Row {
    operation: &'static str,
    needs: Needs,
    answers: [u16; 4],
}

#[derive(PartialEq)]
enum Needs {
    /// Someone in whose name it is done.
    Caller,
    /// As above, or a server key in nobody's name: the system.
    CallerOrSystem,
    /// Anyone who is known.
    Anyone,
    /// A server key with the scope `users`.
    Users,
    /// A server key with the scope `metrics`.
    Metrics,
    Nothing,
}

const fn row(operation: &'static str, needs: Needs, answers: [u16; 4]) -> Row {
    Row { operation, needs, answers }
}

const MATRIX: &[Row] = &[
    row("send_to_user", Needs::Caller, [201, 201, 403, 201]),
    row("send", Needs::CallerOrSystem, [201, 404, 403, 201]),
    row("get_history", Needs::Caller, [200, 404, 200, 200]),
    row("get_message", Needs::Caller, [200, 404, 200, 404]),
    row("edit_message", Needs::Caller, [200, 404, 403, 404]),
    row("delete_message", Needs::Caller, [200, 404, 200, 200]),
    row("react", Needs::Caller, [200, 404, 403, 404]),
    row("unreact", Needs::Caller, [200, 404, 200, 404]),
    row("get_receipts", Needs::Caller, [200, 404, 200, 404]),
    row("get_send", Needs::CallerOrSystem, [200, 404, 200, 200]),
    row("open_direct", Needs::Caller, [200, 200, 200, 200]),
    row("get_inbox", Needs::Caller, [200, 200, 200, 200]),
    row("get_conversation", Needs::Caller, [200, 404, 200, 200]),
    row("delete_conversation", Needs::Caller, [200, 404, 200, 200]),
    row("get_members", Needs::Caller, [200, 404, 200, 200]),
    row("archive", Needs::Caller, [200, 404, 200, 200]),
    row("activate", Needs::Caller, [200, 404, 200, 200]),
    row("mark_read", Needs::Caller, [200, 404, 200, 200]),
    row("mark_delivered", Needs::Caller, [200, 404, 200, 200]),
    row("get_unread", Needs::Caller, [200, 200, 200, 200]),
    row("get_feed", Needs::Caller, [200, 200, 200, 200]),
    row("get_blocks", Needs::Caller, [200, 200, 200, 200]),
    row("block", Needs::Caller, [200, 200, 200, 200]),
    row("unblock", Needs::Caller, [200, 200, 200, 200]),
    row("get_me", Needs::Caller, [200, 200, 200, 200]),
    row("change_me", Needs::Caller, [200, 200, 200, 200]),
    row("get_user", Needs::Anyone, [200, 200, 200, 200]),
    row("put_user", Needs::Users, [403, 403, 403, 403]),
    row("mint_token", Needs::Users, [403, 403, 403, 403]),
    row("revoke_tokens", Needs::Users, [403, 403, 403, 403]),
    row("get_metrics", Needs::Metrics, [403, 403, 403, 403]),
    row("is_alive", Needs::Nothing, [200, 200, 200, 200]),
    row("is_ready", Needs::Nothing, [200, 200, 200, 200]),
];

impl Row {
    fn expected(&self, who: Who, reads: bool) -> u16 {
        let [member, stranger, blocked, deleted] = self.answers;
        let done = if self.operation == "mint_token" { 201 } else { 200 };
        match (&self.needs, who) {
            (Needs::Nothing, _) => 200,
            (_, Anonymous | Expired | Revoked) => 401,
            (Needs::Metrics, KeyWithout) => 403, // In the name of a member, which it may not.
            (Needs::Users, KeyOfUsers) => done,
            (Needs::Anyone, KeyForNobody | KeyOfUsers) => 200,
            (Needs::CallerOrSystem, KeyForNobody) if self.operation == "get_send" => 404, // It was not the system that sent it.
            (Needs::CallerOrSystem, KeyForNobody) => 201,
            (_, KeyForNobody | KeyOfUsers | KeyWithout) => 403,
            (Needs::Users | Needs::Metrics, _) => 403,
            (_, Reader) => {
                if reads {
                    member
                } else {
                    403
                }
            }
            (_, Member | KeyForMember) => member,
            (_, Stranger) => stranger,
            (_, Blocked) => blocked,
            (_, Deleted) => deleted,
        }
    }
}

#[tokio::test]
async fn every_operation_answers_everyone_as_it_should() {
    let server = Server::with(&[], &[("DUNLIN_LIMITS_KEY_PER_S", "0")]);
    let keys = Keys { act: key(&server, "act"), users: key(&server, "users"), metrics: key(&server, "metrics") };
    let document: Value = server.host().call("GET".parse().unwrap(), "/openapi.json", None::<&()>).await.unwrap();
    let mut untried: BTreeSet<&str> = MATRIX.iter().map(|row| row.operation).collect();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let row = MATRIX.iter().find(|row| row.operation == id).unwrap_or_else(|| panic!("{id} has no row in the matrix"));
            untried.remove(id);
            for who in [
                Anonymous,
                Expired,
                Revoked,
                Reader,
                Member,
                Stranger,
                Blocked,
                Deleted,
                KeyForMember,
                KeyForNobody,
                KeyOfUsers,
                KeyWithout,
            ] {
                let scene = Scene::new(&server, &keys, who).await;
                let (answered, problem) = scene.tries(method, path).await;
                assert_eq!(answered, row.expected(who, method == "get"), "{id} by {who:?}: {problem}");
            }
        }
    }
    assert!(untried.is_empty(), "rows without an operation: {untried:?}");
}

/// Server keys, each with one scope.
struct Keys {
    act: Client,
    users: Client,
    metrics: Client,
}

/// Two people with a conversation, and whoever tries something on it.
struct Scene {
    client: Client,
    conversation: String,
    seq: u64,
    token: String,
    other: String,
}

impl Scene {
    async fn new(server: &Server, keys: &Keys, who: Who) -> Scene {
        let (member, other) = server.two().await;
        let sent = member.sends(&other, "hello").await;
        let client = match who {
            Anonymous => server.client("").with_timeout(std::time::Duration::from_secs(30)),
            Expired => server.client(&signed(server, &member.id, -100, None)),
            Reader => server.client(&signed(server, &member.id, 60, Some("read"))),
            Revoked => {
                server.host().revoke_tokens(&member.id).await.unwrap();
                member.client.clone()
            }
            Member => member.client.clone(),
            Stranger => server.someone("stranger").await.client,
            Blocked => {
                other.done(other.client.block(&member.id).await).await;
                member.client.clone()
            }
            Deleted => {
                member.done(member.client.delete_conversation(&sent.conversation).await).await;
                member.client.clone()
            }
            KeyForMember => keys.act.acting_for(&member.id),
            KeyForNobody => keys.act.clone(),
            KeyOfUsers => keys.users.clone(),
            KeyWithout => keys.metrics.acting_for(&member.id),
        };
        let Person { id: other, .. } = other;
        Scene { client, conversation: sent.conversation, seq: sent.seq.unwrap(), token: sent.token, other }
    }

    async fn tries(&self, method: &str, path: &str) -> (u16, String) {
        let made = path
            .replace("{conversation}", &self.conversation)
            .replace("{seq}", &self.seq.to_string())
            .replace("{token}", &self.token)
            .replace("{user}", &self.other)
            .replace("{emoji}", "%F0%9F%91%8D");
        let made = if method == "delete" && path.ends_with("/{seq}") { format!("{made}?for=me") } else { made };
        let body = match (method, path) {
            ("post", "/v1/messages") => Some(json!({"to": self.other, "client_id": "m", "text": "hello"})),
            ("post", path) if path.ends_with("/messages") => Some(json!({"client_id": "m", "text": "hello"})),
            ("post", path) if path.ends_with("/read") || path.ends_with("/delivered") => Some(json!({"up_to": self.seq})),
            ("post", path) if path.ends_with("/tokens") => Some(json!(TokenBody::default())),
            ("patch", path) if path.ends_with("/{seq}") => Some(json!({"text": "edited"})),
            ("patch" | "put", path) if path.ends_with("/me") || path.starts_with("/v1/users") => Some(json!(UserBody::default())),
            _ => None,
        };
        match self.client.status(method.to_uppercase().parse().unwrap(), &made, body.as_ref()).await {
            Ok(status) => (status, String::new()),
            Err(Error::Problem(problem)) => (problem.status, format!("{problem:?}")),
            Err(error) => panic!("{method} {made}: {error}"),
        }
    }
}

fn key(server: &Server, scope: &str) -> Client {
    let made = server.run(&["key", "new", "--scope", scope]);
    server.client(String::from_utf8(made.stdout).unwrap().trim())
}

fn signed(server: &Server, user: &str, ttl_s: i64, scope: Option<&str>) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let mut claims = json!({"sub": user, "aud": "dunlin", "iat": now - 200, "exp": now + ttl_s});
    if let Some(scope) = scope {
        claims["scope"] = scope.into();
    }
    let secret = std::fs::read_to_string(server.data().join("token.secret")).unwrap();
    encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(secret.trim().as_bytes())).unwrap()
}
