//! What the driver's errors mean to a caller. Mapped here and nowhere else.

use dunlin_ports::StoreError;
use object_store::{Error, client::HttpError};

/// Of a read, or of a write that nobody sees yet: nothing was done.
pub fn unavailable(error: &Error) -> StoreError {
    StoreError::Unavailable(reason(error))
}

/// Of a write that may have been done before it failed.
pub fn doubtful(error: &Error) -> StoreError {
    if was_refused(error) { unavailable(error) } else { StoreError::Unknown(reason(error)) }
}

/// Whether the server itself said that it does no such thing: because of who asks, or because the bucket is not there. An upload that is not
/// there may be one that was just completed.
fn was_refused(error: &Error) -> bool {
    match error {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => true,
        Error::NotFound { .. } => code(error).as_deref() != Some("NoSuchUpload"),
        _ => false,
    }
}

/// Whether something is there already, or just coming or going.
pub fn is_taken(error: &Error) -> bool {
    matches!(error, Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. })
}

/// Whether the server said that there is no such blob. A bucket that has gone says nothing about its blobs, nor does a key that is not known
/// any more, which to some servers is a 404 too. An answer to HEAD does not tell them apart: it has no body.
pub fn is_absent(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. }) && code(error).is_none_or(|code| code == "NoSuchKey")
}

/// What the server calls it.
pub fn code(error: &Error) -> Option<String> {
    tagged(&error.to_string(), "Code").map(str::to_owned)
}

/// What the server said, or what broke on the way; without what the driver says of its attempts. Neither holds a secret: signatures travel
/// in a header.
pub fn reason(error: &Error) -> String {
    let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    if let Some(broken) = causes.find_map(|cause| cause.downcast_ref::<HttpError>()) {
        return format!("S3: {broken}");
    }
    let words = error.to_string();
    match (tagged(&words, "Code"), tagged(&words, "Message")) {
        (Some(code), Some(message)) => format!("S3: {code}: {message}"),
        (Some(code), None) => format!("S3: {code}"),
        _ => format!("S3: {words}"),
    }
}

/// The text of an element in the XML that errors come with.
fn tagged<'a>(words: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = words.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(words: &str) -> Error {
        Error::Generic { store: "S3", source: words.into() }
    }

    #[test]
    fn a_reason_is_what_the_server_said() {
        let told = "status 403: <?xml?><Error><Code>SignatureDoesNotMatch</Code><Message>They differ.</Message><Key>k</Key></Error>";
        assert_eq!(reason(&error(told)), "S3: SignatureDoesNotMatch: They differ.");
        assert_eq!(reason(&error("<Code>SlowDown</Code>")), "S3: SlowDown");
        assert!(reason(&error("a body that is no XML")).contains("a body that is no XML"));
    }

    #[test]
    fn only_a_blob_that_is_not_there_is_absent() {
        let not_found = |words: &str| Error::NotFound { path: "k".to_owned(), source: words.to_owned().into() };
        assert!(is_absent(&not_found("<Code>NoSuchKey</Code>")) && is_absent(&not_found("404")));
        assert!(!is_absent(&not_found("<Code>NoSuchBucket</Code>")) && !is_absent(&not_found("<Code>InvalidAccessKeyId</Code>")));
        assert!(!is_absent(&error("<Code>NoSuchKey</Code>")));
    }

    #[test]
    fn only_a_refusal_is_certain() {
        assert!(matches!(doubtful(&error("500")), StoreError::Unknown(_)));
        let refused = Error::PermissionDenied { path: String::new(), source: "403".into() };
        assert!(matches!(doubtful(&refused), StoreError::Unavailable(_)));
        let not_found = |code: &str| Error::NotFound { path: String::new(), source: format!("<Code>{code}</Code>").into() };
        assert!(matches!(doubtful(&not_found("NoSuchBucket")), StoreError::Unavailable(_)));
        assert!(matches!(doubtful(&not_found("NoSuchUpload")), StoreError::Unknown(_)));
    }
}
