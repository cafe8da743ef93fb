//! Writes: brings a batch into the order of keys and hands it to the tree in one piece.
//!
//! Of two writes to one cell the later stands. What a batch from the log writes is later than everything applied before it, so it
//! is written without looking; anything else (a mark of an older message, a batch without a checkpoint) is compared with what is there.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
    sync::atomic::Ordering,
};

use dunlin_model::{
    BlockRow, Cell, ConversationId, DedupKey, DedupRow, EventId, Mark, MessageRow, Millis, Offset, Pair, Partition, Register, Revision,
    Seq, UserId, encode,
};
use dunlin_ports::{Batch, Checkpoint, StoreError, Write};
use minicbor::{Decode, Encode};

use super::{
    Messages, get,
    keys::{self, cell},
    row,
};
use crate::tree::Snapshot;

/// How many block rows of a pair are kept, and how many messages under one client id.
const BLOCK_ROWS_MAX: usize = 64;
const DEDUP_ROWS_MAX: usize = 8;

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
        let _one_at_a_time = self.writer();
        let snapshot = self.tree.snapshot();
        let applied = snapshot.applied();
        let fresh_above = batch.checkpoint.map(|_| match applied {
            Some(applied) => Seq::new(self.epoch, Offset(applied.saturating_sub(1))),
            None => Seq::ZERO,
        });
        let mut merge = Merge::new(snapshot, fresh_above, batch.writes.len());
        for write in &batch.writes {
            merge.write(write)?;
        }
        for (conversation, head) in &batch.heads {
            merge.cell(keys::head(*conversation), head.applied, head)?;
        }
        let mut next = applied.unwrap_or(0);
        if let Some((partition, checkpoint)) = batch.checkpoint {
            next = next.max(checkpoint.offset.0 + 1);
            merge.checkpoint(partition, checkpoint)?;
            self.now.fetch_max(checkpoint.log_time.0, Ordering::Relaxed);
        }
        let mut rows = merge.into_rows();
        rows.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        self.tree.apply(rows.into_iter().map(|(key, value)| (key, Some(value))), next)?;
        Ok(())
    }

    pub(super) fn raise_delivered(&self, conversation: ConversationId, user: UserId, mark: Mark) -> Result<(), StoreError> {
        let write = Write::Mark { user, conversation, register: Register::Delivered, mark };
        self.apply_batch(&Batch { writes: vec![write], ..Batch::default() })
    }
}

struct Merge<'a> {
    snapshot: Snapshot,
    /// Nothing that is stored is later than this; none if that is not known.
    fresh_above: Option<Seq>,
    /// Rows that are written once.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Cells, with the time of the latest write to each.
    cells: HashMap<Vec<u8>, (Seq, Vec<u8>)>,
    messages: HashMap<Vec<u8>, Cow<'a, MessageRow>>,
    dedup: HashMap<Vec<u8>, Vec<DedupRow>>,
    blocks: HashMap<Vec<u8>, Vec<BlockRow>>,
}

