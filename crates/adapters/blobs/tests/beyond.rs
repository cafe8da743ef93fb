//! What a real S3 server shows beyond the contract: answers that are lost, a server that is away or slow, uploads that are left, and
//! buckets that are refused.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

#[path = "support/proxy.rs"]
mod proxy;
mod support;

use std::{
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use dunlin_blobs::{Blobs, Options, StartError};
use dunlin_contract::ids;
use dunlin_model::BlobKey;
use dunlin_ports::{BlobStore as _, ByteRange, Chunks, Put, StoreError};
use http::{Method, Request, StatusCode};
use proxy::{Harm, Proxy};

const PART: usize = 5 * 1024 * 1024;
/// Sent at once, and sent in parts.
const SIZES: [usize; 2] = [1_000, 2 * PART + 7];
const HUNG: Duration = Duration::from_secs(60);

/// A store behind a proxy that does no harm yet.
async fn behind_a_proxy(change: impl FnOnce(&mut Options)) -> (Proxy, Blobs) {
    let mut options = support::options();
    let proxy = Proxy::before(&options.endpoint).await;
    options.endpoint = format!("http://{}", proxy.address);
    change(&mut options);
    let blobs = Blobs::open(&options).await.unwrap();
    (proxy, blobs)
}

struct Source {
    rest: Bytes,
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    End,
    Fail,
    Hang,
}

#[async_trait]
impl Chunks for Source {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.split_to(self.rest.len().min(60_000))));
        }
        match self.then {
            Then::End => Ok(None),
            Then::Fail => Err(StoreError::Unavailable("the client went away".to_owned())),
            Then::Hang => std::future::pending().await,
        }
    }
}

fn content(size: usize) -> Bytes {
    let mut bytes = vec![0; size];
    getrandom::fill(&mut bytes).unwrap();
    bytes.into()
}

async fn put(blobs: &Blobs, key: &BlobKey, content: &Bytes) -> Result<Put, StoreError> {
    let mut source = Source { rest: content.clone(), then: Then::End };
    in_time(blobs.put(key, &mut source, u64::MAX)).await
}

async fn read(blobs: &Blobs, key: &BlobKey) -> Result<Option<Bytes>, StoreError> {
    let Some(mut blob) = in_time(blobs.get(key, ByteRange::ALL)).await? else { return Ok(None) };
    let mut all = Vec::new();
    while let Some(chunk) = in_time(blob.chunks.next()).await? {
        all.extend_from_slice(&chunk);
    }
    Ok(Some(all.into()))
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(HUNG, work).await.expect("a call comes to an end")
}

/// The request that makes a blob visible.
fn makes_visible(request: &Request<()>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let completes = request.method() == Method::POST && query.contains("uploadId=");
    completes || request.method() == Method::PUT && !query.contains("uploadId=")
}

#[tokio::test]
async fn a_put_whose_answer_is_lost_is_found_to_be_stored() {
    let (proxy, blobs) = behind_a_proxy(|_| {}).await;
    for size in SIZES {
        let (key, content) = (ids::blob_key(), content(size));
        proxy.harm(|request| if makes_visible(request) { Harm::LoseAnswer } else { Harm::None });
        assert_eq!(put(&blobs, &key, &content).await.unwrap(), Put::Stored { bytes: size as u64 });
        let refused = put(&blobs, &key, &content.slice(1..)).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
        proxy.harm(|_| Harm::None);
        assert!(read(&blobs, &key).await.unwrap() == Some(content), "{size} bytes are there");
    }
}

