//! Writes: merges a batch into the rows that are there, and hands them to the tree in one piece, in the order of their keys.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
    sync::atomic::Ordering,
};

use dunlin_model::{
    BlockRow, Cell, ConversationId, DedupRow, EventId, Head, InboxRow, Mark, MemberRow, MessageRow, Millis, Offset, Pair, Partition,
    Register, Revision, Seq, Standing, UserId, encode,
};
use dunlin_ports::{Batch, Checkpoint, StoreError, Write};
use minicbor::{Decode, Encode};

use super::{Messages, get, keys};
use crate::tree::Snapshot;

/// How many inbox rows are remembered as they were last written.
const RECENT_ROWS_MAX: usize = 20_000;

/// Inbox rows written lately: a conversation that goes on touches the same ones again and again.
#[derive(Default)]
pub struct Recent {
    inbox: HashMap<Vec<u8>, InboxRow>,
}

/// A checkpoint as it is stored.
#[derive(Encode, Decode)]
pub(super) struct StoredCheckpoint {
    #[n(0)]
    offset: u64,
    #[n(1)]
    log_time: Millis,
    #[n(2)]
    event_id: EventId,
}

impl From<Checkpoint> for StoredCheckpoint {
    fn from(checkpoint: Checkpoint) -> StoredCheckpoint {
        StoredCheckpoint { offset: checkpoint.offset.0, log_time: checkpoint.log_time, event_id: checkpoint.event_id }
    }
}

impl From<StoredCheckpoint> for Checkpoint {
    fn from(stored: StoredCheckpoint) -> Checkpoint {
        Checkpoint { offset: Offset(stored.offset), log_time: stored.log_time, event_id: stored.event_id }
    }
}

impl Messages {
    /// All of the batch becomes visible at once, so its order within does not matter.
    pub(super) fn apply_batch(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut recent = self.writer();
        let snapshot = self.tree.snapshot();
        let applied = snapshot.applied();
        let mut merge = Merge { snapshot, recent: &recent, rows: Vec::with_capacity(batch.writes.len() + 8), changed: Changed::default() };
        // Whatever stands above the applied position was never written: no need to look.
        let fresh_above = match (&batch.checkpoint, applied) {
            (Some(_), Some(applied)) => Some(Seq::new(self.epoch, Offset(applied.saturating_sub(1)))),
            (Some(_), None) => Some(Seq::ZERO),
            (None, _) => None,
        };
        for write in &batch.writes {
            merge.write(write, fresh_above)?;
        }
        for (conversation, head) in &batch.heads {
            merge.head(*conversation, head, fresh_above)?;
        }
        let mut next = applied.unwrap_or(0);
        if let Some((partition, checkpoint)) = batch.checkpoint {
            next = next.max(checkpoint.offset.0 + 1);
            merge.checkpoint(partition, checkpoint)?;
            self.now.fetch_max(checkpoint.log_time.0, Ordering::Relaxed);
        }
        let Merge { mut rows, changed, .. } = merge;
        let inbox = changed.encode_into(&mut rows);
        rows.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        self.tree.apply(rows.into_iter().map(|(key, value)| (key, Some(value))), next)?;
        recent.remember(inbox);
        Ok(())
    }

    pub(super) fn raise_delivered(&self, conversation: ConversationId, user: UserId, mark: Mark) -> Result<(), StoreError> {
        let write = Write::Mark { user, conversation, register: Register::Delivered, mark };
        self.apply_batch(&Batch { writes: vec![write], ..Batch::default() })
    }
}

impl Recent {
    fn remember(&mut self, rows: HashMap<Vec<u8>, InboxRow>) {
        if self.inbox.len() > RECENT_ROWS_MAX {
            self.inbox.clear();
        }
        self.inbox.extend(rows);
    }
}

/// Rows of a batch that several writes may touch.
#[derive(Default)]
struct Changed<'a> {
    inbox: HashMap<Vec<u8>, InboxRow>,
    members: HashMap<Vec<u8>, MemberRow>,
    messages: HashMap<Vec<u8>, Cow<'a, MessageRow>>,
    dedup: HashMap<Vec<u8>, Vec<DedupRow>>,
    blocks: HashMap<Vec<u8>, Vec<BlockRow>>,
    standings: HashMap<Vec<u8>, Standing>,
    reactions: HashMap<Vec<u8>, Cell<bool>>,
}

