//! The directory's promises, kept by a real PostgreSQL: on two databases, with half of the shards each.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod support;

use std::sync::{Arc, LazyLock};

use dunlin_postgres::{Directory, schema};
use tokio::runtime::Runtime;

dunlin_contract::directory!(directory().await);

/// One for all cases: making tables takes seconds. It lives on a runtime of its own, which outlives each case's.
static DIRECTORY: LazyLock<(Runtime, Arc<Directory>)> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let directory = std::thread::scope(|scope| {
        let open = || {
            runtime.block_on(async {
                let options = support::options(&[("a", "0-31"), ("b", "32-63")]).await;
                schema::apply(&options).await.expect("apply the schema");
                Directory::open(&options).await.expect("open the directory")
            })
        };
        scope.spawn(open).join().unwrap()
    });
    (runtime, Arc::new(directory))
});

async fn directory() -> Arc<Directory> {
    Arc::clone(&DIRECTORY.1)
}
