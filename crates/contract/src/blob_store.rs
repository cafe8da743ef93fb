//! Cases of the store of large bytes.

use async_trait::async_trait;
use bytes::Bytes;
use dunlin_model::BlobKey;
use dunlin_ports::{BLOB_CHUNK_BYTES_MAX, BlobStore, ByteRange, Chunks, Put, StoreError};

use tokio::sync::oneshot;

use crate::ids;

/// More than a few chunks, and no multiple of their size.
const SIZE: usize = 5 * BLOB_CHUNK_BYTES_MAX + 1_234;

/// More than a store takes at once: S3 wants parts of at least 5 MiB.
const LARGE: usize = 11 * 1024 * 1024 + 1_234;
/// A whole number of such parts.
const EVEN: usize = 10 * 1024 * 1024;

pub async fn a_blob_reads_back(store: &dyn BlobStore) {
    for size in [1, SIZE, EVEN / 2, LARGE, EVEN] {
        let (key, content) = (ids::blob_key(), content(size));
        assert_eq!(put(store, &key, &content).await.expect("put"), Put::Stored { bytes: size as u64 });
        assert_eq!(head(store, &key).await, Some(size as u64));
        assert!(read(store, &key, ByteRange::ALL).await == Some(content), "{size} bytes read back");
    }
}

pub async fn keys_may_be_short_or_long(store: &dyn BlobStore) {
    let letters = ids::hex() + &ids::hex();
    for chars in [BlobKey::CHARS_MIN, BlobKey::CHARS_MAX] {
        let (key, content) = (BlobKey::parse(&letters[..chars]).expect("hexadecimal digits are allowed"), content(10));
        put(store, &key, &content).await.expect("put");
        assert_eq!(read(store, &key, ByteRange::ALL).await, Some(content), "a key does not hide those that begin with it");
    }
}

pub async fn an_empty_blob_is_a_blob(store: &dyn BlobStore) {
    let key = ids::blob_key();
    assert_eq!(put(store, &key, &Bytes::new()).await.expect("put"), Put::Stored { bytes: 0 });
    assert_eq!(head(store, &key).await, Some(0));
    for range in [ByteRange::ALL, ByteRange { from: 0, bytes_max: 10 }, ByteRange { from: 5, bytes_max: 1 }] {
        assert_eq!(read(store, &key, range).await, Some(Bytes::new()), "{range:?}");
    }
}

pub async fn an_absent_blob_is_none(store: &dyn BlobStore) {
    let key = ids::blob_key();
    assert_eq!(head(store, &key).await, None);
    assert_eq!(read(store, &key, ByteRange::ALL).await, None);
}

pub async fn a_range_gives_its_bytes(store: &dyn BlobStore) {
    let (key, content) = (ids::blob_key(), content(SIZE));
    put(store, &key, &content).await.expect("put");
    let chunk = BLOB_CHUNK_BYTES_MAX;
    for (from, bytes_max) in [(0, 1), (1, chunk), (chunk - 1, 2 * chunk), (SIZE - 1, 1), (SIZE - 10, 100), (SIZE, 1), (SIZE + 1, 1), (5, 0)]
    {
        let range = ByteRange { from: from as u64, bytes_max: bytes_max as u64 };
        let wanted = content.slice(from.min(SIZE)..(from + bytes_max).min(SIZE).max(from.min(SIZE)));
        assert_eq!(read(store, &key, range).await, Some(wanted), "{range:?}");
    }
    for bytes_max in [u64::MAX, u64::MAX - 1, u64::MAX / 2] {
        assert_eq!(read(store, &key, ByteRange { from: 100, bytes_max }).await, Some(content.slice(100..)));
        assert_eq!(read(store, &key, ByteRange { from: u64::MAX, bytes_max }).await, Some(Bytes::new()));
    }
}

pub async fn chunks_are_neither_empty_nor_too_large(store: &dyn BlobStore) {
    let (key, content) = (ids::blob_key(), content(SIZE));
    put(store, &key, &content).await.expect("put");
    let mut blob = store.get(&key, ByteRange::ALL).await.expect("get").expect("it was just put");
    while let Some(chunk) = blob.chunks.next().await.expect("a chunk") {
        assert!((1..=BLOB_CHUNK_BYTES_MAX).contains(&chunk.len()), "{}", chunk.len());
    }
}

