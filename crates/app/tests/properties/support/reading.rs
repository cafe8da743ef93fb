//! The use cases that read, over a model store. Whatever would write is absent.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use dunlin_app::{App, Outcomes, UNPROJECTED_MAX};
use dunlin_contract::ModelStore;
use dunlin_model::{
    Announcement, BlockRow, DedupKey, DedupRow, Event, Lease, LogKey, Millis, NodeId, Offset, Partition, PhoneNumber, Seq, ServerKey,
    ServerKeyId, TaskName, User, UserChange, UserId,
};
use dunlin_ports::{AnswerKey, Appended, Clock, Directory, Ephemeral, EventLog, Heard, IdGen, Share, StoreError, Tail};

pub fn reader(store: &Arc<ModelStore>) -> App {
    reader_of(store, 1)
}

/// Over what so many partitions are projected into.
pub fn reader_of(store: &Arc<ModelStore>, partitions: u32) -> App {
    App {
        log: Arc::new(Partitions(partitions)),
        store: store.clone(),
        directory: Arc::new(Absent),
        ephemeral: Arc::new(Absent),
        clock: Arc::new(Absent),
        ids: Arc::new(Absent),
        outcomes: Arc::new(Outcomes::new(NodeId(1), UNPROJECTED_MAX)),
        drive: None,
        known: Arc::default(),
        identities: Arc::default(),
        node: NodeId(1),
        robots: Arc::new([]),
        dedup_window_ms: Millis::DAY,
    }
}

struct Absent;

/// A log of which only the number of partitions is known.
struct Partitions(u32);

fn absent<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable("there is nothing but the message store here".to_owned()))
}

#[async_trait]
impl EventLog for Partitions {
    async fn append(&self, _: &LogKey, _: &Event) -> Result<Appended, StoreError> {
        absent()
    }

    fn partitions(&self) -> u32 {
        self.0
    }

    fn begins(&self, _: Partition) -> Seq {
        Seq::ZERO
    }

    async fn tail(&self, _: Partition, _: Offset) -> Result<Box<dyn Tail>, StoreError> {
        absent()
    }

    async fn join(&self) -> Result<Box<dyn Share>, StoreError> {
        absent()
    }
}

#[async_trait]
impl Directory for Absent {
    async fn upsert_user(&self, _: &UserId, _: UserChange, _: Millis) -> Result<User, StoreError> {
        absent()
    }

    async fn user(&self, _: &UserId) -> Result<Option<User>, StoreError> {
        absent()
    }

    async fn exist(&self, _: &[UserId]) -> Result<Vec<bool>, StoreError> {
        absent()
    }

    async fn create_server_key(&self, _: &ServerKey) -> Result<(), StoreError> {
        absent()
    }

    async fn server_key(&self, _: &ServerKeyId) -> Result<Option<ServerKey>, StoreError> {
        absent()
    }

    async fn server_keys(&self, _: Option<&ServerKeyId>, _: usize) -> Result<Vec<ServerKey>, StoreError> {
        absent()
    }

    async fn revoke_server_key(&self, _: &ServerKeyId, _: Millis) -> Result<Option<ServerKey>, StoreError> {
        absent()
    }

    async fn tokens_valid_from(&self, _: &UserId) -> Result<Option<Millis>, StoreError> {
        absent()
    }

    async fn revoke_tokens(&self, _: &UserId, _: Millis) -> Result<(), StoreError> {
        absent()
    }

    async fn set_phone(&self, _: &UserId, _: Option<&PhoneNumber>, _: Millis) -> Result<Option<User>, StoreError> {
        absent()
    }

    async fn user_with_phone(&self, _: &PhoneNumber) -> Result<Option<UserId>, StoreError> {
        absent()
    }

    async fn take_task(&self, _: &TaskName, _: Lease, _: Millis) -> Result<Lease, StoreError> {
        absent()
    }

    async fn release_task(&self, _: &TaskName, _: NodeId) -> Result<(), StoreError> {
        absent()
    }

    async fn copy_block(&self, _: &BlockRow) -> Result<(), StoreError> {
        absent()
    }

    async fn blocks_copied(&self, _: &UserId, _: Option<&UserId>, _: usize) -> Result<Vec<BlockRow>, StoreError> {
        absent()
    }

    async fn announced(&self, _: Option<&Heard>) -> Result<(Vec<Announcement>, Heard), StoreError> {
        absent()
    }

    async fn forget_announced(&self, _: u64) -> Result<(), StoreError> {
        absent()
    }

    async fn copied_up_to(&self, _: Partition) -> Result<Option<Seq>, StoreError> {
        absent()
    }

    async fn set_copied_up_to(&self, _: Partition, _: Seq) -> Result<(), StoreError> {
        absent()
    }
}

#[async_trait]
impl Ephemeral for Absent {
    async fn remember_send(&self, _: &DedupKey, _: DedupRow, _: u64) -> Result<(), StoreError> {
        absent()
    }

    async fn recall_send(&self, _: &DedupKey) -> Result<Option<DedupRow>, StoreError> {
        absent()
    }

    async fn remember_answer(&self, _: AnswerKey, _: Bytes, _: u64) -> Result<(), StoreError> {
        absent()
    }

    async fn recall_answer(&self, _: AnswerKey) -> Result<Option<Bytes>, StoreError> {
        absent()
    }
}

impl Clock for Absent {
    fn now(&self) -> Millis {
        Millis::ZERO
    }
}

impl IdGen for Absent {
    fn bits128(&self) -> [u8; 16] {
        [0; 16]
    }
}
