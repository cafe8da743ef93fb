//! Reads. Each call reads one consistent state.

use std::ops::Bound;

use async_trait::async_trait;
use dunlin_model::{
    BlockRow, Cell, ConversationId, DedupRow, EditRow, Emoji, FeedKey, FeedRow, Head, InboxRow, IndexRow, LogKey, Mark, MemberRow,
    MessageRow, Millis, N, OutcomeRow, Partition, ReactionRow, Seq, Standing, UserId, decode, encode,
};
use dunlin_ports::{Batch, Checkpoint, Known, MessageStore, Order, Parked, ParkedRow, Replay, SeqRange, StoreError, Wanted};

use super::{
    Messages,
    apply::StoredCheckpoint,
    between, get,
    keys::{self, Key},
    row,
};
use crate::tree::{Rows, Slice, Snapshot};

#[async_trait]
impl MessageStore for Messages {
    async fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        self.apply_batch(batch)
    }

    async fn checkpoint(&self, partition: Partition) -> Result<Option<Checkpoint>, StoreError> {
        let stored: Option<StoredCheckpoint> = get(&self.tree.snapshot(), &keys::checkpoint(partition))?;
        Ok(stored.map(|stored| stored.of(self.epoch)))
    }

    async fn known(&self, wanted: &Wanted) -> Result<Known, StoreError> {
        let snapshot = self.tree.snapshot();
        let mut known = Known::default();
        for conversation in &wanted.heads {
            known.heads.push(cell(&snapshot, &keys::head(*conversation))?);
        }
        // In the order of keys: what one look-up brought into the processor's caches serves the next.
        let hashed = wanted.dedup.iter().enumerate().map(|(place, (key, below))| (key.hash(), *below, place));
        let mut dedup: Vec<_> = hashed.filter(|(hash, ..)| !self.unseen.is_unseen(hash)).collect();
        dedup.sort_unstable_by_key(|(hash, ..)| *hash);
        known.dedup.resize(wanted.dedup.len(), None);
        for (hash, below, place) in dedup {
            let rows: Vec<DedupRow> = get(&snapshot, &keys::dedup(&hash))?.unwrap_or_default();
            known.dedup[place] = rows.into_iter().rfind(|row| row.seq < below);
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
        cell(&self.tree.snapshot(), &keys::head(conversation))
    }

    async fn heads(&self, after: Option<ConversationId>, limit: usize) -> Result<Vec<(ConversationId, Head)>, StoreError> {
        let after = after.map_or_else(|| Key::new(keys::HEAD), keys::head);
        let rows = self.tree.snapshot().range((Bound::Excluded(&after[..]), Bound::Excluded(&[keys::HEAD + 1][..])))?;
        let head = |found: Result<_, _>| {
            let (key, value): (Slice, Slice) = found?;
            let conversation = ConversationId::from_bytes(&key[1..]);
            let conversation = conversation.ok_or_else(|| StoreError::Corrupt(format!("head {}", key.escape_ascii())))?;
            let (_, head): (Seq, Head) = row(&key, &value)?;
            Ok((conversation, head))
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
        let (after, before) = (start.clone().seq(range.after.next()), start.clone().seq(range.before));
        let prefix = start.len();
        let rows = self.tree.snapshot().range((Bound::Included(&after[..]), Bound::Excluded(&before[..])))?;
        let read = |found: Result<(Slice, Slice), _>| {
            let (key, value) = found?;
            let (at, value) = row(&key, &value)?;
            let on = Cell { at, value };
            reaction(&key[prefix..], on).ok_or_else(|| StoreError::Corrupt(format!("reaction {}", key.escape_ascii())))
        };
        rows.take(limit).map(read).collect()
    }

    async fn edits(&self, conversation: ConversationId, target: Seq, limit: usize) -> Result<Vec<EditRow>, StoreError> {
        let (after, end) = (keys::edit(conversation, target, Seq::ZERO), keys::edit(conversation, target, Seq::MAX));
        between(&self.tree.snapshot(), &after, Bound::Included(&end), limit)
    }

    async fn inbox(&self, user: &UserId, after: Option<ConversationId>, limit: usize) -> Result<Vec<InboxRow>, StoreError> {
        let start = Key::new(keys::INBOX).owner(user);
        let after = after.map_or_else(|| start.clone(), |after| keys::inbox(user, after, keys::cell::END));
        let mut rows: Vec<InboxRow> = Vec::new();
        for found in from_to(&self.tree.snapshot(), &after, &start)? {
            let (key, value) = found?;
            let corrupt = || StoreError::Corrupt(format!("inbox row {}", key.escape_ascii()));
            let (conversation, of) = key[start.len()..].split_at_checked(key.len() - start.len() - 1).ok_or_else(corrupt)?;
            let conversation = ConversationId::from_bytes(conversation).ok_or_else(corrupt)?;
            if rows.last().is_none_or(|last| last.conversation != conversation) {
                if rows.len() == limit {
                    break;
                }
                rows.push(InboxRow::new(conversation));
            }
            inbox_cell(rows.last_mut().expect("pushed above"), of[0], &key, &value)?;
        }
        Ok(rows)
    }

    async fn inbox_row(&self, user: &UserId, conversation: ConversationId) -> Result<Option<InboxRow>, StoreError> {
        let start = Key::new(keys::INBOX).owner(user).conversation(conversation);
        let mut inbox_row = None;
        for found in self.tree.snapshot().prefix(&start)? {
            let (key, value) = found?;
            let of = *key.last().expect("a key is not empty");
            inbox_cell(inbox_row.get_or_insert_with(|| InboxRow::new(conversation)), of, &key, &value)?;
        }
        Ok(inbox_row)
    }

    async fn members(&self, conversation: ConversationId, after: Option<UserId>, limit: usize) -> Result<Vec<MemberRow>, StoreError> {
        let start = Key::new(keys::MEMBER).conversation(conversation);
        let after = after.map_or_else(|| start.clone(), |after| keys::member(conversation, &after, keys::cell::END));
        let mut rows: Vec<MemberRow> = Vec::new();
        for found in from_to(&self.tree.snapshot(), &after, &start)? {
            let (key, value) = found?;
            let (user, of) = user_and_cell(&key, start.len())?;
            if rows.last().is_none_or(|last| last.user != user) {
                if rows.len() == limit {
                    break;
                }
                rows.push(MemberRow::new(user));
            }
            let member = rows.last_mut().expect("pushed above");
            let (seq, n) = row(&key, &value)?;
            match of {
                keys::cell::READ => member.read = Mark { n, seq },
                keys::cell::DELIVERED => member.delivered = Mark { n, seq },
                _ => return Err(StoreError::Corrupt(format!("member row {}", key.escape_ascii()))),
            }
        }
        Ok(rows)
    }

    async fn mark_delivered(&self, conversation: ConversationId, user: &UserId, mark: Mark) -> Result<(), StoreError> {
        self.raise_delivered(conversation, user.clone(), mark)
    }

    async fn standings(&self, user: &UserId, after: Option<&UserId>, limit: usize) -> Result<Vec<Standing>, StoreError> {
        let start = Key::new(keys::STANDING).owner(user);
        let after = after.map_or_else(|| start.clone(), |after| keys::standing(user, after, keys::cell::END));
        let mut rows: Vec<Standing> = Vec::new();
        for found in from_to(&self.tree.snapshot(), &after, &start)? {
            let (key, value) = found?;
            let (other, of) = user_and_cell(&key, start.len())?;
            if rows.last().is_none_or(|last| last.other != other) {
                if rows.len() == limit {
                    break;
                }
                rows.push(Standing::new(other));
            }
            let standing = rows.last_mut().expect("pushed above");
            let (at, value) = row(&key, &value)?;
            match of {
                keys::cell::BLOCKED_BY_ME => standing.blocked_by_me = Some(Cell { at, value }),
                keys::cell::BLOCKED_ME => standing.blocked_me = Some(Cell { at, value }),
                _ => return Err(StoreError::Corrupt(format!("standing {}", key.escape_ascii()))),
            }
        }
        Ok(rows)
    }

    async fn feed(&self, user: &UserId, after: FeedKey, limit: usize) -> Result<Vec<FeedRow>, StoreError> {
        let start = Key::new(keys::FEED).owner(user);
        let rows = from_to(&self.tree.snapshot(), &keys::feed(user, &after), &start)?;
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

    async fn parked(&self, limit: usize) -> Result<Vec<Parked>, StoreError> {
        let snapshot = self.tree.snapshot();
        let mut keys: Vec<Parked> = Vec::new();
        let mut after = Key::new(keys::PARKED);
        while keys.len() < limit {
            let Some(found) = snapshot.range((Bound::Excluded(&after[..]), Bound::Excluded(&[keys::PARKED + 1][..])))?.next() else {
                break;
            };
            let (found, _) = found?;
            let key: LogKey =
                decode(&found[1..]).map_err(|error| StoreError::Corrupt(format!("parked {}: {error}", found.escape_ascii())))?;
            // On to the next key: past every seq of this one.
            after = Key::new(keys::PARKED).bytes(&encode(&key)).seq(Seq::MAX);
            let replays = replays(&snapshot, &key)?;
            let from = replays.iter().map(|replay| replay.to).max().unwrap_or(Seq::ZERO);
            let first = self.parked_rows(&key, from, 1).await?.first().map(|row| row.at);
            keys.push(Parked { key, first, replays });
        }
        Ok(keys)
    }

    async fn parked_rows(&self, key: &LogKey, from: Seq, limit: usize) -> Result<Vec<ParkedRow>, StoreError> {
        let (from, to) = (keys::parked(key, from), keys::parked(key, Seq::MAX));
        let mut rows = Vec::new();
        for row in self.tree.snapshot().range((Bound::Included(&from[..]), Bound::Included(&to[..])))?.take(limit) {
            let (found, value) = row?;
            let corrupt = || StoreError::Corrupt(format!("parked {}", found.escape_ascii()));
            let at = keys::last_number(&found).and_then(Seq::from_u64).ok_or_else(corrupt)?;
            let (time, bytes) = value.split_first_chunk().ok_or_else(corrupt)?;
            rows.push(ParkedRow { at, time: Millis(u64::from_be_bytes(*time)), bytes: bytes::Bytes::copy_from_slice(bytes) });
        }
        Ok(rows)
    }

    async fn outcome(&self, conversation: ConversationId, seq: Seq) -> Result<Option<OutcomeRow>, StoreError> {
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

/// Of those under one unpark event, the one that came furthest.
fn replays(snapshot: &Snapshot, key: &LogKey) -> Result<Vec<Replay>, StoreError> {
    let (first, last) = (keys::replay(key, Seq::ZERO), keys::replay(key, Seq::MAX).seq(Seq::MAX));
    let mut replays: Vec<Replay> = Vec::new();
    for row in snapshot.range((Bound::Included(&first[..]), Bound::Included(&last[..])))? {
        let (found, value) = row?;
        let corrupt = || StoreError::Corrupt(format!("replay {}", found.escape_ascii()));
        let (rest, to) = found.split_last_chunk::<8>().ok_or_else(corrupt)?;
        let at = keys::last_number(rest).and_then(Seq::from_u64).ok_or_else(corrupt)?;
        let to = Seq::from_u64(u64::from_be_bytes(*to)).ok_or_else(corrupt)?;
        let (time, from) = decode(&value).map_err(|error| StoreError::Corrupt(format!("replay {}: {error}", found.escape_ascii())))?;
        replays.pop_if(|replay| replay.at == at);
        replays.push(Replay { at, time, from, to });
    }
    Ok(replays)
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

/// A cell's value without its time.
fn cell<T: for<'b> minicbor::Decode<'b, ()>>(snapshot: &Snapshot, key: &[u8]) -> Result<Option<T>, StoreError> {
    Ok(get(snapshot, key)?.map(|(_, value): (Seq, T)| value))
}

fn inbox_cell(into: &mut InboxRow, of: u8, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
    fn timed<T: for<'b> minicbor::Decode<'b, ()>>(key: &[u8], value: &[u8]) -> Result<Option<Cell<T>>, StoreError> {
        let (at, value) = row(key, value)?;
        Ok(Some(Cell { at, value }))
    }
    let mark = || row(key, value).map(|(seq, n)| Mark { n, seq });
    match of {
        keys::cell::TIP => into.tip = timed(key, value)?,
        keys::cell::DELETED => into.deleted = timed(key, value)?,
        keys::cell::ARCHIVED => into.archived = timed(key, value)?,
        keys::cell::VEILED => into.veiled = timed(key, value)?,
        keys::cell::SEEN => into.seen = mark()?,
        keys::cell::HIDDEN => into.hidden = mark()?,
        _ => return Err(StoreError::Corrupt(format!("inbox row {}", key.escape_ascii()))),
    }
    Ok(())
}

/// What a key ends with: a user, a zero byte, a cell's letter.
fn user_and_cell(key: &[u8], start: usize) -> Result<(UserId, u8), StoreError> {
    let corrupt = || StoreError::Corrupt(format!("row {}", key.escape_ascii()));
    let (user, end) = key[start..].split_last_chunk().ok_or_else(corrupt)?;
    let [0, of] = *end else { return Err(corrupt()) };
    let user = std::str::from_utf8(user).ok().and_then(|user| UserId::parse(user).ok());
    Ok((user.ok_or_else(corrupt)?, of))
}

/// Rows behind a key, as far as they begin like `start`.
fn from_to(snapshot: &Snapshot, after: &[u8], start: &[u8]) -> Result<Rows, StoreError> {
    let end = end_of(start);
    Ok(snapshot.range((Bound::Excluded(after), end.as_deref().map_or(Bound::Unbounded, Bound::Excluded)))?)
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
