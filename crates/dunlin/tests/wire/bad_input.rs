//! What can't be right: a clear problem with a stable code, never a 5xx, and nothing half written.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use crate::{repeating::curl, server::Server};

struct Case<'a> {
    what: &'a str,
    method: &'a str,
    path: String,
    body: Option<String>,
    status: u16,
    code: &'a str,
}

#[tokio::test]
async fn wrong_requests_are_told_what_is_wrong() {
    let server = Server::shared();
    let (ann, bea) = server.two().await;
    let sent = ann.sends(&bea, "hello").await;
    let (c, seq) = (sent.conversation.clone(), sent.seq.unwrap());
    let authorization = server.authorization(&ann.id);
    let send = |what, body: &str, status, code| Case {
        what,
        method: "POST",
        path: "/v1/messages".into(),
        body: Some(body.replace("\"bea\"", &format!("\"{}\"", bea.id))),
        status,
        code,
    };
    let get = |what, path: &str, status, code| Case { what, method: "GET", path: path.to_owned(), body: None, status, code };
    let post =
        |what, path: String, body: &str, status, code| Case { what, method: "POST", path, body: Some(body.to_owned()), status, code };
    let history = format!("/v1/conversations/{c}/messages");
    let long = "x".repeat(65_537);
    let many: Vec<String> = (0..40).map(|number| format!("\"k{number}\": \"v\"")).collect();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases = [
        send("no JSON", "{\"to\": ", 400, "malformed_json"),
        send("two values", "{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"x\"} {}", 400, "malformed_json"),
        send("no object", "[]", 422, "invalid_field"),
        send("far too deep", &deep, 422, "invalid_field"),
        send("nothing", "{}", 422, "invalid_field"),
        send("a wrong type", "{\"to\": 7, \"client_id\": \"1\", \"text\": \"x\"}", 422, "invalid_field"),
        send("an unknown field", "{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"x\", \"txt\": 1}", 422, "invalid_field"),
        send("a field twice", "{\"to\": \"bea\", \"to\": \"bea\", \"client_id\": \"1\", \"text\": \"x\"}", 422, "invalid_field"),
        send("no client_id", "{\"to\": \"bea\", \"text\": \"x\"}", 422, "invalid_field"),
        send("an empty client_id", "{\"to\": \"bea\", \"client_id\": \"\", \"text\": \"x\"}", 422, "invalid_field"),
        send(
            "a long client_id",
            &format!("{{\"to\": \"bea\", \"client_id\": \"{}\", \"text\": \"x\"}}", "x".repeat(65)),
            422,
            "invalid_field",
        ),
        send("a control character", "{\"to\": \"bea\", \"client_id\": \"a\\u0000b\", \"text\": \"x\"}", 422, "invalid_field"),
        send("no content", "{\"to\": \"bea\", \"client_id\": \"1\"}", 422, "invalid_field"),
        send("an empty text", "{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"\"}", 422, "invalid_field"),
        send("a long text", &format!("{{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"{long}\"}}"), 422, "invalid_field"),
        send("half a surrogate", "{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"\\ud800\"}", 400, "malformed_json"),
        send(
            "two contents",
            "{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"x\", \"opaque\": {\"content_type\": \"a/b\", \"data\": \"AA==\"}}",
            422,
            "invalid_field",
        ),
        send("a list for an object", "{\"to\": \"bea\", \"client_id\": \"1\", \"opaque\": [\"a/b\", \"AA==\"]}", 422, "invalid_field"),
        send("a list of values", "[\"bea\", \"1\", \"hello\", null, null, null, null]", 422, "invalid_field"),
        send(
            "no base64",
            "{\"to\": \"bea\", \"client_id\": \"1\", \"opaque\": {\"content_type\": \"a/b\", \"data\": \"?\"}}",
            422,
            "invalid_field",
        ),
        send(
            "a wrong type of message",
            "{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"x\", \"type\": \"Text\"}",
            422,
            "invalid_field",
        ),
        send("a reserved type", "{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"x\", \"type\": \"robot\"}", 422, "invalid_field"),
        send(
            "much metadata",
            &format!("{{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"x\", \"metadata\": {{{}}}}}", many.join(",")),
            422,
            "invalid_field",
        ),
        send(
            "nested metadata",
            "{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"x\", \"metadata\": {\"a\": {}}}",
            422,
            "invalid_field",
        ),
        send("no user id", "{\"to\": \"b e a\", \"client_id\": \"1\", \"text\": \"x\"}", 422, "invalid_field"),
        send("nobody", "{\"to\": \"nobody\", \"client_id\": \"1\", \"text\": \"x\"}", 404, "user_not_found"),
        send(
            "a reply to nothing",
            &format!("{{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"x\", \"reply_to\": {}}}", seq + 5),
            404,
            "message_not_found",
        ),
        send("a reply to no number", "{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"x\", \"reply_to\": -1}", 422, "invalid_field"),
        send(
            "a reply beyond numbers",
            "{\"to\": \"bea\", \"client_id\": \"1\", \"text\": \"x\", \"reply_to\": 9007199254740992}",
            422,
            "invalid_field",
        ),
        post("a mark beyond the head", format!("/v1/conversations/{c}/read"), &format!("{{\"up_to\": {}}}", seq + 100), 422, "beyond_head"),
        post("a mark before everything", format!("/v1/conversations/{c}/read"), "{\"up_to\": 0}", 404, "message_not_found"),
        post("a mark of nothing", format!("/v1/conversations/{c}/delivered"), "{}", 422, "invalid_field"),
        get("no conversation", "/v1/conversations/nonsense", 404, "conversation_not_found"),
        get("an unknown conversation", "/v1/conversations/daaaaaaaaaaaaaaaaaaaaaaaaaa", 404, "conversation_not_found"),
        get("no seq", &format!("{history}/x"), 404, "message_not_found"),
        get("an unknown message", &format!("{history}/7"), 404, "message_not_found"),
        get("no limit", &format!("{history}?limit=0"), 422, "invalid_field"),
        get("a large limit", &format!("{history}?limit=201"), 422, "invalid_field"),
        get("a limit that is none", &format!("{history}?limit=many"), 400, "malformed_request"),
        get("an unknown parameter", &format!("{history}?page=2"), 400, "malformed_request"),
        get("a parameter where there is none", "/v1/me?page=2", 400, "malformed_request"),
        get("two ways at once", &format!("{history}?before=5&after=3"), 400, "malformed_request"),
        get("half a range", &format!("{history}?from_n=5"), 400, "malformed_request"),
        get("a range backwards", &format!("{history}?from_n=5&to_n=4"), 422, "invalid_field"),
        get("a seq with a sign", &format!("{history}/+{seq}"), 404, "message_not_found"),
        get("no time", &format!("{history}?before_time=yesterday"), 400, "malformed_request"),
        get("a cursor of nothing", &format!("{history}?cursor=abc"), 400, "invalid_cursor"),
        get("a cursor that is no text", "/v1/conversations?cursor=%FF", 400, "invalid_cursor"),
        get("a visibility of the dead", "/v1/conversations?visibility=deleted", 422, "invalid_field"),
        get("no token", "/v1/sends/nonsense", 400, "invalid_cursor"),
        get("a path that is no text", "/v1/users/%FF", 400, "malformed_request"),
        get("no user", "/v1/users/nobody", 404, "user_not_found"),
        get("a path too many", "/v1/nothing", 404, "not_found"),
        get("nothing", "/nothing", 404, "not_found"),
        Case {
            what: "a block of oneself",
            method: "PUT",
            path: format!("/v1/blocks/{}", ann.id),
            body: None,
            status: 422,
            code: "invalid_field",
        },
        Case {
            what: "a block of nobody",
            method: "PUT",
            path: "/v1/blocks/nobody".into(),
            body: None,
            status: 404,
            code: "user_not_found",
        },
        Case {
            what: "an opening with nobody",
            method: "PUT",
            path: "/v1/direct/nobody".into(),
            body: None,
            status: 404,
            code: "user_not_found",
        },
        Case {
            what: "a reaction of spaces",
            method: "PUT",
            path: format!("{history}/{seq}/reactions/%20"),
            body: None,
            status: 422,
            code: "invalid_field",
        },
        Case {
            what: "a deletion for nobody",
            method: "DELETE",
            path: format!("{history}/{seq}"),
            body: None,
            status: 400,
            code: "malformed_request",
        },
        Case {
            what: "a deletion for strangers",
            method: "DELETE",
            path: format!("{history}/{seq}?for=strangers"),
            body: None,
            status: 400,
            code: "malformed_request",
        },
        Case { what: "another method", method: "PUT", path: history.clone(), body: None, status: 405, code: "method_not_allowed" },
        Case {
            what: "a long name",
            method: "PATCH",
            path: "/v1/me".into(),
            body: Some(format!("{{\"display_name\": \"{}\"}}", "x".repeat(101))),
            status: 422,
            code: "invalid_field",
        },
    ];
    for Case { what, method, path, body, status, code } in &cases {
        let mut arguments = vec!["-X", method, "-H", &authorization];
        let file = tempfile::NamedTempFile::new().unwrap();
        let data = format!("@{}", file.path().display());
        if let Some(body) = body {
            std::fs::write(file.path(), body).unwrap();
            arguments.extend(["-H", "Content-Type: application/json", "--data-binary", &data]);
        }
        let (answered, head, answer) = curl(&server, path, &arguments);
        let problem: serde_json::Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{what}: {head}\n{answer}"));
        assert_eq!((answered, problem["code"].as_str()), (*status, Some(*code)), "{what}: {answer}");
        assert!(head.contains("content-type: application/problem+json"), "{what}: {head}");
        assert_eq!(problem["status"].as_u64(), Some(u64::from(*status)));
        assert!(head.contains(&format!("x-request-id: {}", problem["request_id"].as_str().unwrap())), "{what}: {head}");
    }
    let seen = bea.sees(&c).await;
    assert_eq!((seen.len(), seen[0].reactions.len(), bea.unread().await), (1, 0, 1), "nothing of it was done");
}

