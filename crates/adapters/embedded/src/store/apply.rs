//! Writes: brings a batch into the order of keys and hands it to the tree in one piece.
//!
//! Of two writes to one cell the later stands. What a batch from the log writes is later than everything applied before it, so it
//! is written without looking; anything else (a mark of an older message, a batch without a checkpoint) is compared with what is there.

use std::{borrow::Cow, sync::atomic::Ordering};

use byteview::ByteView;
use dunlin_model::{
    BlockRow, Cell, ConversationId, DedupRow, Epoch, EventId, Mark, MessageRow, Millis, Offset, Pair, Partition, Register, Revision, Seq,
    UserId, encode_to,
};
use dunlin_ports::{Batch, Checkpoint, StoreError, Write};
use minicbor::{Decode, Encode};

use super::{
    Messages, get,
    keys::{self, cell},
    row,
    unseen::Unseen,
};
use crate::tree::{Slice, Snapshot};

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
        StoredCheckpoint { offset: checkpoint.seq.offset().0, log_time: checkpoint.log_time, event_id: checkpoint.event_id }
    }
}

impl StoredCheckpoint {
    pub(super) fn of(self, epoch: Epoch) -> Checkpoint {
        Checkpoint { seq: Seq::new(epoch, Offset(self.offset)), log_time: self.log_time, event_id: self.event_id }
    }
}

impl Messages {
    /// All of the batch becomes visible at once, so its order within does not matter.
    pub(super) fn apply_batch(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut one_at_a_time = self.writer();
        let Buffers { collected, merged } = &mut *one_at_a_time;
        let snapshot = self.tree.snapshot();
        let applied = snapshot.applied();
        let fresh_above = batch.checkpoint.map(|_| match applied {
            Some(applied) => Seq::new(self.epoch, Offset(applied.saturating_sub(1))),
            None => Seq::ZERO,
        });
        collected.clear();
        let entries = Vec::with_capacity(batch.writes.len() + batch.heads.len() + 1);
        let mut rows = Rows { snapshot, fresh_above, unseen: &self.unseen, entries, bytes: collected };
        for write in &batch.writes {
            rows.write(write);
        }
        for (conversation, head) in &batch.heads {
            rows.cell(&keys::head(*conversation), head.applied, head);
        }
        let mut next = applied.unwrap_or(0);
        if let Some((partition, checkpoint)) = batch.checkpoint {
            next = next.max(checkpoint.seq.offset().0 + 1);
            rows.checkpoint(partition, checkpoint)?;
            self.now.fetch_max(checkpoint.log_time.0, Ordering::Relaxed);
        }
        merged.clear();
        self.tree.apply(rows.merge_into(merged)?, next)?;
        one_at_a_time.shrink();
        Ok(())
    }

    pub(super) fn raise_delivered(&self, conversation: ConversationId, user: UserId, mark: Mark) -> Result<(), StoreError> {
        let write = Write::Mark { user, conversation, register: Register::Delivered, mark };
        self.apply_batch(&Batch { writes: vec![write], ..Batch::default() })
    }
}

/// Used again for every batch: memory that is new each time costs more than what is done with it.
#[derive(Default)]
pub(super) struct Buffers {
    collected: Vec<u8>,
    merged: Vec<u8>,
}

impl Buffers {
    /// Lets go of what an exceptional batch needed.
    fn shrink(&mut self) {
        const KEPT_BYTES: usize = 16 << 20;
        self.collected.clear();
        self.merged.clear();
        self.collected.shrink_to(KEPT_BYTES);
        self.merged.shrink_to(KEPT_BYTES);
    }
}

/// The rows of a batch. They are collected in whatever order they come; sorting brings those together that go to one key.
struct Rows<'a> {
    snapshot: Snapshot,
    /// Nothing that is stored is later than this; none if that is not known.
    fresh_above: Option<Seq>,
    unseen: &'a Unseen,
    entries: Vec<Entry<'a>>,
    /// Keys and values of `entries`, one after the other.
    bytes: &'a mut Vec<u8>,
}