#[tokio::test]
async fn what_fails_for_a_moment_is_tried_again() {
    let (proxy, blobs) = behind_a_proxy(|_| {}).await;
    for size in SIZES {
        let (key, content, asked) = (ids::blob_key(), content(size), AtomicUsize::new(0));
        proxy.harm(move |_| match asked.fetch_add(1, Ordering::Relaxed) % 3 {
            2 => Harm::None,
            _ => Harm::Answer(StatusCode::SERVICE_UNAVAILABLE),
        });
        assert_eq!(put(&blobs, &key, &content).await.unwrap(), Put::Stored { bytes: size as u64 });
        assert!(read(&blobs, &key).await.unwrap() == Some(content), "{size} bytes are there");
        in_time(blobs.delete(&key)).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_keeps_failing_leaves_the_outcome_unknown_and_tries_are_few() {
    let (proxy, blobs) = behind_a_proxy(|_| {}).await;
    for size in SIZES {
        let (key, content) = (ids::blob_key(), content(size));
        let asked = std::sync::Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        proxy.harm(move |request| {
            let is_meant = makes_visible(request);
            counted.fetch_add(usize::from(is_meant), Ordering::Relaxed);
            if is_meant { Harm::Answer(StatusCode::INTERNAL_SERVER_ERROR) } else { Harm::None }
        });
        let failed = put(&blobs, &key, &content).await;
        assert!(matches!(failed, Err(StoreError::Unknown(_))), "{failed:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 4, "once, and three times again");
        proxy.harm(|_| Harm::None);
        put(&blobs, &key, &content).await.expect("repeating it is safe");
    }
}

#[tokio::test]
async fn a_put_that_meets_another_is_told_apart_from_one_that_finds_other_bytes() {
    let (proxy, blobs) = behind_a_proxy(|_| {}).await;
    for size in SIZES {
        let (key, content) = (ids::blob_key(), content(size));
        proxy.harm(|request| if makes_visible(request) { Harm::Answer(StatusCode::CONFLICT) } else { Harm::None });
        let met = put(&blobs, &key, &content).await;
        assert!(matches!(met, Err(StoreError::Unavailable(_))), "nothing is there: {met:?}");
        proxy.harm(|_| Harm::None);
        put(&blobs, &key, &content).await.unwrap();
        proxy.harm(|request| if makes_visible(request) { Harm::Answer(StatusCode::CONFLICT) } else { Harm::None });
        assert_eq!(put(&blobs, &key, &content).await.unwrap(), Put::Stored { bytes: size as u64 });
        let refused = put(&blobs, &key, &content.slice(1..)).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn s3_that_is_away_has_done_nothing() {
    let (proxy, blobs) = behind_a_proxy(|_| {}).await;
    let key = ids::blob_key();
    proxy.go_away();
    for size in SIZES {
        let began = Instant::now();
        let refused = put(&blobs, &key, &content(size)).await;
        let Err(StoreError::Unavailable(why)) = &refused else { panic!("{refused:?}") };
        assert!(why.contains("refused") && !why.contains(&support::options().secret), "{why}");
        println!("a put of {size} bytes failed after {:?}: {why}", began.elapsed());
    }
    assert!(matches!(read(&blobs, &key).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(in_time(blobs.head(&key)).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(in_time(blobs.delete(&key)).await, Err(StoreError::Unknown(_))));
}

#[tokio::test]
async fn a_404_that_is_not_about_the_blob_does_not_make_it_absent() {
    let (proxy, blobs) = behind_a_proxy(|_| {}).await;
    let (key, content) = (ids::blob_key(), content(1_000));
    put(&blobs, &key, &content).await.unwrap();
    proxy.harm(|_| Harm::NoBucket);
    assert!(matches!(in_time(blobs.head(&key)).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(read(&blobs, &key).await, Err(StoreError::Unavailable(_))));
    let refused = put(&blobs, &key, &content).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn s3_that_never_answers_is_given_up() {
    let (proxy, blobs) = behind_a_proxy(|options| {
        options.answer_timeout = Duration::from_secs(1);
        options.retries_max = 1;
    })
    .await;
    let key = ids::blob_key();
    proxy.harm(|_| Harm::Silence);
    let began = Instant::now();
    assert!(matches!(put(&blobs, &key, &content(1_000)).await, Err(StoreError::Unknown(_))), "it may have been done");
    assert!(matches!(put(&blobs, &key, &content(2 * PART)).await, Err(StoreError::Unavailable(_))), "no upload was begun");
    assert!(matches!(read(&blobs, &key).await, Err(StoreError::Unavailable(_))));
    println!("three calls were given up after {:?}", began.elapsed());
}

#[tokio::test]
async fn an_answer_that_pauses_is_asked_for_again_and_then_given_up() {
    let (proxy, blobs) = behind_a_proxy(|options| {
        options.silence_max = Duration::from_millis(500);
        options.retries_max = 1;
    })
    .await;
    let (key, content, asked) = (ids::blob_key(), content(300_000), AtomicUsize::new(0));
    put(&blobs, &key, &content).await.unwrap();
    proxy.harm(move |_| if asked.fetch_add(1, Ordering::Relaxed) == 0 { Harm::Half } else { Harm::None });
    assert!(read(&blobs, &key).await.unwrap() == Some(content), "the second half came with the second answer");
    proxy.harm(|_| Harm::Half);
    assert!(matches!(read(&blobs, &key).await, Err(StoreError::Unavailable(_))));
}

#[tokio::test]
async fn an_answer_is_not_continued_with_the_bytes_of_another_blob() {
    let (proxy, blobs) = behind_a_proxy(|options| options.silence_max = Duration::from_millis(500)).await;
    let (key, first, asked) = (ids::blob_key(), content(300_000), AtomicUsize::new(0));
    put(&blobs, &key, &first).await.unwrap();
    proxy.harm(move |_| if asked.fetch_add(1, Ordering::Relaxed) == 0 { Harm::Half } else { Harm::None });
    let mut blob = in_time(blobs.get(&key, ByteRange::ALL)).await.unwrap().unwrap();
    in_time(blobs.delete(&key)).await.unwrap();
    put(&blobs, &key, &content(300_000)).await.unwrap();
    let mut got = Vec::new();
    let ended = loop {
        match in_time(blob.chunks.next()).await {
            Ok(Some(chunk)) => got.extend_from_slice(&chunk),
            ended => break ended,
        }
    };
    assert!(matches!(ended, Err(StoreError::Unavailable(_))), "{ended:?}");
    assert!(got.len() == 150_000 && first.starts_with(&got), "{} bytes", got.len());
}

#[tokio::test]
async fn a_reader_may_take_longer_than_an_answer_may_pause() {
    let (_proxy, blobs) = behind_a_proxy(|options| options.silence_max = Duration::from_millis(300)).await;
    let (key, content) = (ids::blob_key(), content(2 * PART));
    put(&blobs, &key, &content).await.unwrap();
    let mut blob = blobs.get(&key, ByteRange::ALL).await.unwrap().unwrap();
    let mut got = 0;
    while let Some(chunk) = in_time(blob.chunks.next()).await.unwrap() {
        got += chunk.len();
        if got < 200_000 {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    assert_eq!(got, content.len());
}

#[tokio::test]
async fn an_upload_in_parts_is_aborted_however_it_ends() {
    let (proxy, blobs) = behind_a_proxy(|_| {}).await;
    let (key, content) = (ids::blob_key(), content(2 * PART + 7));
    put(&blobs, &key, &content).await.unwrap();
    let begun = |proxy: &Proxy| {
        let passed = proxy.journal();
        let began = passed.iter().filter(|passed| passed.query.starts_with("uploads") && passed.method == Method::POST);
        let is_end = |method: &Method| *method == Method::DELETE || *method == Method::POST;
        let ended =
            passed.iter().filter(|passed| passed.query.contains("uploadId=") && is_end(&passed.method) && passed.status.is_success());
        (began.count(), ended.count())
    };
    let before = begun(&proxy).0;
    let source = |then| Source { rest: content.clone(), then };
    assert_eq!(blobs.put(&ids::blob_key(), &mut source(Then::End), content.len() as u64 - 1).await.unwrap(), Put::TooLarge);
    blobs.put(&ids::blob_key(), &mut source(Then::Fail), u64::MAX).await.unwrap_err();
    let given_up = tokio::time::timeout(Duration::from_secs(2), blobs.put(&ids::blob_key(), &mut source(Then::Hang), u64::MAX)).await;
    assert!(given_up.is_err());
    put(&blobs, &key, &content.slice(1..)).await.unwrap_err();
    assert_eq!(begun(&proxy).0 - before, 4, "each began an upload");
    let all_ended = async {
        while begun(&proxy).0 > begun(&proxy).1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    in_time(all_ended).await;
}

#[tokio::test]
async fn no_request_is_larger_than_a_part() {
    let (proxy, blobs) = behind_a_proxy(|_| {}).await;
    put(&blobs, &ids::blob_key(), &content(4 * PART + 7)).await.unwrap();
    let largest = proxy.journal().iter().map(|passed| passed.bytes).max();
    assert_eq!(largest, Some(PART));
}

async fn refusal(change: impl FnOnce(&mut Options)) -> StartError {
    let mut options = support::options();
    change(&mut options);
    let Err(error) = in_time(Blobs::open(&options)).await else { panic!("it opened") };
    assert!(!error.to_string().contains(&options.secret), "{error}");
    error
}

#[tokio::test]
async fn a_bucket_that_can_not_be_used_is_refused_in_a_sentence() {
    let wrong = refusal(|options| options.secret = "open barley".to_owned()).await;
    assert!(matches!(&wrong, StartError::NotLetIn { why, .. } if why.contains("SignatureDoesNotMatch")), "{wrong}");
    let unknown = refusal(|options| options.access_key_id = "nobody".to_owned()).await;
    assert!(unknown.to_string().to_lowercase().contains("access key"), "{unknown}");
    let missing = refusal(|options| options.bucket = "nowhere".to_owned()).await;
    assert!(matches!(&missing, StartError::NoBucket { .. }), "{missing}");
    let away = refusal(|options| options.endpoint = "http://127.0.0.1:1".to_owned()).await;
    assert!(matches!(&away, StartError::Other { why, .. } if why.contains("refused")), "{away}");
}

#[tokio::test]
async fn a_server_that_overwrites_is_refused_and_nothing_is_left_there() {
    let mut options = support::options();
    let proxy = Proxy::before(&options.endpoint).await;
    options.endpoint = format!("http://{}", proxy.address);
    proxy.harm(|request| if request.method() == Method::POST { Harm::Overwrite } else { Harm::None });
    let Err(refused) = in_time(Blobs::open(&options)).await else { panic!("it opened") };
    assert!(matches!(refused, StartError::Overwrites { what: "CompleteMultipartUpload", .. }), "{refused}");
    let journal = proxy.journal();
    let last = journal.last().unwrap();
    assert_eq!((&last.method, last.status), (&Method::DELETE, StatusCode::NO_CONTENT), "{journal:?}");
}
