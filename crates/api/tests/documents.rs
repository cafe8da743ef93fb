//! Documents that are made from the code are current. `DUNLIN_BLESS=1 cargo test -p dunlin-api` writes them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{env, fs, path::Path};

use dunlin_protocol::Code;

#[test]
fn the_list_of_codes_is_current() {
    let mut text = String::from(
        "# Error codes\n\nMade from the code; `DUNLIN_BLESS=1 cargo test -p dunlin-api` writes it anew.\n\n\
         Errors are answers of the type `application/problem+json` ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)). `code` is\n\
         stable: programs go by it. `detail` is for people and may change. `retryable` says whether the same request may succeed\n\
         later; 429 and 503 carry `Retry-After`.\n\n| code | status | meaning | retryable |\n|---|---|---|---|\n",
    );
    for code in Code::ALL {
        let retryable = if code.is_retryable() { "yes" } else { "no" };
        text += &format!("| `{}` | {} | {} | {retryable} |\n", code.as_str(), code.status(), code.title());
    }
    current("../../docs/api/errors.md", &text);
}

fn current(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if env::var_os("DUNLIN_BLESS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{} is not current: DUNLIN_BLESS=1 cargo test -p dunlin-api", path.display());
}
