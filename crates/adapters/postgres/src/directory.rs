//! The port, put together: each call goes to the shard of what it is about.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Weak},
    time::Duration,
};

use async_trait::async_trait;
use dunlin_model::{
    Announcement, BlockRow, Lease, Millis, NodeId, Partition, PhoneNumber, Seq, ServerKey, ServerKeyId, TaskName, User, UserChange, UserId,
};
use dunlin_ports::{Heard, StoreError};
use futures::{
    FutureExt as _, StreamExt as _, TryStreamExt as _,
    future::{BoxFuture, try_join_all},
    stream,
};
use tokio::time::Instant;

use crate::{
    blocks, error::StartError, lookup::Lookup, options::Options, outbox, phones::Phones, router::Router, schema, server, server_keys,
    shard::Shard, tasks, tokens, users,
};

/// How many shards are asked at once by a call that is about several.
const SHARDS_AT_ONCE: usize = 8;

/// How often a node asks where shards are, though nothing told it that it is wrong: so that it no longer needs a database that all
/// shards have left.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// And while one does not answer.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub struct Directory {
    pub(crate) router: Arc<Router>,
    lookup: Lookup,
}

impl Directory {
    /// Connects to databases that are as the options say, whose tables are there and are those that this program knows.
    pub async fn open(options: &Options) -> Result<Directory, StartError> {
        server::within_start_max(async {
            let (pools, lookup) = server::pools(options)?;
            for pool in pools.iter().chain([&lookup]) {
                server::check(pool, options.require_synchronous).await?;
            }
            let (map, stays) = schema::check(&pools).await?;
            schema::check_lookup(&lookup).await?;
            let router = Arc::new(Router::new(pools, map, stays, options.call_timeout));
            tokio::spawn(look_now_and_then(Arc::downgrade(&router), options.call_timeout));
            Ok(Directory { router, lookup: Lookup(lookup) })
        })
        .await
    }
}

impl Directory {
    /// Which databases are not asked at present, and why.
    pub fn troubles(&self) -> Vec<String> {
        self.router.troubles().chain(self.lookup.0.trouble()).collect()
    }

    pub(crate) fn phones(&self, deadline: Instant) -> Phones<'_> {
        Phones { router: &self.router, lookup: &self.lookup, deadline }
    }
}

/// Ends with the directory.
async fn look_now_and_then(router: Weak<Router>, call_timeout: Duration) {
    let mut pause = LOOK_EVERY;
    loop {
        tokio::time::sleep(pause).await;
        let Some(router) = router.upgrade() else { return };
        pause = if router.look(Instant::now() + call_timeout).await { LOOK_EVERY } else { LOOK_AGAIN };
    }
}

