//! Reads. Each call reads one consistent state.

use std::ops::Bound;

use async_trait::async_trait;
use dunlin_model::{
    BlockRow, Cell, ConversationId, DedupRow, EditRow, Emoji, FeedKey, FeedRow, Head, InboxRow, IndexRow, LogKey, Mark, MemberRow,
    MessageRow, Millis, N, Outcome, Partition, ReactionRow, Seq, Standing, UserId, decode, encode,
};
use dunlin_ports::{Batch, Checkpoint, Known, MessageStore, Order, SeqRange, StoreError, Wanted};

use super::{
    Messages,
    apply::StoredCheckpoint,
    between, get,
    keys::{self, Key},
    row,
};
use crate::tree::{Slice, Snapshot};

#[async_trait]
impl MessageStore for Messages {
    async fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        self.apply_batch(batch)
    }

    async fn checkpoint(&self, partition: Partition) -> Result<Option<Checkpoint>, StoreError> {
        let stored: Option<StoredCheckpoint> = get(&self.tree.snapshot(), &keys::checkpoint(partition))?;
        Ok(stored.map(Checkpoint::from))
    }

    async fn known(&self, wanted: &Wanted) -> Result<Known, StoreError> {
        let snapshot = self.tree.snapshot();
        let mut known = Known::default();
        for conversation in &wanted.heads {
            known.heads.push(get(&snapshot, &keys::head(*conversation))?);
        }
        for (key, below) in &wanted.dedup {
            let rows: Vec<DedupRow> = get(&snapshot, &keys::dedup(key))?.unwrap_or_default();
            known.dedup.push(rows.into_iter().rfind(|row| row.seq < *below));
        }
        for (key, below) in &wanted.blocks {
            let rows: Vec<BlockRow> = get(&snapshot, &keys::blocks(key))?.unwrap_or_default();
            known.blocks.push(newest_below(rows, *below));
        }
        for (conversation, seq) in &wanted.messages {
            known.messages.push(get(&snapshot, &keys::message(*conversation, *seq))?);
        }
        Ok(known)
    }

    async fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        get(&self.tree.snapshot(), &keys::head(conversation))
    }

    async fn heads(&self, after: Option<ConversationId>, limit: usize) -> Result<Vec<(ConversationId, Head)>, StoreError> {
        let after = after.map_or_else(|| vec![keys::HEAD], keys::head);
        let rows = self.tree.snapshot().range((Bound::Excluded(&after[..]), Bound::Excluded(&[keys::HEAD + 1][..])))?;
        let head = |found: Result<_, _>| {
            let (key, value): (Slice, Slice) = found?;
            let conversation = ConversationId::from_bytes(&key[1..]);
            let conversation = conversation.ok_or_else(|| StoreError::Corrupt(format!("head {}", key.escape_ascii())))?;
            Ok((conversation, row(&key, &value)?))
        };
        rows.take(limit).map(head).collect()
    }

    async fn message(&self, conversation: ConversationId, seq: Seq) -> Result<Option<MessageRow>, StoreError> {
        get(&self.tree.snapshot(), &keys::message(conversation, seq))
    }

    async fn messages(
        &self,
        conversation: ConversationId,
        range: SeqRange,
        order: Order,
        limit: usize,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let (after, before) = (keys::message(conversation, range.after), keys::message(conversation, range.before));
        let rows = self.tree.snapshot().range((Bound::Excluded(&after[..]), Bound::Excluded(&before[..])))?;
        let read = |found: Result<(Slice, Slice), _>| {
            let (key, value) = found?;
            row(&key, &value)
        };
        match order {
            Order::OldestFirst => rows.take(limit).map(read).collect(),
            Order::NewestFirst => rows.rev().take(limit).map(read).collect(),
        }
    }

    async fn index_at_n(&self, conversation: ConversationId, n: N) -> Result<Option<IndexRow>, StoreError> {
        let (from, to) = (keys::index(conversation, N::ZERO), keys::index(conversation, n));
        let found = self.tree.snapshot().range((Bound::Included(&from[..]), Bound::Included(&to[..])))?.next_back();
        found.transpose()?.map(|(key, value)| row(&key, &value)).transpose()
    }

    async fn index_from_time(&self, conversation: ConversationId, at: Millis) -> Result<Option<IndexRow>, StoreError> {
        let from = keys::index_time(conversation, at, N::ZERO);
        let to = keys::index_time(conversation, Millis(u64::MAX), N(u64::MAX));
        let found = self.tree.snapshot().range((Bound::Included(&from[..]), Bound::Included(&to[..])))?.next();
        found.transpose()?.map(|(key, value)| row(&key, &value)).transpose()
    }

    async fn index(&self, conversation: ConversationId, after: N, limit: usize) -> Result<Vec<IndexRow>, StoreError> {
        let (after, end) = (keys::index(conversation, after), keys::index(conversation, N(u64::MAX)));
        between(&self.tree.snapshot(), &after, Bound::Included(&end), limit)
    }

    async fn deleted_above(&self, conversation: ConversationId, n: N) -> Result<u64, StoreError> {
        let (after, end) = (keys::deleted(conversation, n), keys::deleted(conversation, N(u64::MAX)));
        let mut count = 0;
        for found in self.tree.snapshot().range((Bound::Excluded(&after[..]), Bound::Included(&end[..])))? {
            found?;
            count += 1;
        }
        Ok(count)
    }

    async fn hidden(&self, user: &UserId, conversation: ConversationId, range: SeqRange, limit: usize) -> Result<Vec<Seq>, StoreError> {
        let (after, before) = (keys::hidden(user, conversation, range.after), keys::hidden(user, conversation, range.before));
        let rows = self.tree.snapshot().range((Bound::Excluded(&after[..]), Bound::Excluded(&before[..])))?;
        let target = |found: Result<(Slice, Slice), _>| {
            let (key, _) = found?;
            let seq = keys::last_number(&key).and_then(Seq::from_u64);
            seq.ok_or_else(|| StoreError::Corrupt(format!("hidden message {}", key.escape_ascii())))
        };
        rows.take(limit).map(target).collect()
    }

    async fn reactions(&self, conversation: ConversationId, range: SeqRange, limit: usize) -> Result<Vec<ReactionRow>, StoreError> {
        let start = Key::new(keys::REACTION).conversation(conversation);
        let (after, before) = (start.clone().seq(range.after.next()).build(), start.clone().seq(range.before).build());
        let prefix = start.build().len();
        let rows = self.tree.snapshot().range((Bound::Included(&after[..]), Bound::Excluded(&before[..])))?;
        let read = |found: Result<(Slice, Slice), _>| {
            let (key, value) = found?;
            let on: Cell<bool> = row(&key, &value)?;
            reaction(&key[prefix..], on).ok_or_else(|| StoreError::Corrupt(format!("reaction {}", key.escape_ascii())))
        };
        rows.take(limit).map(read).collect()
    }

    async fn edits(&self, conversation: ConversationId, target: Seq, limit: usize) -> Result<Vec<EditRow>, StoreError> {
        let (after, end) = (keys::edit(conversation, target, Seq::ZERO), keys::edit(conversation, target, Seq::MAX));
        between(&self.tree.snapshot(), &after, Bound::Included(&end), limit)
    }

    async fn inbox(&self, user: &UserId, after: Option<ConversationId>, limit: usize) -> Result<Vec<InboxRow>, StoreError> {
        let start = Key::new(keys::INBOX).user(user).build();
        let after = after.map_or_else(|| start.clone(), |after| keys::inbox(user, after));
        between(&self.tree.snapshot(), &after, end_of(&start).as_deref().map_or(Bound::Unbounded, Bound::Excluded), limit)
    }

    async fn inbox_row(&self, user: &UserId, conversation: ConversationId) -> Result<Option<InboxRow>, StoreError> {
        get(&self.tree.snapshot(), &keys::inbox(user, conversation))
    }

    async fn members(&self, conversation: ConversationId, after: Option<UserId>, limit: usize) -> Result<Vec<MemberRow>, StoreError> {
        let start = Key::new(keys::MEMBER).conversation(conversation).build();
        let after = after.map_or_else(|| start.clone(), |after| keys::member(conversation, &after));
        between(&self.tree.snapshot(), &after, end_of(&start).as_deref().map_or(Bound::Unbounded, Bound::Excluded), limit)
    }

    async fn mark_delivered(&self, conversation: ConversationId, user: &UserId, mark: Mark) -> Result<(), StoreError> {
        self.raise_delivered(conversation, user.clone(), mark)
    }

    async fn standings(&self, user: &UserId, after: Option<&UserId>, limit: usize) -> Result<Vec<Standing>, StoreError> {
        let start = Key::new(keys::STANDING).user(user).build();
        let after = after.map_or_else(|| start.clone(), |after| keys::standing(user, after));
        between(&self.tree.snapshot(), &after, end_of(&start).as_deref().map_or(Bound::Unbounded, Bound::Excluded), limit)
    }

    async fn feed(&self, user: &UserId, after: FeedKey, limit: usize) -> Result<Vec<FeedRow>, StoreError> {
        let start = Key::new(keys::FEED).user(user).build();
        let (after, end) = (keys::feed(user, &after), end_of(&start));
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.tree.snapshot().range((Bound::Excluded(&after[..]), end))?;
        let read = |found: Result<(Slice, Slice), _>| {
            let (key, value) = found?;
            let (what, target) = row(&key, &value)?;
            let key = keys::feed_key(&key[start.len()..]).ok_or_else(|| StoreError::Corrupt(format!("feed row {}", key.escape_ascii())))?;
            Ok(FeedRow { key, what, target })
        };
        rows.take(limit).map(read).collect()
    }

    async fn horizon(&self, partitions: u32) -> Result<Millis, StoreError> {
        let mut lowest = Millis(u64::MAX);
        for partition in 0..partitions {
            let checkpoint = self.checkpoint(Partition(partition)).await?;
            let Some(checkpoint) = checkpoint else { return Ok(Millis::ZERO) };
            lowest = lowest.min(checkpoint.log_time);
        }
        Ok(lowest)
    }

    async fn parked(&self, limit: usize) -> Result<Vec<(LogKey, Seq)>, StoreError> {
        let mut keys: Vec<(LogKey, Seq)> = Vec::new();
        let mut after = vec![keys::PARKED];
        while keys.len() < limit {
            let Some(found) = self.tree.snapshot().range((Bound::Excluded(&after[..]), Bound::Excluded(&[keys::PARKED + 1][..])))?.next()
            else {
                break;
            };
            let (found, _) = found?;
            let key: LogKey =
                decode(&found[1..]).map_err(|error| StoreError::Corrupt(format!("parked {}: {error}", found.escape_ascii())))?;
            // On to the next key: past every seq of this one.
            after = Key::new(keys::PARKED).bytes(&encode(&key)).seq(Seq::MAX).build();
            let first = keys::last_number(&found).and_then(Seq::from_u64);
            keys.push((key, first.ok_or_else(|| StoreError::Corrupt(format!("parked {}", found.escape_ascii())))?));
        }
        Ok(keys)
    }

    async fn outcome(&self, conversation: ConversationId, seq: Seq) -> Result<Option<Outcome>, StoreError> {
        get(&self.tree.snapshot(), &keys::outcome(conversation, seq))
    }
}

