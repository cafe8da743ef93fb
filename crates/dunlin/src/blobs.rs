//! Where blobs are kept. Nothing puts any yet; what is configured is right all the same.

use anyhow::{Context as _, Result};

use crate::{
    cluster::secret,
    config::{BlobsEngine, Config},
};

/// Whether S3, where it is configured, can be used. The data folder is seen to by the embedded engine.
pub async fn check(config: &Config) -> Result<()> {
    if config.engines.blobs == BlobsEngine::S3 {
        let secret = secret("s3.secret_file", &config.s3.secret_file)?.unwrap_or_default();
        dunlin_blobs::Blobs::open(&dunlin_blobs::Options { secret, ..config.s3_options() }).await.context("blobs")?;
    }
    Ok(())
}