#[async_trait]
impl dunlin_ports::Directory for Directory {
    async fn upsert_user(&self, id: &UserId, change: UserChange, at: Millis) -> Result<User, StoreError> {
        let change = &change;
        self.router.call(|deadline| users::upsert(&self.router, id, change, at, deadline)).await
    }

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        self.router.call(|deadline| users::read(&self.router, id, deadline)).await
    }

    async fn exist(&self, ids: &[UserId]) -> Result<Vec<bool>, StoreError> {
        let mut by_shard = BTreeMap::<Shard, Vec<&str>>::new();
        for id in ids {
            by_shard.entry(Shard::of(id.as_str())).or_default().push(id.as_str());
        }
        let mut asked = Vec::new();
        for (&shard, ids) in &by_shard {
            asked.push(self.router.call(move |deadline| users::existing(&self.router, shard, ids, deadline)).boxed());
        }
        let found: HashSet<String> = of_all(asked).await?.into_iter().collect();
        Ok(ids.iter().map(|id| found.contains(id.as_str())).collect())
    }

    async fn create_server_key(&self, key: &ServerKey) -> Result<(), StoreError> {
        let stands = self
            .router
            .call(|deadline| async move {
                let work = self.router.begin(Shard::of(key.id.as_str()), deadline).await?;
                let stands = server_keys::create(&work, key).await?;
                work.commit().await?;
                Ok(stands)
            })
            .await?;
        if !stands.same_as(key) {
            return Err(StoreError::Conflict(format!("there is another server key {}", key.id)));
        }
        Ok(())
    }

    async fn server_key(&self, id: &ServerKeyId) -> Result<Option<ServerKey>, StoreError> {
        self.router.call(|deadline| server_keys::read(&self.router, id, deadline)).await
    }

    async fn server_keys(&self, after: Option<&ServerKeyId>, limit: usize) -> Result<Vec<ServerKey>, StoreError> {
        let mut asked = Vec::new();
        for shard in Shard::all() {
            asked.push(self.router.call(move |deadline| server_keys::page(&self.router, shard, after, limit, deadline)).boxed());
        }
        let mut keys = of_all(asked).await?;
        keys.sort_by(|one, other| one.id.cmp(&other.id));
        keys.truncate(limit);
        Ok(keys)
    }

    async fn revoke_server_key(&self, id: &ServerKeyId, at: Millis) -> Result<Option<ServerKey>, StoreError> {
        self.router
            .call(|deadline| async move {
                let work = self.router.begin(Shard::of(id.as_str()), deadline).await?;
                let key = server_keys::revoke(&work, id, at).await?;
                match key {
                    Some(_) => outbox::commit_key_revoked(work, id).await?,
                    None => work.commit().await?,
                }
                Ok(key)
            })
            .await
    }

    async fn tokens_valid_from(&self, user: &UserId) -> Result<Option<Millis>, StoreError> {
        self.router.call(|deadline| tokens::valid_from(&self.router, user, deadline)).await
    }

    async fn revoke_tokens(&self, user: &UserId, issued_before: Millis) -> Result<(), StoreError> {
        self.router
            .call(|deadline| async move {
                let work = self.router.begin(Shard::of(user.as_str()), deadline).await?;
                tokens::revoke(&work, user, issued_before).await?;
                outbox::commit_tokens_revoked(work, user, issued_before).await
            })
            .await
    }

    async fn set_phone(&self, user: &UserId, phone: Option<&PhoneNumber>, at: Millis) -> Result<Option<User>, StoreError> {
        self.router.call(|deadline| async move { self.phones(deadline).set(user, phone, at).await }).await
    }

    async fn user_with_phone(&self, phone: &PhoneNumber) -> Result<Option<UserId>, StoreError> {
        self.router.call(|deadline| async move { self.phones(deadline).owner(phone).await }).await
    }

    async fn take_task(&self, task: &TaskName, lease: Lease, now: Millis) -> Result<Lease, StoreError> {
        self.router
            .call(|deadline| async move {
                let work = self.router.begin(Shard::of(task.as_str()), deadline).await?;
                let stands = tasks::take(&work, task, lease, now).await?;
                work.commit().await?;
                Ok(stands)
            })
            .await
    }

    async fn release_task(&self, task: &TaskName, holder: NodeId) -> Result<(), StoreError> {
        self.router
            .call(|deadline| async move {
                let work = self.router.begin(Shard::of(task.as_str()), deadline).await?;
                tasks::release(&work, task, holder).await?;
                work.commit().await
            })
            .await
    }

    async fn copy_block(&self, block: &BlockRow) -> Result<(), StoreError> {
        self.router
            .call(|deadline| async move {
                let work = self.router.begin(Shard::of(block.blocker.as_str()), deadline).await?;
                blocks::copy(&work, block).await?;
                work.commit().await
            })
            .await
    }

    async fn blocks_copied(&self, blocker: &UserId, after: Option<&UserId>, limit: usize) -> Result<Vec<BlockRow>, StoreError> {
        self.router.call(|deadline| blocks::page(&self.router, blocker, after, limit, deadline)).await
    }

    async fn announced(&self, heard: Option<&Heard>) -> Result<(Vec<Announcement>, Heard), StoreError> {
        let pools = self.router.pools();
        let asked = pools.iter().enumerate().map(|(index, pool)| {
            let heard = heard.and_then(|heard| heard.0.get(index)).copied();
            self.router.call(move |deadline| outbox::since(pool, heard, deadline))
        });
        let (announced, times): (Vec<_>, Vec<_>) = try_join_all(asked).await?.into_iter().unzip();
        Ok((announced.into_iter().flatten().collect(), Heard(times)))
    }

    async fn forget_announced(&self, older_than_ms: u64) -> Result<(), StoreError> {
        let asked = self.router.pools().iter().map(|pool| self.router.call(move |deadline| outbox::forget(pool, older_than_ms, deadline)));
        try_join_all(asked).await.map(drop)
    }

    async fn copied_up_to(&self, partition: Partition) -> Result<Option<Seq>, StoreError> {
        self.router.call(|deadline| blocks::copied_up_to(&self.router, partition, deadline)).await
    }

    async fn set_copied_up_to(&self, partition: Partition, seq: Seq) -> Result<(), StoreError> {
        self.router
            .call(|deadline| async move {
                let work = self.router.begin(blocks::shard_of(partition), deadline).await?;
                blocks::set_copied_up_to(work, partition, seq).await
            })
            .await
    }
}

/// What all shards answer, in any order.
async fn of_all<T: Send>(asked: Vec<BoxFuture<'_, Result<Vec<T>, StoreError>>>) -> Result<Vec<T>, StoreError> {
    let answers: Vec<Vec<T>> = stream::iter(asked).buffer_unordered(SHARDS_AT_ONCE).try_collect().await?;
    Ok(answers.into_iter().flatten().collect())
}