pub async fn putting_again_changes_nothing(store: &dyn BlobStore) {
    for size in [0, SIZE, LARGE] {
        let (key, content) = (ids::blob_key(), content(size));
        let first = put(store, &key, &content).await.expect("put");
        assert_eq!(put(store, &key, &content).await.expect("put again"), first);
        assert!(read(store, &key, ByteRange::ALL).await == Some(content), "{size} bytes stay");
    }
}

pub async fn other_bytes_under_the_same_key_conflict(store: &dyn BlobStore) {
    for size in [SIZE, LARGE] {
        let (key, first) = (ids::blob_key(), content(size));
        put(store, &key, &first).await.expect("put");
        let mut last_differs = first.to_vec();
        *last_differs.last_mut().expect("it is not empty") ^= 1;
        for other in [Bytes::from(last_differs), first.slice(..size - 1), Bytes::new(), content(LARGE)] {
            let refused = put(store, &key, &other).await;
            assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
        }
        assert!(read(store, &key, ByteRange::ALL).await == Some(first), "{size} bytes stay");
    }
}

pub async fn of_two_puts_at_once_one_stands(store: &dyn BlobStore) {
    for (one, other) in [[1_000; 2]; 10].into_iter().chain([[LARGE; 2], [LARGE, 1_000]]).map(|[one, other]| (content(one), content(other)))
    {
        let key = ids::blob_key();
        let (put_one, put_other) = tokio::join!(put(store, &key, &one), put(store, &key, &other));
        let stands = match (&put_one, &put_other) {
            (Ok(_), Err(StoreError::Conflict(_))) => one,
            (Err(StoreError::Conflict(_)), Ok(_)) => other,
            _ => panic!("one is stored and the other refused: {put_one:?}, {put_other:?}"),
        };
        assert!(read(store, &key, ByteRange::ALL).await == Some(stands), "what was stored is what is there");
    }
}

pub async fn of_two_equal_puts_at_once_both_are_told_stored(store: &dyn BlobStore) {
    for size in [1_000, LARGE] {
        let (key, content) = (ids::blob_key(), content(size));
        let stored = Put::Stored { bytes: size as u64 };
        let (one, other) = tokio::join!(put(store, &key, &content), put(store, &key, &content));
        assert_eq!((one.expect("one"), other.expect("the other")), (stored, stored));
        assert!(read(store, &key, ByteRange::ALL).await == Some(content), "{size} bytes read back");
    }
}

pub async fn a_blob_of_the_largest_size_is_stored(store: &dyn BlobStore) {
    for size in [SIZE, LARGE, EVEN] {
        let key = ids::blob_key();
        let stored = store.put(&key, &mut Source::of(&content(size)), size as u64).await.expect("put");
        assert_eq!(stored, Put::Stored { bytes: size as u64 });
    }
}

pub async fn a_blob_that_is_too_large_leaves_nothing(store: &dyn BlobStore) {
    for size in [SIZE, LARGE] {
        let key = ids::blob_key();
        let refused = store.put(&key, &mut Source::of(&content(size)), size as u64 - 1).await.expect("put");
        assert_eq!(refused, Put::TooLarge);
        assert_eq!(head(store, &key).await, None);
    }
}

pub async fn a_source_that_fails_leaves_nothing(store: &dyn BlobStore) {
    for size in [SIZE, LARGE] {
        let (key, content) = (ids::blob_key(), content(size));
        let mut source = Source { at_end: End::Fails, ..Source::of(&content) };
        let failed = store.put(&key, &mut source, u64::MAX).await;
        assert!(matches!(&failed, Err(StoreError::Unavailable(why)) if why == SOURCE_FAILED), "{failed:?}");
        assert_eq!(head(store, &key).await, None);
        put(store, &key, &content).await.expect("the key is still free");
    }
}

pub async fn a_put_that_is_given_up_leaves_nothing(store: &dyn BlobStore) {
    for size in [SIZE, LARGE] {
        let (key, content) = (ids::blob_key(), content(size));
        let (told, all_given) = oneshot::channel();
        let mut source = Source { at_end: End::Never(Some(told)), ..Source::of(&content) };
        tokio::select! {
            put = store.put(&key, &mut source, u64::MAX) => panic!("its source has not ended: {put:?}"),
            _ = all_given => {}
        }
        assert_eq!(head(store, &key).await, None);
        put(store, &key, &content.slice(1..)).await.expect("the key is still free");
    }
}