#[tokio::test]
async fn a_field_error_points_to_the_field() {
    let server = Server::shared();
    let authorization = server.authorization("ann");
    let body = "{\"to\": \"ann\", \"client_id\": \"1\", \"opaque\": {\"content_type\": 5, \"data\": \"\"}}";
    let (_, _, answer) = curl(&server, "/v1/messages", &["-H", &authorization, "-H", "Content-Type: application/json", "-d", body]);
    let problem: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(problem["errors"][0]["pointer"], "/opaque/content_type", "{answer}");
    let (_, _, answer) = curl(&server, "/v1/conversations?limit=many", &["-H", &authorization]);
    let problem: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(problem["errors"][0]["pointer"], "limit", "{answer}");
}

#[tokio::test]
async fn bodies_that_are_too_large_or_of_another_kind_are_refused() {
    let server = Server::shared();
    let authorization = server.authorization("ann");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![b' '; 600_000]).unwrap();
    let data = format!("@{}", file.path().display());
    let (status, _, answer) =
        curl(&server, "/v1/messages", &["-H", &authorization, "-H", "Content-Type: application/json", "--data-binary", &data]);
    assert!(status == 413 && answer.contains("body_too_large"), "{answer}");
    for kind in ["Content-Type: text/plain", "Content-Type:"] {
        let (status, _, answer) = curl(&server, "/v1/messages", &["-H", &authorization, "-H", kind, "-d", "{}"]);
        assert!(status == 415 && answer.contains("unsupported_media_type"), "{answer}");
    }
    let packed = ["-H", &authorization, "-H", "Content-Type: application/json", "-H", "Content-Encoding: gzip", "-d", "{}"];
    let (status, _, answer) = curl(&server, "/v1/messages", &packed);
    assert!(status == 415 && answer.contains("Content-Encoding"), "{answer}");
    std::fs::write(file.path(), b"{\"to\": \"ann\", \"client_id\": \"1\", \"text\": \"\xff\xfe\"}").unwrap();
    let (status, _, answer) =
        curl(&server, "/v1/messages", &["-H", &authorization, "-H", "Content-Type: application/json", "--data-binary", &data]);
    assert!(status == 400 || status == 422, "{answer}");
    assert!(answer.contains("\"code\""), "{answer}");
}

#[tokio::test]
async fn heads_that_are_too_large_or_broken_end_their_connection_only() {
    let server = Server::shared();
    let address = server.url.strip_prefix("http://").unwrap();
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    let large = format!("x: {}\r\n", "y".repeat(100_000));
    for head in [&*many, &*large, "no header\r\n", "x\0: y\r\n"] {
        let mut connection = TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // The server may hang up before all of it is sent.
        let _ = write!(connection, "GET /healthz HTTP/1.1\r\nhost: x\r\n{head}\r\n");
        let mut answer = Vec::new();
        let _ = connection.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert_eq!(curl(&server, "/healthz", &[]).0, 200);
}
