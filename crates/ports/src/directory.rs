//! Who there is, who may call, and which node does what. What is not here: conversations and who blocks whom (log and message store; here are
//! copies), and whether a token is genuine (use cases).

use async_trait::async_trait;
use dunlin_model::{
    Announcement, BlockRow, Lease, Millis, NodeId, Partition, PhoneNumber, Seq, ServerKey, ServerKeyId, TaskName, User, UserChange, UserId,
};

use crate::StoreError;

/// How late an announcement may show, after its time: a commit may have to wait until its database has a standby again.
pub const ANNOUNCED_LATE_MS: u64 = 5 * 60 * 1_000;

/// Up to where announcements were heard: by the clock of each database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heard(pub Vec<Millis>);

/// How long a phone number may stay refused to others after a call that gave it to someone broke off, by the callers' times.
pub const PHONE_CLAIM_MS_MAX: u64 = 60_000;

/// Users, server keys, from when on a user's tokens count, tasks, and copies of blocks.
///
/// - **Durable on return**, and **read your writes**: what a call has returned from is seen by every later call.
/// - **Repeatable**: repeating a call changes nothing more, so a call whose outcome is unknown can be made again.
/// - **Atomic per user and per key**, never across them: users may live in different databases. Calls about one user at the same time
///   have the effect of one after the other.
/// - Ids are compared and ordered bytewise: `Ann` and `ann` are two users.
/// - Times are the caller's (from its `Clock`).
#[async_trait]
pub trait Directory: Send + Sync {
    /// Creates or changes a user and returns it as it then stands; `User::changed` says what a change does.
    async fn upsert_user(&self, id: &UserId, change: UserChange, at: Millis) -> Result<User, StoreError>;

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError>;

    /// Which of these users exist, in the order of the question. The caller bounds the question; it may name a user twice.
    async fn exist(&self, ids: &[UserId]) -> Result<Vec<bool>, StoreError>;

    /// Gives a user a phone number in place of what they had, or takes it away, and returns the user as it then stands; `None` if there is no
    /// such user. A number is one user's at most: `Err(Conflict)` if it is another's. What broke off in the middle leaves a number with its
    /// user, or free again after [`PHONE_CLAIM_MS_MAX`]; it never keeps the same user from trying again.
    async fn set_phone(&self, user: &UserId, phone: Option<&PhoneNumber>, at: Millis) -> Result<Option<User>, StoreError>;

    /// Whose number it is.
    async fn user_with_phone(&self, phone: &PhoneNumber) -> Result<Option<UserId>, StoreError>;

    /// `Err(Conflict)` if the id belongs to another key. Creating the same key again does not revive it if it was revoked meanwhile.
    async fn create_server_key(&self, key: &ServerKey) -> Result<(), StoreError>;

    /// Revoked ones too: the caller looks at `revoked_at`.
    async fn server_key(&self, id: &ServerKeyId) -> Result<Option<ServerKey>, StoreError>;

    /// Server keys in the order of their ids, also revoked ones. At most `limit`; adjacent pages meet.
    async fn server_keys(&self, after: Option<&ServerKeyId>, limit: usize) -> Result<Vec<ServerKey>, StoreError>;

    /// The key as it then stands: the time of its first revocation stays. `None` if there is no such key.
    async fn revoke_server_key(&self, id: &ServerKeyId, at: Millis) -> Result<Option<ServerKey>, StoreError>;

    /// Tokens of this user that were issued earlier are void; `None` if none were revoked.
    async fn tokens_valid_from(&self, user: &UserId) -> Result<Option<Millis>, StoreError>;

    /// Makes a user's tokens void that were issued before a time; never gives back what an earlier call took. Needs no such user:
    /// a token may be the first that is heard of one.
    async fn revoke_tokens(&self, user: &UserId, issued_before: Millis) -> Result<(), StoreError>;

    /// Takes a task, if nobody else holds it at `now`: a lease counts until before its end. Whoever holds it already renews it so. Returns the
    /// lease as it then stands: the task is its holder's. Nodes whose clocks differ may both think so for as long as they differ.
    async fn take_task(&self, task: &TaskName, lease: Lease, now: Millis) -> Result<Lease, StoreError>;

    /// Gives a task back before its time; nothing happens if someone else holds it.
    async fn release_task(&self, task: &TaskName, holder: NodeId) -> Result<(), StoreError>;

    /// Copies what was decided in the log about a block (rule R14). Of several copies about the same two users in the same direction the one
    /// with the latest seq stands, in whatever order they come. That a block was taken back is a copy too.
    async fn copy_block(&self, block: &BlockRow) -> Result<(), StoreError>;

    /// The copies of a user's blocks in the order of the blocked users' ids, also those that were taken back. At most `limit`; adjacent pages
    /// meet. A copy may be late and authorises nothing.
    async fn blocks_copied(&self, blocker: &UserId, after: Option<&UserId>, limit: usize) -> Result<Vec<BlockRow>, StoreError>;

    /// Up to which event of a partition blocks were copied; none if none ever were.
    async fn copied_up_to(&self, partition: Partition) -> Result<Option<Seq>, StoreError>;

    /// Never goes back, in whatever order calls come.
    async fn set_copied_up_to(&self, partition: Partition, seq: Seq) -> Result<(), StoreError>;

    /// What was announced since; without `heard` nothing, from now on. Every revocation is announced with the change itself. What was
    /// announced lately may come again.
    async fn announced(&self, heard: Option<&Heard>) -> Result<(Vec<Announcement>, Heard), StoreError>;

    /// Forgets what was announced longer ago than this, by the directory's own clock.
    async fn forget_announced(&self, older_than_ms: u64) -> Result<(), StoreError>;
}