impl Changed<'_> {
    /// Adds all rows, and gives back those of inboxes.
    fn encode_into(self, rows: &mut Vec<(Vec<u8>, Vec<u8>)>) -> HashMap<Vec<u8>, InboxRow> {
        fn all<T: Encode<()>>(changed: HashMap<Vec<u8>, T>, rows: &mut Vec<(Vec<u8>, Vec<u8>)>) {
            rows.extend(changed.into_iter().map(|(key, row)| (key, encode(&row))));
        }
        all(self.members, rows);
        all(self.dedup, rows);
        all(self.blocks, rows);
        all(self.standings, rows);
        all(self.reactions, rows);
        rows.extend(self.messages.into_iter().map(|(key, row)| (key, encode(&*row))));
        rows.extend(self.inbox.iter().map(|(key, row)| (key.clone(), encode(row))));
        self.inbox
    }
}

struct Merge<'a, 'r> {
    snapshot: Snapshot,
    recent: &'r Recent,
    /// Rows that only one write of a batch touches.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    changed: Changed<'a>,
}

impl<'a> Merge<'a, '_> {
    fn write(&mut self, write: &'a Write, fresh_above: Option<Seq>) -> Result<(), StoreError> {
        match write {
            Write::Message { conversation, row } => self.message(*conversation, row, fresh_above)?,
            Write::Revision { conversation, target, revision, .. } => self.revise(*conversation, *target, revision)?,
            Write::Edit { conversation, target, row } => self.put(keys::edit(*conversation, *target, row.at), row),
            Write::Index { conversation, row } => {
                self.put(keys::index(*conversation, row.n), row);
                self.put(keys::index_time(*conversation, row.at, row.n), row);
            }
            Write::DeletedNumber { conversation, n, at } => self.put(keys::deleted(*conversation, *n), at),
            Write::Hidden { user, conversation, target, at } => self.put(keys::hidden(user, *conversation, *target), at),
            Write::Reaction { conversation, target, user, emoji, on, .. } => {
                let key = keys::reaction(*conversation, *target, user, emoji);
                let row = touch(&mut self.changed.reactions, key, &self.snapshot, || Cell { at: Seq::ZERO, value: false })?;
                if row.at <= on.at {
                    *row = on.clone();
                }
            }
            Write::InboxTip { user, conversation, tip } => Cell::merge(&mut self.inbox(user, *conversation)?.tip, tip.clone()),
            Write::InboxDeleted { user, conversation, deleted } => {
                Cell::merge(&mut self.inbox(user, *conversation)?.deleted, deleted.clone())
            }
            Write::InboxArchived { user, conversation, archived } => {
                Cell::merge(&mut self.inbox(user, *conversation)?.archived, archived.clone())
            }
            Write::InboxVeiled { user, conversation, veiled } => Cell::merge(&mut self.inbox(user, *conversation)?.veiled, veiled.clone()),
            Write::Mark { user, conversation, register, mark } => self.mark(user, *conversation, *register, *mark)?,
            Write::Block(row) => self.block(row)?,
            // The key says the rest.
            Write::Feed { user, row } => self.put(keys::feed(user, &row.key), &(row.what, row.target)),
            Write::Dedup { key, row } => {
                let rows = match fresh_above {
                    // Older rows under this client id are never asked for again: only events below this one would.
                    Some(above) if row.seq > above => self.changed.dedup.entry(keys::dedup(key)).or_default(),
                    _ => touch(&mut self.changed.dedup, keys::dedup(key), &self.snapshot, Vec::new)?,
                };
                rows.retain(|other: &DedupRow| other.seq != row.seq);
                rows.push(*row);
                rows.sort_unstable_by_key(|row| row.seq);
                if rows.len() > DEDUP_ROWS_MAX {
                    rows.remove(0);
                }
            }
            Write::Outcome { conversation, at, outcome } => self.put(keys::outcome(*conversation, *at), outcome),
            Write::Parked { key, at, bytes, .. } => self.rows.push((keys::parked(key, *at), bytes.to_vec())),
        }
        Ok(())
    }

    fn put<T: Encode<()>>(&mut self, key: Vec<u8>, row: &T) {
        self.rows.push((key, encode(row)));
    }

    /// As it was sent, with the revision that it may have already.
    fn message(&mut self, conversation: ConversationId, row: &'a MessageRow, fresh_above: Option<Seq>) -> Result<(), StoreError> {
        let key = keys::message(conversation, row.seq);
        let there = match self.changed.messages.remove(&key) {
            Some(there) => Some(there.into_owned()),
            None if fresh_above.is_some_and(|above| row.seq > above) => None,
            None => get(&self.snapshot, &key)?,
        };
        let mut row = Cow::Borrowed(row);
        if let Some(revision) = there.and_then(|there: MessageRow| there.revision) {
            row.to_mut().revise(revision);
        }
        self.changed.messages.insert(key, row);
        Ok(())
    }

    fn revise(&mut self, conversation: ConversationId, target: Seq, revision: &Cell<Revision>) -> Result<(), StoreError> {
        let key = keys::message(conversation, target);
        let missing = || StoreError::Corrupt(format!("revision of a message that is not there: {conversation} {target}"));
        let mut row = match self.changed.messages.remove(&key) {
            Some(row) => row.into_owned(),
            None => get(&self.snapshot, &key)?.ok_or_else(missing)?,
        };
        row.revise(revision.clone());
        self.changed.messages.insert(key, Cow::Owned(row));
        Ok(())
    }

    fn head(&mut self, conversation: ConversationId, head: &Head, fresh_above: Option<Seq>) -> Result<(), StoreError> {
        let key = keys::head(conversation);
        let newer = fresh_above.is_some_and(|above| head.applied > above)
            || get(&self.snapshot, &key)?.is_none_or(|there: Head| there.applied <= head.applied);
        if newer {
            self.put(key, head);
        }
        Ok(())
    }

    fn checkpoint(&mut self, partition: Partition, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let key = keys::checkpoint(partition);
        let there: Option<StoredCheckpoint> = get(&self.snapshot, &key)?;
        if there.is_none_or(|there| there.offset <= checkpoint.offset.0) {
            self.put(key, &StoredCheckpoint::from(checkpoint));
        }
        Ok(())
    }

    fn inbox(&mut self, user: &UserId, conversation: ConversationId) -> Result<&mut InboxRow, StoreError> {
        match self.changed.inbox.entry(keys::inbox(user, conversation)) {
            Entry::Occupied(row) => Ok(row.into_mut()),
            Entry::Vacant(place) => {
                let row = match self.recent.inbox.get(place.key()) {
                    Some(row) => row.clone(),
                    None => get(&self.snapshot, place.key())?.unwrap_or_else(|| InboxRow::new(conversation)),
                };
                Ok(place.insert(row))
            }
        }
    }

    fn mark(&mut self, user: &UserId, conversation: ConversationId, register: Register, mark: Mark) -> Result<(), StoreError> {
        match register {
            Register::Seen => self.inbox(user, conversation)?.seen.raise(mark),
            Register::Hidden => self.inbox(user, conversation)?.hidden.raise(mark),
            Register::Read => self.member(user, conversation)?.read.raise(mark),
            Register::Delivered => self.member(user, conversation)?.delivered.raise(mark),
        }
        Ok(())
    }

    fn member(&mut self, user: &UserId, conversation: ConversationId) -> Result<&mut MemberRow, StoreError> {
        touch(&mut self.changed.members, keys::member(conversation, user), &self.snapshot, || MemberRow::new(user.clone()))
    }

    fn block(&mut self, row: &BlockRow) -> Result<(), StoreError> {
        let pair = Pair::new(row.blocker.clone(), row.blocked.clone());
        for user in pair.users() {
            let other = pair.other(user);
            let key = keys::standing(user, other);
            touch(&mut self.changed.standings, key, &self.snapshot, || Standing::new(other.clone()))?.merge(user, row);
        }
        let rows = touch(&mut self.changed.blocks, keys::blocks(&pair.log_key()), &self.snapshot, Vec::new)?;
        rows.retain(|other: &BlockRow| other.at != row.at);
        rows.push(row.clone());
        rows.sort_unstable_by_key(|row| row.at);
        // Nothing below the applied position is ever judged again, so a row that a newer one of its direction has replaced can go.
        if rows.len() > BLOCK_ROWS_MAX
            && let Some(replaced) = (0..rows.len()).find(|at| rows[at + 1..].iter().any(|newer| newer.blocker == rows[*at].blocker))
        {
            rows.remove(replaced);
        }
        Ok(())
    }
}

/// How many block rows of a pair are kept, and how many messages under one client id.
const BLOCK_ROWS_MAX: usize = 64;
const DEDUP_ROWS_MAX: usize = 8;

/// The row as the batch has it so far, as it is stored, or new.
fn touch<'m, T: for<'b> Decode<'b, ()>>(
    changed: &'m mut HashMap<Vec<u8>, T>,
    key: Vec<u8>,
    snapshot: &Snapshot,
    new: impl FnOnce() -> T,
) -> Result<&'m mut T, StoreError> {
    match changed.entry(key) {
        Entry::Occupied(row) => Ok(row.into_mut()),
        Entry::Vacant(place) => {
            let row = get(snapshot, place.key())?;
            Ok(place.insert(row.unwrap_or_else(new)))
        }
    }
}
