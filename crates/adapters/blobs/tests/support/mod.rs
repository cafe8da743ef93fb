//! The S3 server that tests ask for.

use std::env;

use dunlin_blobs::Options;

/// A corner of its own in the bucket that the environment names.
pub fn options() -> Options {
    let given =
        |name: &str| env::var(name).unwrap_or_else(|_| panic!("{name} is not set; `cargo xtask engines up --s3` starts an S3 server"));
    Options {
        access_key_id: given("DUNLIN_TEST_S3_ACCESS_KEY"),
        secret: given("DUNLIN_TEST_S3_SECRET_KEY"),
        prefix: format!("test/{:016x}", getrandom::u64().expect("the operating system has random bytes")),
        allow_http: true,
        ..Options::new(given("DUNLIN_TEST_S3"), given("DUNLIN_TEST_S3_BUCKET"))
    }
}