struct Entry<'a> {
    /// The beginning of the key, as a number: most comparisons need no more.
    prefix: u64,
    key: Span,
    what: What<'a>,
}

#[derive(Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
}

/// What is written to a key.
enum What<'a> {
    /// Written once.
    Row(Span),
    /// Of several writes to a cell the latest stands.
    Cell(Seq, Span),
    Message(&'a MessageRow),
    Revision(&'a Cell<Revision>),
    Dedup(&'a DedupRow),
    Block(&'a BlockRow),
}

impl<'a> Rows<'a> {
    fn write(&mut self, write: &'a Write) {
        match write {
            Write::Message { conversation, row } => self.push(&keys::message(*conversation, row.seq), |_| What::Message(row)),
            Write::Revision { conversation, target, revision, .. } => {
                self.push(&keys::message(*conversation, *target), |_| What::Revision(revision));
            }
            Write::Edit { conversation, target, row } => self.row(&keys::edit(*conversation, *target, row.at), row),
            Write::Index { conversation, row } => {
                self.row(&keys::index(*conversation, row.n), row);
                self.row(&keys::index_time(*conversation, row.at, row.n), row);
            }
            Write::DeletedNumber { conversation, n, at } => self.row(&keys::deleted(*conversation, *n), at),
            Write::Hidden { user, conversation, target, at } => self.row(&keys::hidden(user, *conversation, *target), at),
            Write::Reaction { conversation, target, user, emoji, on, .. } => {
                self.cell(&keys::reaction(*conversation, *target, user, emoji), on.at, &on.value);
            }
            Write::InboxTip { user, conversation, tip } => self.cell(&keys::inbox(user, *conversation, cell::TIP), tip.at, &tip.value),
            Write::InboxDeleted { user, conversation, deleted } => {
                self.cell(&keys::inbox(user, *conversation, cell::DELETED), deleted.at, &deleted.value);
            }
            Write::InboxArchived { user, conversation, archived } => {
                self.cell(&keys::inbox(user, *conversation, cell::ARCHIVED), archived.at, &archived.value);
            }
            Write::InboxVeiled { user, conversation, veiled } => {
                self.cell(&keys::inbox(user, *conversation, cell::VEILED), veiled.at, &veiled.value);
            }
            Write::Mark { user, conversation, register, mark } => self.mark(user, *conversation, *register, *mark),
            Write::Block(row) => self.block(row),
            // The key says the rest.
            Write::Feed { user, row } => self.row(&keys::feed(user, &row.key), &(row.what, row.target)),
            Write::Dedup { key, row } => {
                let hash = key.hash();
                self.unseen.add(&hash);
                self.push(&keys::dedup(&hash), |_| What::Dedup(row));
            }
            Write::Outcome { conversation, at, row } => self.row(&keys::outcome(*conversation, *at), row),
            Write::Parked { key, at, time, bytes } => self.push(&keys::parked(key, *at), |into| {
                let start = into.len();
                into.extend_from_slice(&time.0.to_be_bytes());
                into.extend_from_slice(bytes);
                What::Row(Span { start, end: into.len() })
            }),
            // How far it came is part of the key: the furthest stands.
            Write::Unparked { key, replay } => self.row(&keys::replay(key, replay.at).seq(replay.to), &(replay.time, replay.from)),
        }
    }

    fn push(&mut self, key: &[u8], what: impl FnOnce(&mut Vec<u8>) -> What<'a>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let end = self.bytes.len();
        let mut prefix = [0; 8];
        let known = key.len().min(8);
        prefix[..known].copy_from_slice(&key[..known]);
        let what = what(self.bytes);
        self.entries.push(Entry { prefix: u64::from_be_bytes(prefix), key: Span { start, end }, what });
    }

    fn row<T: Encode<()>>(&mut self, key: &[u8], row: &T) {
        self.push(key, |bytes| What::Row(put(bytes, row)));
    }

    /// The cell's time is stored with it.
    fn cell<T: Encode<()>>(&mut self, key: &[u8], at: Seq, value: &T) {
        self.push(key, |bytes| What::Cell(at, put(bytes, &(at, value))));
    }

    /// A mark is ordered by the message that it marks, so that it never falls.
    fn mark(&mut self, user: &UserId, conversation: ConversationId, register: Register, mark: Mark) {
        let key = match register {
            Register::Seen => keys::inbox(user, conversation, cell::SEEN),
            Register::Hidden => keys::inbox(user, conversation, cell::HIDDEN),
            Register::Read => keys::member(conversation, user, cell::READ),
            Register::Delivered => keys::member(conversation, user, cell::DELIVERED),
        };
        self.cell(&key, mark.seq, &mark.n);
    }

    fn block(&mut self, row: &'a BlockRow) {
        let since = row.on.then_some(row.since);
        self.cell(&keys::standing(&row.blocker, &row.blocked, cell::BLOCKED_BY_ME), row.at, &since);
        self.cell(&keys::standing(&row.blocked, &row.blocker, cell::BLOCKED_ME), row.at, &since);
        let pair = Pair::new(row.blocker.clone(), row.blocked.clone());
        self.push(&keys::blocks(&pair.log_key()), |_| What::Block(row));
    }

    fn checkpoint(&mut self, partition: Partition, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let key = keys::checkpoint(partition);
        let there: Option<StoredCheckpoint> = get(&self.snapshot, &key)?;
        if there.is_none_or(|there| there.offset <= checkpoint.seq.offset().0) {
            self.row(&key, &StoredCheckpoint::from(checkpoint));
        }
        Ok(())
    }

    /// Each key once, in order, with the value that stands. All of them are parts of one piece of memory.
    fn merge_into(mut self, merged: &mut Vec<u8>) -> Result<impl Iterator<Item = (Slice, Option<Slice>)> + use<>, StoreError> {
        let bytes: &[u8] = self.bytes;
        // Stable: writes to one key stay in their order.
        self.entries.sort_by(|one, other| one.prefix.cmp(&other.prefix).then_with(|| one.key.of(bytes).cmp(other.key.of(bytes))));
        let mut rows = Vec::with_capacity(self.entries.len());
        for entries in self.entries.chunk_by(|one, other| one.prefix == other.prefix && one.key.of(bytes) == other.key.of(bytes)) {
            let key = entries[0].key.of(bytes);
            let start = merged.len();
            merged.extend_from_slice(key);
            let middle = merged.len();
            if self.merge(key, entries, bytes, merged)? {
                rows.push((start..middle, middle..merged.len()));
            } else {
                merged.truncate(start);
            }
        }
        let merged = ByteView::new(merged);
        Ok(rows.into_iter().map(move |(key, value)| (merged.slice(key).into(), Some(merged.slice(value).into()))))
    }

    /// Appends the value that stands after all writes to a key. False if that is the one that is stored already.
    fn merge(&self, key: &[u8], entries: &[Entry<'_>], bytes: &[u8], into: &mut Vec<u8>) -> Result<bool, StoreError> {
        match &entries[0].what {
            What::Row(row) => {
                let last = entries.iter().rev().find_map(|entry| if let What::Row(row) = &entry.what { Some(row) } else { None });
                into.extend_from_slice(last.unwrap_or(row).of(bytes));
            }
            What::Cell(..) => return self.merge_cell(key, entries, bytes, into),
            What::Message(_) | What::Revision(_) => encode_to(into, &*self.merge_message(key, entries)?),
            What::Dedup(_) => encode_to(into, &self.merge_dedup(key, entries)?),
            What::Block(_) => encode_to(into, &self.merge_blocks(key, entries)?),
        }
        Ok(true)
    }

    fn merge_cell(&self, key: &[u8], entries: &[Entry<'_>], bytes: &[u8], into: &mut Vec<u8>) -> Result<bool, StoreError> {
        let cells = entries.iter().filter_map(|entry| if let What::Cell(at, value) = &entry.what { Some((*at, *value)) } else { None });
        let Some((at, value)) = cells.max_by_key(|(at, _)| *at) else { return Ok(false) };
        let stands = self.is_fresh(at) || time_of(&self.snapshot, key)?.is_none_or(|there| there <= at);
        if stands {
            into.extend_from_slice(value.of(bytes));
        }
        Ok(stands)
    }

    /// As it was sent, with the newest revision.
    fn merge_message<'e>(&self, key: &[u8], entries: &'e [Entry<'_>]) -> Result<Cow<'e, MessageRow>, StoreError> {
        let mut merged: Option<Cow<'e, MessageRow>> = None;
        for entry in entries {
            match &entry.what {
                What::Message(row) => {
                    let there = match merged.take() {
                        Some(there) => there.into_owned().revision,
                        None if self.is_fresh(row.seq) => None,
                        None => get::<MessageRow>(&self.snapshot, key)?.and_then(|there| there.revision),
                    };
                    let mut row = Cow::Borrowed(*row);
                    if let Some(revision) = there {
                        row.to_mut().revise(revision);
                    }
                    merged = Some(row);
                }
                What::Revision(revision) => {
                    let row = match merged.take() {
                        Some(row) => Some(row),
                        None => get(&self.snapshot, key)?.map(Cow::Owned),
                    };
                    let missing = || StoreError::Corrupt(format!("revision of a message that is not there: {}", key.escape_ascii()));
                    merged.insert(row.ok_or_else(missing)?).to_mut().revise((*revision).clone());
                }
                _ => {}
            }
        }
        merged.ok_or_else(|| StoreError::Corrupt(format!("nothing to write to {}", key.escape_ascii())))
    }

    fn merge_dedup(&self, key: &[u8], entries: &[Entry<'_>]) -> Result<Vec<DedupRow>, StoreError> {
        let new = || entries.iter().filter_map(|entry| if let What::Dedup(row) = entry.what { Some(row) } else { None });
        // Older rows under this client id are never asked for again: only events below this one would.
        let is_fresh = new().next().is_some_and(|row| self.is_fresh(row.seq));
        let mut rows: Vec<DedupRow> = if is_fresh { Vec::new() } else { get(&self.snapshot, key)?.unwrap_or_default() };
        for row in new() {
            rows.retain(|other| other.seq != row.seq);
            rows.push(*row);
            rows.sort_unstable_by_key(|row| row.seq);
            if rows.len() > DEDUP_ROWS_MAX {
                rows.remove(0);
            }
        }
        Ok(rows)
    }

    fn merge_blocks(&self, key: &[u8], entries: &[Entry<'_>]) -> Result<Vec<BlockRow>, StoreError> {
        let mut rows: Vec<BlockRow> = get(&self.snapshot, key)?.unwrap_or_default();
        for row in entries.iter().filter_map(|entry| if let What::Block(row) = entry.what { Some(row) } else { None }) {
            rows.retain(|other| other.at != row.at);
            rows.push(row.clone());
            rows.sort_unstable_by_key(|row| row.at);
            // Nothing below the applied position is ever judged again, so a row that a newer one of its direction has replaced can go.
            if rows.len() > BLOCK_ROWS_MAX
                && let Some(replaced) = (0..rows.len()).find(|at| rows[at + 1..].iter().any(|newer| newer.blocker == rows[*at].blocker))
            {
                rows.remove(replaced);
            }
        }
        Ok(rows)
    }

    fn is_fresh(&self, at: Seq) -> bool {
        self.fresh_above.is_some_and(|above| at > above)
    }
}

impl Span {
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start..self.end]
    }
}

fn put<T: Encode<()>>(bytes: &mut Vec<u8>, value: &T) -> Span {
    let start = bytes.len();
    encode_to(bytes, value);
    Span { start, end: bytes.len() }
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
