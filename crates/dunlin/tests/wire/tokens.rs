//! Whose tokens are good.

use data_encoding::BASE64URL_NOPAD;
use dunlin_client::protocol::TokenBody;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use serde_json::{Value, json};

use crate::{people::code, server::Server};

fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

fn claims() -> Value {
    json!({"sub": "ann", "aud": "dunlin", "iat": now_s(), "exp": now_s() + 60})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

fn signed(server: &Server, header: &Header, claims: &Value) -> String {
    let secret = std::fs::read_to_string(server.data().join("token.secret")).unwrap();
    encode(header, claims, &EncodingKey::from_secret(secret.trim().as_bytes())).unwrap()
}

#[tokio::test]
async fn tokens_that_are_not_right_are_refused_and_the_reason_has_a_code() {
    let server = Server::shared();
    let hs256 = Header::new(Algorithm::HS256);
    let token = |claims: Value| signed(&server, &hs256, &claims);
    assert!(server.client(&token(claims())).me().await.is_ok());
    assert!(server.client(&token(with("aud", json!(["other", "dunlin"])))).me().await.is_ok());
    let forged = encode(&hs256, &claims(), &EncodingKey::from_secret(&[7; 64])).unwrap();
    let other_alg = signed(&server, &Header::new(Algorithm::HS512), &claims());
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let unsigned = format!("{}.{}.", part(&json!({"alg": "none", "typ": "JWT"})), part(&claims()));
    let cut = token(claims()).rsplit_once('.').unwrap().0.to_owned();
    for (what, expected, token) in [
        ("expired", "token_expired", token(with("exp", json!(now_s() - 100)))),
        ("another audience", "invalid_token", token(with("aud", json!("elsewhere")))),
        ("no audience", "invalid_token", token(with("aud", Value::Null))),
        ("no subject", "invalid_token", token(with("sub", Value::Null))),
        ("no expiry", "invalid_token", token(with("exp", Value::Null))),
        ("no time of issue", "invalid_token", token(with("iat", Value::Null))),
        ("from the future", "invalid_token", token(with("iat", json!(now_s() + 1000)))),
        ("not yet good", "invalid_token", token(with("nbf", json!(now_s() + 1000)))),
        ("no user id", "invalid_token", token(with("sub", json!("not a user")))),
        ("scope of nothing", "scope_missing", token(with("scope", json!("admin")))),
        ("another secret", "invalid_token", forged),
        ("another algorithm", "invalid_token", other_alg),
        ("no algorithm", "invalid_token", unsigned),
        ("no signature", "invalid_token", cut),
        ("nonsense", "invalid_token", "a.b.c".to_owned()),
        ("too long", "invalid_token", "a".repeat(20_000)),
        ("a made up key", "invalid_token", "dk_abc_def".to_owned()),
    ] {
        assert_eq!(code(server.client(&token).me().await), expected, "{what}");
    }
}

#[tokio::test]
async fn a_token_for_reading_does_not_write() {
    let server = Server::shared();
    let bea = server.someone("bea").await;
    let token = signed(&server, &Header::new(Algorithm::HS256), &with("scope", json!("read")));
    let reader = server.client(&token);
    assert!(reader.inbox().get().await.is_ok());
    assert_eq!(code(reader.send(&bea.id, "1", "hello").await), "scope_missing");
    let token = signed(&server, &Header::new(Algorithm::HS256), &with("scope", json!("read write")));
    assert!(server.client(&token).send(&bea.id, "1", "hello").await.is_ok());
}

#[tokio::test]
async fn revoked_tokens_are_refused_and_later_ones_are_good() {
    let server = Server::shared();
    let host = server.host();
    let ann = server.someone("ann").await;
    assert!(ann.client.me().await.is_ok());
    host.revoke_tokens(&ann.id).await.unwrap();
    assert_eq!(code(ann.client.me().await), "token_revoked");
    let later = host.mint_token(&ann.id, &TokenBody { ttl_s: Some(60) }).await.unwrap().token;
    assert!(server.client(&later).me().await.is_ok());
}

#[tokio::test]
async fn server_keys_are_made_listed_and_revoked_while_the_server_runs() {
    let server = Server::shared();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let key = text(server.run(&["key", "new", "--name", "the shop", "--scope", "users"]).stdout);
    let key = key.trim();
    let shop = server.client(key);
    assert!(shop.put_user("ann", &Default::default()).await.is_ok());
    assert_eq!(code(shop.acting_for("ann").me().await), "scope_missing");
    let id = key.split('_').nth(1).unwrap();
    let list = text(server.run(&["key", "list"]).stdout);
    assert!(list.contains(id) && list.contains("the shop") && !list.contains(key.rsplit('_').next().unwrap()), "{list}");
    assert!(server.run(&["key", "revoke", id]).status.success());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while shop.user("ann").await.is_ok() {
        assert!(std::time::Instant::now() < until, "a revoked key stays good");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(code(shop.user("ann").await), "invalid_token");
    assert!(text(server.run(&["key", "list"]).stdout).contains("revoked"));
    assert!(!server.run(&["key", "revoke", "nosuchkey"]).status.success());
}

/// A pair of keys that are only for these tests.
fn pairs() -> [(Algorithm, &'static str, EncodingKey); 3] {
    [
        (Algorithm::RS256, "rsa", EncodingKey::from_rsa_der(include_bytes!("keys/rsa.der"))),
        (Algorithm::ES256, "ec", EncodingKey::from_ec_der(include_bytes!("keys/ec.der"))),
        (Algorithm::EdDSA, "ed", EncodingKey::from_ed_der(include_bytes!("keys/ed.der"))),
    ]
}

fn jwks(pairs: &[(Algorithm, &str, EncodingKey)]) -> String {
    let keys = pairs.iter().map(|(alg, kid, key)| {
        let mut jwk = Jwk::from_encoding_key(key, *alg).unwrap();
        jwk.common.key_id = Some((*kid).to_owned());
        jwk
    });
    json!({"keys": keys.collect::<Vec<_>>()}).to_string()
}

fn of_key(alg: Algorithm, kid: &str, key: &EncodingKey) -> String {
    encode(&Header { kid: Some(kid.to_owned()), ..Header::new(alg) }, &claims(), key).unwrap()
}

#[tokio::test]
async fn keys_of_a_jwks_file_are_good_each_for_its_algorithm() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("jwks.json");
    std::fs::write(&file, jwks(&pairs())).unwrap();
    let server = Server::with(&[], &[("DUNLIN_AUTH_JWKS", file.to_str().unwrap())]);
    for (alg, kid, key) in pairs() {
        assert_eq!(server.client(&of_key(alg, kid, &key)).me().await.unwrap().id, "ann", "{alg:?}");
    }
    let [(_, _, rsa), (ec_alg, _, ec), _] = pairs();
    assert_eq!(code(server.client(&of_key(ec_alg, "rsa", &ec)).me().await), "invalid_token", "a key of another algorithm");
    assert_eq!(code(server.client(&of_key(Algorithm::RS512, "rsa", &rsa)).me().await), "invalid_token", "another algorithm of the key");
    assert_eq!(code(server.client(&of_key(ec_alg, "unknown", &ec)).me().await), "invalid_token");
    // The public key as a shared secret: the old trick.
    let public = std::fs::read(&file).unwrap();
    let trick = encode(&Header { kid: Some("rsa".into()), ..Header::new(Algorithm::HS256) }, &claims(), &EncodingKey::from_secret(&public))
        .unwrap();
    assert_eq!(code(server.client(&trick).me().await), "invalid_token");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_a_jwks_url_are_fetched_and_rotate() {
    use std::sync::{Arc, Mutex};
    let document = Arc::new(Mutex::new(jwks(&pairs()[..1])));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
    let shown = Arc::clone(&document);
    let route = axum::routing::get(move || {
        let document = shown.lock().unwrap().clone();
        async move { document }
    });
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().route("/jwks.json", route)).await });
    let server = Server::with(&[], &[("DUNLIN_AUTH_JWKS", &url), ("DUNLIN_AUTH_HS256", "false"), ("DUNLIN_AUTH_JWKS_REFRESH_S", "1")]);
    let [(rs, rsa_id, rsa), (es, ec_id, ec), _] = pairs();
    let old = server.client(&of_key(rs, rsa_id, &rsa));
    assert!(old.me().await.is_ok());
    assert_eq!(code(server.host().mint_token("ann", &TokenBody::default()).await), "tokens_not_minted");
    assert_eq!(code(server.client(&of_key(es, ec_id, &ec)).me().await), "invalid_token");
    *document.lock().unwrap() = jwks(&pairs()[1..2]);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while server.client(&of_key(es, ec_id, &ec)).me().await.is_err() {
        assert!(std::time::Instant::now() < until, "the new key is never taken");
        // So that the old token was verified a moment ago when its key goes.
        let _ = old.me().await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(code(old.me().await), "invalid_token", "the old key is gone, also for a token that was good a moment ago");
    "not json".clone_into(&mut document.lock().unwrap());
    while server.host().call::<(), Value>("GET".parse().unwrap(), "/readyz", None::<&()>).await.unwrap()["status"] != "degraded" {
        assert!(std::time::Instant::now() < until, "readyz never says that the keys can't be read");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(server.client(&of_key(es, ec_id, &ec)).me().await.is_ok(), "what is known stays good");
}