impl Messages {
    /// Whether a message event left what it should have: its row, or the reason why it has none.
    pub(crate) fn has_outcome_of(&self, snapshot: &Snapshot, conversation: ConversationId, seq: Seq) -> Result<bool, StoreError> {
        if snapshot.get(&keys::message(conversation, seq))?.is_some() {
            return Ok(true);
        }
        Ok(snapshot.get(&keys::outcome(conversation, seq))?.is_some())
    }

    pub(crate) fn has_parked(&self, snapshot: &Snapshot, key: &LogKey, seq: Seq) -> Result<bool, StoreError> {
        Ok(snapshot.get(&keys::parked(key, seq))?.is_some())
    }
}

/// The newest row of each direction below a seq; rows come ascending.
fn newest_below(rows: Vec<BlockRow>, below: Seq) -> Vec<BlockRow> {
    let mut newest: Vec<BlockRow> = Vec::new();
    for row in rows.into_iter().filter(|row| row.at < below) {
        newest.retain(|other| other.blocker != row.blocker);
        newest.push(row);
    }
    newest
}

/// The part of a reaction's key behind its conversation: target, user, a zero byte, emoji.
fn reaction(rest: &[u8], on: Cell<bool>) -> Option<ReactionRow> {
    let (target, rest) = rest.split_first_chunk()?;
    let zero = rest.iter().position(|byte| *byte == 0)?;
    let user = UserId::parse(std::str::from_utf8(&rest[..zero]).ok()?).ok()?;
    let emoji = Emoji::parse(std::str::from_utf8(&rest[zero + 1..]).ok()?).ok()?;
    Some(ReactionRow { target: Seq::from_u64(u64::from_be_bytes(*target))?, user, emoji, on })
}

/// The first key behind everything that begins like this.
fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}
