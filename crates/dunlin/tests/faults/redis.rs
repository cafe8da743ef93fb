//! Redis: what is in it may be gone at any time.

use std::time::Duration;

use crate::{
    engines,
    row::{Meanwhile, Row},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "cargo xtask faults"]
async fn redis_gone_and_back_empty_loses_nothing() {
    let row = Row {
        name: "redis-gone",
        what: "all of Redis killed, and back empty",
        lasting: Duration::from_secs(if engines::are_several() { 15 } else { 10 }),
        meanwhile: Meanwhile::Everything,
    };
    row.run(async |_, _| drop(engines::kill(&["redis"]).await), async |_, _| engines::start(&["redis"]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "wants engines of which one can be lost: cargo xtask faults"]
async fn a_killed_master_loses_nothing() {
    let row = Row {
        name: "redis-master-killed",
        what: "kill -9 of a Redis master",
        lasting: Duration::from_secs(20),
        meanwhile: Meanwhile::Everything,
    };
    let fail = async |_: &mut _, notes: &mut crate::row::Notes| notes.0.extend(engines::kill(&["redis-master"]).await);
    row.run(fail, async |_, _| engines::start(&["redis"]).await).await;
}
