//! A look at the bucket before a node relies on it: whether it is there, takes blobs, and keeps what it has. It leaves nothing behind.

use dunlin_ports::StoreError;
use object_store::{Error, ObjectStore as _, ObjectStoreExt as _, PutMode, PutPayload, aws::AmazonS3, path::Path};

use crate::{InvalidOptions, Options, error, upload::Unfinished};

/// Why a node that is told to use this bucket does not start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Options(#[from] InvalidOptions),
    #[error("this system's certificates can't be used: {0}")]
    Tls(String),
    #[error("there is no bucket {bucket} at {endpoint}: make it, or mend s3.bucket")]
    NoBucket { bucket: String, endpoint: String },
    #[error("S3 at {endpoint} does not let us in: {why}; look at s3.access_key_id and s3.secret_file, and at what the key may do")]
    NotLetIn { endpoint: String, why: String },
    #[error("S3 at {endpoint} overwrites what is there though it is told not to (If-None-Match, {what}): blobs would not be safe there")]
    Overwrites { endpoint: String, what: &'static str },
    #[error(
        "the key of S3 at {endpoint} must be allowed to list bucket {bucket} (s3:ListBucket): without it, no blob is ever known to be absent"
    )]
    NotListed { endpoint: String, bucket: String },
    #[error("S3 at {endpoint} can't be used: {why}")]
    Other { endpoint: String, why: String },
}

pub async fn check(s3: &AmazonS3, folder: &Path, options: &Options) -> Result<(), StartError> {
    let random = getrandom::u64().map_err(|error| StartError::Other { endpoint: options.endpoint.clone(), why: error.to_string() })?;
    // No blob is called so: keys have no hyphens.
    let path = folder.clone().join(format!("probe-{random:016x}"));
    let failed = |error: Error| start_error(options, &error);
    create(s3, &path).await.map_err(failed)?;
    let kept = is_kept(s3, &path, options).await;
    s3.delete(&path).await.map_err(failed)?;
    kept?;
    match s3.head(&path).await {
        Err(Error::NotFound { .. }) => Ok(()),
        Err(Error::PermissionDenied { .. }) => {
            Err(StartError::NotListed { endpoint: options.endpoint.clone(), bucket: options.bucket.clone() })
        }
        Err(error) => Err(failed(error)),
        Ok(_) => Err(StartError::Other { endpoint: options.endpoint.clone(), why: "what was deleted is still there".to_owned() }),
    }
}

async fn create(s3: &AmazonS3, path: &Path) -> object_store::Result<()> {
    s3.put_opts(path, PutPayload::from_static(b"dunlin"), PutMode::Create.into()).await.map(drop)
}

/// Whether neither way of writing replaces what is there.
async fn is_kept(s3: &AmazonS3, path: &Path, options: &Options) -> Result<(), StartError> {
    refused(create(s3, path).await, "PutObject", options)?;
    let other = |error: StoreError| StartError::Other { endpoint: options.endpoint.clone(), why: error.to_string() };
    let mut upload = Unfinished::begin(s3, path).await.map_err(other)?;
    upload.add("other".into()).await.map_err(other)?;
    refused(upload.complete().await, "CompleteMultipartUpload", options)
}

fn refused(written: object_store::Result<()>, what: &'static str, options: &Options) -> Result<(), StartError> {
    match written {
        Ok(()) => Err(StartError::Overwrites { endpoint: options.endpoint.clone(), what }),
        Err(error) if error::is_taken(&error) => Ok(()),
        Err(error) => Err(start_error(options, &error)),
    }
}

fn start_error(options: &Options, error: &Error) -> StartError {
    let (endpoint, why) = (options.endpoint.clone(), error::reason(error));
    match (error::code(error).as_deref(), error) {
        (Some("NoSuchBucket"), _) => StartError::NoBucket { bucket: options.bucket.clone(), endpoint },
        (_, Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) => StartError::NotLetIn { endpoint, why },
        _ => StartError::Other { endpoint, why },
    }
}
