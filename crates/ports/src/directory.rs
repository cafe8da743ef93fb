//! Who there is and who may call. What is not here: conversations and blocks (log and message store), and whether a token is genuine (use cases).

use async_trait::async_trait;
use dunlin_model::{Millis, ServerKey, ServerKeyId, User, UserChange, UserId};

use crate::StoreError;

/// Users, server keys, and from when on a user's tokens count.
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
}
