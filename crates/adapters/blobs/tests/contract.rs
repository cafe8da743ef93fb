//! The promises of a store of blobs, kept by a real S3 server.

mod support;

use dunlin_blobs::Blobs;

dunlin_contract::blob_store!(Box::new(Blobs::open(&support::options()).await.expect("open the bucket")));