impl<'a> Merge<'a> {
    fn new(snapshot: Snapshot, fresh_above: Option<Seq>, writes: usize) -> Merge<'a> {
        let rows = Vec::with_capacity(writes);
        Merge {
            snapshot,
            fresh_above,
            rows,
            cells: HashMap::new(),
            messages: HashMap::new(),
            dedup: HashMap::new(),
            blocks: HashMap::new(),
        }
    }

    fn write(&mut self, write: &'a Write) -> Result<(), StoreError> {
        match write {
            Write::Message { conversation, row } => self.message(*conversation, row)?,
            Write::Revision { conversation, target, revision, .. } => self.revise(*conversation, *target, revision)?,
            Write::Edit { conversation, target, row } => self.put(keys::edit(*conversation, *target, row.at), row),
            Write::Index { conversation, row } => {
                self.put(keys::index(*conversation, row.n), row);
                self.put(keys::index_time(*conversation, row.at, row.n), row);
            }
            Write::DeletedNumber { conversation, n, at } => self.put(keys::deleted(*conversation, *n), at),
            Write::Hidden { user, conversation, target, at } => self.put(keys::hidden(user, *conversation, *target), at),
            Write::Reaction { conversation, target, user, emoji, on, .. } => {
                self.cell(keys::reaction(*conversation, *target, user, emoji), on.at, &on.value)?;
            }
            Write::InboxTip { user, conversation, tip } => self.cell(keys::inbox(user, *conversation, cell::TIP), tip.at, &tip.value)?,
            Write::InboxDeleted { user, conversation, deleted } => {
                self.cell(keys::inbox(user, *conversation, cell::DELETED), deleted.at, &deleted.value)?;
            }
            Write::InboxArchived { user, conversation, archived } => {
                self.cell(keys::inbox(user, *conversation, cell::ARCHIVED), archived.at, &archived.value)?;
            }
            Write::InboxVeiled { user, conversation, veiled } => {
                self.cell(keys::inbox(user, *conversation, cell::VEILED), veiled.at, &veiled.value)?;
            }
            Write::Mark { user, conversation, register, mark } => self.mark(user, *conversation, *register, *mark)?,
            Write::Block(row) => self.block(row)?,
            // The key says the rest.
            Write::Feed { user, row } => self.put(keys::feed(user, &row.key), &(row.what, row.target)),
            Write::Dedup { key, row } => self.dedup(key, row)?,
            Write::Outcome { conversation, at, outcome } => self.put(keys::outcome(*conversation, *at), outcome),
            Write::Parked { key, at, bytes, .. } => self.rows.push((keys::parked(key, *at), bytes.to_vec())),
        }
        Ok(())
    }

    fn put<T: Encode<()>>(&mut self, key: Vec<u8>, row: &T) {
        self.rows.push((key, encode(row)));
    }

    /// Writes a cell unless a later write to it is there. Its time is stored with it.
    fn cell<T: Encode<()>>(&mut self, key: Vec<u8>, at: Seq, value: &T) -> Result<(), StoreError> {
        let is_fresh = self.is_fresh(at);
        match self.cells.entry(key) {
            Entry::Occupied(mut there) => {
                if there.get().0 <= at {
                    there.insert((at, encode(&(at, value))));
                }
            }
            Entry::Vacant(place) => {
                let is_later = is_fresh || time_of(&self.snapshot, place.key())?.is_none_or(|there| there <= at);
                if is_later {
                    place.insert((at, encode(&(at, value))));
                }
            }
        }
        Ok(())
    }

    fn is_fresh(&self, at: Seq) -> bool {
        self.fresh_above.is_some_and(|above| at > above)
    }

    /// A mark is ordered by the message that it marks, so that it never falls.
    fn mark(&mut self, user: &UserId, conversation: ConversationId, register: Register, mark: Mark) -> Result<(), StoreError> {
        let key = match register {
            Register::Seen => keys::inbox(user, conversation, cell::SEEN),
            Register::Hidden => keys::inbox(user, conversation, cell::HIDDEN),
            Register::Read => keys::member(conversation, user, cell::READ),
            Register::Delivered => keys::member(conversation, user, cell::DELIVERED),
        };
        self.cell(key, mark.seq, &mark.n)
    }

    /// As it was sent, with the revision that it may have already.
    fn message(&mut self, conversation: ConversationId, row: &'a MessageRow) -> Result<(), StoreError> {
        let key = keys::message(conversation, row.seq);
        let there = match self.messages.remove(&key) {
            Some(there) => Some(there.into_owned()),
            None if self.is_fresh(row.seq) => None,
            None => get(&self.snapshot, &key)?,
        };
        let mut row = Cow::Borrowed(row);
        if let Some(revision) = there.and_then(|there: MessageRow| there.revision) {
            row.to_mut().revise(revision);
        }
        self.messages.insert(key, row);
        Ok(())
    }

    fn revise(&mut self, conversation: ConversationId, target: Seq, revision: &Cell<Revision>) -> Result<(), StoreError> {
        let key = keys::message(conversation, target);
        let missing = || StoreError::Corrupt(format!("revision of a message that is not there: {conversation} {target}"));
        let mut row = match self.messages.remove(&key) {
            Some(row) => row.into_owned(),
            None => get(&self.snapshot, &key)?.ok_or_else(missing)?,
        };
        row.revise(revision.clone());
        self.messages.insert(key, Cow::Owned(row));
        Ok(())
    }

    fn dedup(&mut self, key: &DedupKey, row: &DedupRow) -> Result<(), StoreError> {
        // Older rows under this client id are never asked for again: only events below this one would.
        let is_fresh = self.is_fresh(row.seq);
        let rows = match self.dedup.entry(keys::dedup(key)) {
            Entry::Occupied(rows) => rows.into_mut(),
            Entry::Vacant(place) if is_fresh => place.insert(Vec::new()),
            Entry::Vacant(place) => {
                let rows = get(&self.snapshot, place.key())?;
                place.insert(rows.unwrap_or_default())
            }
        };
        rows.retain(|other| other.seq != row.seq);
        rows.push(*row);
        rows.sort_unstable_by_key(|row| row.seq);
        if rows.len() > DEDUP_ROWS_MAX {
            rows.remove(0);
        }
        Ok(())
    }

    fn block(&mut self, row: &BlockRow) -> Result<(), StoreError> {
        let since = row.on.then_some(row.since);
        self.cell(keys::standing(&row.blocker, &row.blocked, cell::BLOCKED_BY_ME), row.at, &since)?;
        self.cell(keys::standing(&row.blocked, &row.blocker, cell::BLOCKED_ME), row.at, &since)?;
        let pair = Pair::new(row.blocker.clone(), row.blocked.clone());
        let rows = match self.blocks.entry(keys::blocks(&pair.log_key())) {
            Entry::Occupied(rows) => rows.into_mut(),
            Entry::Vacant(place) => {
                let rows = get(&self.snapshot, place.key())?;
                place.insert(rows.unwrap_or_default())
            }
        };
        rows.retain(|other| other.at != row.at);
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

    fn checkpoint(&mut self, partition: Partition, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let key = keys::checkpoint(partition);
        let there: Option<StoredCheckpoint> = get(&self.snapshot, &key)?;
        if there.is_none_or(|there| there.offset <= checkpoint.offset.0) {
            self.put(key, &StoredCheckpoint::from(checkpoint));
        }
        Ok(())
    }

    fn into_rows(self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = self.rows;
        rows.extend(self.cells.into_iter().map(|(key, (_, value))| (key, value)));
        rows.extend(self.messages.into_iter().map(|(key, row)| (key, encode(&*row))));
        rows.extend(self.dedup.into_iter().map(|(key, row)| (key, encode(&row))));
        rows.extend(self.blocks.into_iter().map(|(key, row)| (key, encode(&row))));
        rows
    }
}

/// When a stored cell was written.
fn time_of(snapshot: &Snapshot, key: &[u8]) -> Result<Option<Seq>, StoreError> {
    let Some(bytes) = snapshot.get(key)? else { return Ok(None) };
    let Time(at) = row(key, &bytes)?;
    Ok(Some(at))
}

/// The time of a stored cell, whatever its value.
struct Time(Seq);

impl<'b, C> Decode<'b, C> for Time {
    fn decode(d: &mut minicbor::Decoder<'b>, c: &mut C) -> Result<Time, minicbor::decode::Error> {
        d.array()?;
        d.decode_with(c).map(Time)
    }
}
