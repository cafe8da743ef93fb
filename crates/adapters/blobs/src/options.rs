//! Where the bucket is and how to enter it.

use std::{fmt, time::Duration};

use object_store::path::Path;

#[derive(Clone)]
pub struct Options {
    /// `https://host:port`; the bucket follows as the first part of the path.
    pub endpoint: String,
    pub bucket: String,
    /// What requests are signed for.
    pub region: String,
    /// Folders in front of every key, such as `dunlin/blobs`, so that others can share the bucket. Empty: none.
    pub prefix: String,
    pub access_key_id: String,
    pub secret: String,
    /// Whether the endpoint may be `http://`.
    pub allow_http: bool,
    /// How long it may take until a connection stands.
    pub connect_timeout: Duration,
    /// How long it may take until a request was sent, with a whole part, and its answer begins.
    pub answer_timeout: Duration,
    /// How long an answer may pause.
    pub silence_max: Duration,
    /// How often a request is made again after a failure that may pass.
    pub retries_max: usize,
    /// After this nothing is made again.
    pub retry_for: Duration,
}

/// Never tells the secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidOptions {
    #[error("s3.endpoint must be a URL such as https://s3.example.org, without user, path and query")]
    Endpoint,
    #[error("s3.endpoint is not https: for development, s3.allow_http allows it")]
    NotHttps,
    #[error("s3.bucket must have 3 to 63 characters of a-z 0-9 . - and begin and end with a letter or a digit")]
    Bucket,
    #[error("s3.region must not be empty")]
    Region,
    #[error("s3.prefix must be folders of A-Z a-z 0-9 . _ - with / between them, at most 512 characters, or empty")]
    Prefix,
    #[error("s3.access_key_id must not be empty")]
    AccessKeyId,
    #[error("the secret of S3 must not be empty")]
    Secret,
}

impl Options {
    pub fn new(endpoint: impl Into<String>, bucket: impl Into<String>) -> Options {
        Options {
            endpoint: endpoint.into(),
            bucket: bucket.into(),
            region: "us-east-1".to_owned(),
            prefix: String::new(),
            access_key_id: String::new(),
            secret: String::new(),
            allow_http: false,
            connect_timeout: Duration::from_secs(3),
            answer_timeout: Duration::from_secs(30),
            silence_max: Duration::from_secs(10),
            retries_max: 3,
            retry_for: Duration::from_secs(20),
        }
    }

    /// Whether the options can be right, without asking anyone. The secret may still be missing.
    pub fn check(&self) -> Result<(), InvalidOptions> {
        let (scheme, host) = self.endpoint.split_once("://").ok_or(InvalidOptions::Endpoint)?;
        let is_host = !host.is_empty() && host.parse::<http::uri::Authority>().is_ok() && !host.contains('@');
        match scheme {
            "https" if is_host => {}
            "http" if is_host && self.allow_http => {}
            "http" if is_host => return Err(InvalidOptions::NotHttps),
            _ => return Err(InvalidOptions::Endpoint),
        }
        if !is_bucket(&self.bucket) {
            return Err(InvalidOptions::Bucket);
        }
        if self.region.is_empty() {
            return Err(InvalidOptions::Region);
        }
        if self.access_key_id.is_empty() {
            return Err(InvalidOptions::AccessKeyId);
        }
        self.folder().map(drop)
    }

    /// What every key lies in.
    pub(crate) fn folder(&self) -> Result<Path, InvalidOptions> {
        const CHARS_MAX: usize = 512;
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_folder = |part: &str| !part.is_empty() && !part.bytes().all(|byte| byte == b'.') && part.bytes().all(is_part);
        let is_right = self.prefix.len() <= CHARS_MAX && (self.prefix.is_empty() || self.prefix.split('/').all(is_folder));
        Path::parse(&self.prefix).ok().filter(|_| is_right).ok_or(InvalidOptions::Prefix)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { endpoint, bucket, prefix, .. } = self;
        f.debug_struct("Options").field("endpoint", endpoint).field("bucket", bucket).field("prefix", prefix).finish_non_exhaustive()
    }
}

fn is_bucket(name: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && bytes.first().is_some_and(is_end)
        && bytes.last().is_some_and(is_end)
        && bytes.iter().all(|byte| is_end(byte) || b".-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right() -> Options {
        Options { access_key_id: "id".to_owned(), ..Options::new("https://s3.example.org", "dunlin") }
    }

    #[test]
    fn an_endpoint_is_a_scheme_and_a_host() {
        let check = |endpoint: &str, allow_http| Options { endpoint: endpoint.to_owned(), allow_http, ..right() }.check();
        for endpoint in ["https://s3.example.org", "https://s3.example.org:9000", "https://[::1]:9000"] {
            assert_eq!(check(endpoint, false), Ok(()), "{endpoint}");
        }
        for endpoint in ["", "s3.example.org", "ftp://s3", "https://", "https://a/b", "https://a?b", "https://user:secret@a", "https://a b"]
        {
            assert_eq!(check(endpoint, true), Err(InvalidOptions::Endpoint), "{endpoint}");
        }
        assert_eq!(check("http://127.0.0.1:7070", false), Err(InvalidOptions::NotHttps));
        assert_eq!(check("http://127.0.0.1:7070", true), Ok(()));
    }

    #[test]
    fn names_that_can_not_be_are_refused() {
        for bucket in ["", "ab", "Dunlin", "a/b", "-ab", "ab.", &"a".repeat(64)] {
            assert_eq!(Options { bucket: bucket.to_owned(), ..right() }.check(), Err(InvalidOptions::Bucket), "{bucket}");
        }
        for prefix in ["/", "a/", "/a", "a//b", "..", "a/./b", "a b", &"a".repeat(513)] {
            assert_eq!(Options { prefix: prefix.to_owned(), ..right() }.check(), Err(InvalidOptions::Prefix), "{prefix}");
        }
        assert_eq!(Options { prefix: "dunlin/Blobs-1".to_owned(), ..right() }.check(), Ok(()));
        assert_eq!(Options { region: String::new(), ..right() }.check(), Err(InvalidOptions::Region));
        assert_eq!(Options { access_key_id: String::new(), ..right() }.check(), Err(InvalidOptions::AccessKeyId));
    }

    #[test]
    fn the_secret_is_never_shown() {
        let options = Options { secret: "swordfish".to_owned(), ..right() };
        assert!(!format!("{options:?}").contains("swordfish"));
    }
}