pub async fn a_deleted_blob_is_gone(store: &dyn BlobStore) {
    let key = ids::blob_key();
    put(store, &key, &content(SIZE)).await.expect("put");
    store.delete(&key).await.expect("delete");
    assert_eq!(head(store, &key).await, None);
    assert_eq!(read(store, &key, ByteRange::ALL).await, None);
}

pub async fn a_deleted_key_is_free_for_other_bytes(store: &dyn BlobStore) {
    let (key, other) = (ids::blob_key(), content(SIZE));
    put(store, &key, &content(SIZE)).await.expect("put");
    store.delete(&key).await.expect("delete");
    put(store, &key, &other).await.expect("put other bytes");
    assert_eq!(read(store, &key, ByteRange::ALL).await, Some(other));
}

pub async fn who_reads_a_blob_that_goes_never_gets_other_bytes(store: &dyn BlobStore) {
    let (key, first) = (ids::blob_key(), content(LARGE));
    put(store, &key, &first).await.expect("put");
    let mut blob = store.get(&key, ByteRange::ALL).await.expect("get").expect("it was just put");
    let mut got = blob.chunks.next().await.expect("a chunk").expect("it is not empty").to_vec();
    store.delete(&key).await.expect("delete");
    put(store, &key, &content(LARGE)).await.expect("put other bytes");
    loop {
        match blob.chunks.next().await {
            Ok(Some(chunk)) => got.extend_from_slice(&chunk),
            Ok(None) => break assert_eq!(got.len(), LARGE, "an end that is none"),
            Err(_) => break,
        }
    }
    assert!(first.starts_with(&got), "all bytes are those of the blob that was asked for");
}

pub async fn deleting_an_absent_blob_is_no_error(store: &dyn BlobStore) {
    let key = ids::blob_key();
    store.delete(&key).await.expect("delete what was never there");
    put(store, &key, &content(10)).await.expect("put");
    store.delete(&key).await.expect("delete");
    store.delete(&key).await.expect("delete again");
}

const SOURCE_FAILED: &str = "the client went away";

/// Gives its bytes in chunks of all sorts of sizes, also empty ones.
struct Source {
    rest: Bytes,
    taken: usize,
    at_end: End,
}

enum End {
    Comes,
    Fails,
    /// Tells once everything was taken.
    Never(Option<oneshot::Sender<()>>),
}

impl Source {
    fn of(content: &Bytes) -> Source {
        Source { rest: content.clone(), taken: 0, at_end: End::Comes }
    }
}

#[async_trait]
impl Chunks for Source {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.rest.is_empty() {
            return match &mut self.at_end {
                End::Comes => Ok(None),
                End::Fails => Err(StoreError::Unavailable(SOURCE_FAILED.into())),
                End::Never(told) => {
                    let _ = told.take().map(|told| told.send(()));
                    std::future::pending().await
                }
            };
        }
        let sizes = [1, 0, 10_000, 100_000];
        let size = sizes[self.taken % sizes.len()].min(self.rest.len());
        self.taken += 1;
        Ok(Some(self.rest.split_to(size)))
    }
}

/// Random bytes, so that neither two blobs nor two places in one look alike.
fn content(size: usize) -> Bytes {
    let mut bytes = vec![0; size];
    getrandom::fill(&mut bytes).expect("the operating system has random bytes");
    bytes.into()
}

async fn put(store: &dyn BlobStore, key: &BlobKey, content: &Bytes) -> Result<Put, StoreError> {
    store.put(key, &mut Source::of(content), u64::MAX).await
}

async fn head(store: &dyn BlobStore, key: &BlobKey) -> Option<u64> {
    store.head(key).await.expect("head")
}

async fn read(store: &dyn BlobStore, key: &BlobKey, range: ByteRange) -> Option<Bytes> {
    let mut blob = store.get(key, range).await.expect("get")?;
    assert_eq!(Some(blob.bytes), head(store, key).await, "the size of the whole");
    let mut all = Vec::new();
    while let Some(chunk) = blob.chunks.next().await.expect("a chunk") {
        all.extend_from_slice(&chunk);
    }
    Some(all.into())
}
