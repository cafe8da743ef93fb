//! What the server says about itself.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{repeating::curl, server::Server};

#[test]
fn the_document_lists_what_is_served_and_says_how_to_call_it() {
    let server = Server::shared();
    let (status, _, text) = curl(&server, "/openapi.json", &[]);
    assert_eq!(status, 200);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{method} {path} has a name of its own");
            assert!(operation["summary"].is_string(), "{method} {path} says what it does");
            assert!(operation["responses"]["default"].is_object(), "{method} {path} may answer with a problem");
        }
    }
    assert!(ids.len() > 25 && !ids.contains("dev_token"), "{ids:?}");
}

#[test]
fn the_page_for_people_lists_every_code() {
    let server = Server::shared();
    let (status, head, page) = curl(&server, "/docs", &[]);
    assert!(status == 200 && head.contains("text/html") && head.contains("content-security-policy"));
    for code in dunlin_client::protocol::Code::ALL {
        assert!(page.contains(&format!("id=\"{}\"", code.as_str())), "{}", code.as_str());
    }
}

#[test]
fn metrics_need_a_key_unless_they_are_open() {
    let server = Server::start();
    assert_eq!(curl(&server, "/metrics", &[]).0, 401);
    assert_eq!(curl(&server, "/metrics", &["-H", &server.authorization("ann")]).0, 403);
    let (status, _, text) = curl(&server, "/metrics", &["-H", &format!("Authorization: Bearer {}", server.key)]);
    assert!(status == 200 && text.contains("dunlin_troubles") && text.trim_end().ends_with("# EOF"), "{text}");
    assert!(text.contains("dunlin_http_requests_total{method=\"GET\",route=\"/metrics\",status=\"401\"} 1"), "{text}");
    let open = Server::with(&[], &[("DUNLIN_SERVER_METRICS_OPEN", "true")]);
    assert_eq!(curl(&open, "/metrics", &[]).0, 200);
}

#[test]
fn web_pages_may_call_if_the_configuration_says_so() {
    let preflight = ["-X", "OPTIONS", "-H", "Origin: https://shop.example", "-H", "Access-Control-Request-Method: POST"];
    let closed = Server::shared();
    let (_, head, _) = curl(&closed, "/v1/messages", &preflight);
    assert!(!head.contains("access-control-allow-origin"));
    let open = Server::with(&[], &[("DUNLIN_SERVER_CORS_ORIGINS", "https://shop.example")]);
    let (status, head, _) = curl(&open, "/v1/messages", &preflight);
    assert!(status == 200 && head.contains("access-control-allow-origin: https://shop.example"), "{head}");
    let (_, head, _) =
        curl(&open, "/v1/messages", &["-X", "OPTIONS", "-H", "Origin: https://other.example", "-H", "Access-Control-Request-Method: POST"]);
    assert!(!head.contains("access-control-allow-origin: https://other"));
}

#[test]
fn a_request_id_of_the_callers_own_comes_back() {
    let server = Server::shared();
    assert!(curl(&server, "/healthz", &["-H", "X-Request-Id: my-id.1"]).1.contains("x-request-id: my-id.1"));
    assert!(!curl(&server, "/healthz", &["-H", "X-Request-Id: not ; mine"]).1.contains("not ; mine"));
}
