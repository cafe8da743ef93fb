//! Writes: first everything that events write, then the heads, then the checkpoint. Within each, in any order and many at once.

use std::{collections::HashMap, time::Duration};

use dunlin_model::{
    BlockRow, Cell, ConversationId, DedupKey, DedupRow, FeedRow, Head, IndexRow, Mark, MessageRow, Millis, Pair, Partition, Register,
    Revision, Seq, UserId, encode, limits,
};
use dunlin_ports::{Batch, Checkpoint, StoreError, Write};
use futures::{FutureExt as _, future::BoxFuture};
use scylla::value::{CqlTimestamp, MaybeUnset};

use crate::{
    Messages,
    feed_months::month_of,
    row::{content_columns, filled_columns, name_of, of_bucket, of_millis, of_n, of_seq, slice_of, thread},
    store::Line,
};

/// Over how many partitions checkpoints are spread.
pub(crate) const CHECKPOINT_SHARDS: u32 = 16;

/// How many writes go with a head at most; the others go before it.
const TOGETHER_MAX: usize = 32;

const FEED_TTL_S: i32 = 400 * 24 * 60 * 60;
const _: () = assert!(FEED_TTL_S as u64 == limits::FEED_DAYS * 24 * 60 * 60);

impl Messages {
    pub(crate) async fn apply_batch(&self, batch: &Batch) -> Result<(), StoreError> {
        // What goes to one row at one time is one statement: a send writes the sender's tip and mark together. What goes to one partition
        // together with the head is one mutation: a message, and under which client id it was sent.
        let mut rows = Rows::default();
        let mut threads: HashMap<ConversationId, Vec<Line<'_>>> =
            batch.heads.iter().map(|(conversation, _)| (*conversation, Vec::new())).collect();
        let mut statements: Vec<BoxFuture<'_, Result<(), StoreError>>> = Vec::with_capacity(batch.writes.len());
        for write in &batch.writes {
            if rows.take_in(write) {
                continue;
            }
            let (line, conversation) = match write {
                Write::Message { conversation, row } if row.bucket == 0 => (self.message_line(*conversation, row), conversation),
                Write::Dedup { key, row } => (self.dedup_line(key, row), &key.conversation),
                _ => {
                    statements.push(self.statement(write));
                    continue;
                }
            };
            match threads.get_mut(conversation) {
                Some(lines) if lines.len() < TOGETHER_MAX => lines.push(line),
                _ => statements.push(self.write_together(vec![line]).boxed()),
            }
        }
        statements.extend(rows.inbox.iter().map(|(row, cells)| self.write_inbox(row, cells).boxed()));
        statements.extend(rows.members.iter().map(|(row, marks)| self.write_member(row, marks).boxed()));
        self.all(statements).await?;
        let heads = batch.heads.iter().map(|(conversation, head)| {
            let mut lines = threads.remove(conversation).unwrap_or_default();
            // Last: within a mutation tables are written in this order.
            lines.push(self.head_line(*conversation, head));
            self.write_together(lines).boxed()
        });
        let heads = heads.collect();
        self.all(heads).await?;
        match batch.checkpoint {
            Some((partition, checkpoint)) => self.write_checkpoint(partition, checkpoint).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn raise_delivered(&self, conversation: ConversationId, user: &UserId, mark: Mark) -> Result<(), StoreError> {
        let marks = Marks { delivered: MaybeUnset::Set(of_n(mark.n)), ..Marks::default() };
        self.write_member(&MemberKey { conversation, user, at: mark.seq }, &marks).await
    }

    fn statement<'a>(&'a self, write: &'a Write) -> BoxFuture<'a, Result<(), StoreError>> {
        match write {
            Write::Message { conversation, row } => self.write_together(vec![self.message_line(*conversation, row)]).boxed(),
            Write::Revision { conversation, target, bucket, revision } => {
                self.write_revision(*conversation, *target, *bucket, revision).boxed()
            }
            Write::Edit { conversation, target, row } => async move {
                let (text, content_type, opaque) = content_columns(Some(&row.content));
                let key = (conversation.to_string(), of_seq(*target), of_seq(row.at));
                let values = (of_seq(row.at), of_millis(row.edited_at), text, content_type, opaque, key.0, key.1, key.2);
                self.write(&self.statements.write_edit, values).await
            }
            .boxed(),
            Write::Index { conversation, row } => self.write_index(*conversation, row).boxed(),
            Write::DeletedNumber { conversation, n, at } => {
                let values = (of_seq(*at), of_seq(*at), conversation.to_string(), of_n(*n));
                self.write(&self.statements.write_deleted_number, values).boxed()
            }
            Write::Hidden { user, conversation, target, at } => {
                let values = (of_seq(*at), of_seq(*at), user.as_str(), conversation.to_string(), of_seq(*target));
                self.write(&self.statements.write_hidden, values).boxed()
            }
            Write::Reaction { conversation, target, bucket, user, emoji, on } => {
                let place = (conversation.to_string(), of_bucket(*bucket), of_seq(*target));
                let values = (of_seq(on.at), on.value, place.0, place.1, place.2, user.as_str(), emoji.as_str());
                self.write(&self.statements.write_reaction, values).boxed()
            }
            Write::Block(row) => self.write_block(row).boxed(),
            Write::Feed { user, row } => self.write_feed(user, row).boxed(),
            Write::Outcome { conversation, at, row } => {
                let values = (of_seq(*at), encode(row), conversation.to_string(), of_seq(*at));
                self.write(&self.statements.write_outcome, values).boxed()
            }
            Write::Parked { key, at, time, bytes } => {
                let values = (of_seq(*at), of_millis(*time), &bytes[..], encode(key), of_seq(*at));
                self.write(&self.statements.write_parked, values).boxed()
            }
            Write::Unparked { key, replay } => {
                let values =
                    (of_seq(replay.at), of_millis(replay.time), of_seq(replay.from), of_seq(replay.to), encode(key), of_seq(replay.at));
                self.write(&self.statements.write_replay, values).boxed()
            }
            Write::InboxTip { .. }
            | Write::InboxDeleted { .. }
            | Write::InboxArchived { .. }
            | Write::InboxVeiled { .. }
            | Write::Mark { .. }
            | Write::Dedup { .. } => unreachable!("these are taken in by their rows, or go with the head"),
        }
    }

    fn message_line<'a>(&'a self, conversation: ConversationId, row: &'a MessageRow) -> Line<'a> {
        let (text, content_type, opaque) = content_columns(row.content.as_ref());
        let metadata = row.metadata.as_ref().map(|metadata| metadata.entries().collect::<HashMap<_, _>>());
        let values = (
            of_seq(row.seq),
            of_n(row.n),
            of_millis(row.created_at),
            MaybeUnset::from_option(row.sender.as_ref().map(UserId::as_str)),
            row.message_type.as_str(),
            row.client_id.as_str(),
            MaybeUnset::from_option(row.reply_to.map(of_seq)),
            text,
            content_type,
            opaque,
            MaybeUnset::from_option(metadata),
            thread(conversation, row.bucket),
            of_seq(row.seq),
        );
        Line { statement: &self.statements.write_message, values: Box::new(values) }
    }

    async fn write_revision(
        &self,
        conversation: ConversationId,
        target: Seq,
        bucket: u32,
        revision: &Cell<Revision>,
    ) -> Result<(), StoreError> {
        let (at, thread, target) = (of_seq(revision.at), thread(conversation, bucket), of_seq(target));
        match &revision.value {
            Revision::Edited { content, edited_at } => {
                let (text, content_type, opaque) = filled_columns(content);
                let values = (at, of_millis(*edited_at), text, content_type, opaque, thread, target);
                self.write(&self.statements.write_edited, values).await
            }
            Revision::Deleted { by, deleted_at } => {
                let by = by.as_ref().map_or("", UserId::as_str);
                self.write(&self.statements.write_deleted, (at, of_millis(*deleted_at), by, thread, target)).await
            }
        }
    }

    /// One row for each way to look.
    async fn write_index(&self, conversation: ConversationId, row: &IndexRow) -> Result<(), StoreError> {
        let ways = [("seq", of_seq(row.seq)), ("n", of_n(row.n)), ("time", of_millis(row.at).0)];
        let conversation = &conversation.to_string();
        let write = |(by, value)| {
            let seq = of_seq(row.seq);
            let values = (seq, seq, of_millis(row.at), of_bucket(row.bucket), conversation, by, value, of_n(row.n));
            self.write(&self.statements.write_index, values)
        };
        futures::future::try_join_all(ways.map(write)).await?;
        if row.bucket == 0 {
            return Ok(());
        }
        self.write(&self.statements.write_is_long, (of_seq(row.seq), conversation)).await
    }

    async fn write_inbox(&self, row: &InboxKey<'_>, cells: &InboxCells) -> Result<(), StoreError> {
        let InboxCells { tip, moved_at, deleted, seen, hidden, archived, veiled } = cells;
        let (at, user, slice, conversation) = (of_seq(row.at), row.user.as_str(), slice_of(row.conversation), row.conversation.to_string());
        let values = (at, tip, deleted, seen, hidden, archived, veiled, user, slice, conversation.clone());
        let mut lines = vec![Line { statement: &self.statements.write_inbox, values: Box::new(values) }];
        if let Some(moved_at) = moved_at {
            let values = (at, of_millis(*moved_at), user, slice, conversation);
            lines.push(Line { statement: &self.statements.write_inbox_moves, values: Box::new(values) });
        }
        self.write_together(lines).await
    }

    async fn write_member(&self, row: &MemberKey<'_>, marks: &Marks) -> Result<(), StoreError> {
        let values = (of_seq(row.at), &marks.read, &marks.delivered, row.conversation.to_string(), row.user.as_str());
        self.write(&self.statements.write_member, values).await
    }

    async fn write_block(&self, row: &BlockRow) -> Result<(), StoreError> {
        let (at, since) = (of_seq(row.at), of_millis(row.since));
        let stands = if row.on { since } else { CqlTimestamp(0) };
        let pair = Pair::new(row.blocker.clone(), row.blocked.clone()).log_key();
        let (blocker, blocked) = (row.blocker.as_str(), row.blocked.as_str());
        let block = self.write(&self.statements.write_block, (at, blocked, since, row.on, &pair.hash()[..], at, blocker));
        let standing = |by_me, me, user, other| self.write(&self.statements.write_standing, (at, by_me, me, user, other));
        let mine = standing(MaybeUnset::Set(stands), MaybeUnset::Unset, blocker, blocked);
        let others = standing(MaybeUnset::Unset, MaybeUnset::Set(stands), blocked, blocker);
        futures::try_join!(block, mine, others).map(drop)
    }

    /// The month first: who finds it and no row has read too early, who finds a row has found its month.
    async fn write_feed(&self, user: &UserId, row: &FeedRow) -> Result<(), StoreError> {
        let (at, month) = (micros(row.key.at), month_of(row.key.at));
        if !self.feed_months.is_written(user, month) {
            self.write(&self.statements.write_feed_month, (user.as_str(), month, at, FEED_TTL_S)).await?;
            self.feed_months.written(user, month);
        }
        let target = MaybeUnset::from_option(row.target.map(of_seq));
        let conversation = row.key.conversation.to_string();
        let values =
            (at, FEED_TTL_S, name_of(row.what), target, user.as_str(), month, of_millis(row.key.at), conversation, of_seq(row.key.seq));
        self.write(&self.statements.write_feed, values).await
    }

    fn dedup_line<'a>(&'a self, key: &'a DedupKey, row: &DedupRow) -> Line<'a> {
        let (conversation, sender) = (key.conversation.to_string(), key.sender.as_ref().map_or("", UserId::as_str));
        let (at, ttl) = (micros(row.created_at), ttl_s(self.options.dedup_keep));
        let hash = encode(&row.hash);
        let created_at = of_millis(row.created_at);
        let values = (at, ttl, of_n(row.n), created_at, hash, conversation, sender, key.client_id.as_str(), of_seq(row.seq));
        Line { statement: &self.statements.write_dedup, values: Box::new(values) }
    }

    fn head_line(&self, conversation: ConversationId, head: &Head) -> Line<'_> {
        let last_at = head.last.map_or(head.opened_at, |last| last.at);
        let values = (of_seq(head.applied), encode(head), of_n(head.n), of_millis(last_at), conversation.to_string());
        Line { statement: &self.statements.write_head, values: Box::new(values) }
    }

    async fn write_checkpoint(&self, partition: Partition, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let seq = of_seq(checkpoint.seq);
        let (shard, part) = shard_of(partition);
        let values = (seq, seq, of_millis(checkpoint.log_time), &checkpoint.event_id.0[..], shard, part);
        self.write(&self.statements.write_checkpoint, values).await
    }
}

/// The rows of a batch that several writes share, each at one time.
#[derive(Default)]
struct Rows<'a> {
    inbox: HashMap<InboxKey<'a>, InboxCells>,
    members: HashMap<MemberKey<'a>, Marks>,
}

#[derive(PartialEq, Eq, Hash)]
struct InboxKey<'a> {
    user: &'a UserId,
    conversation: ConversationId,
    at: Seq,
}

#[derive(PartialEq, Eq, Hash)]
struct MemberKey<'a> {
    conversation: ConversationId,
    user: &'a UserId,
    at: Seq,
}

struct InboxCells {
    tip: MaybeUnset<Vec<u8>>,
    moved_at: Option<Millis>,
    deleted: MaybeUnset<Vec<u8>>,
    seen: MaybeUnset<i64>,
    hidden: MaybeUnset<i64>,
    archived: MaybeUnset<i64>,
    veiled: MaybeUnset<i64>,
}

impl Default for InboxCells {
    fn default() -> InboxCells {
        use MaybeUnset::Unset;
        InboxCells { tip: Unset, moved_at: None, deleted: Unset, seen: Unset, hidden: Unset, archived: Unset, veiled: Unset }
    }
}

struct Marks {
    read: MaybeUnset<i64>,
    delivered: MaybeUnset<i64>,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks { read: MaybeUnset::Unset, delivered: MaybeUnset::Unset }
    }
}

impl<'a> Rows<'a> {
    /// False if the write has a row to itself.
    fn take_in(&mut self, write: &'a Write) -> bool {
        match write {
            Write::InboxTip { user, conversation, tip } => {
                let cells = self.inbox(user, *conversation, tip.at);
                cells.tip = MaybeUnset::Set(encode(&tip.value));
                cells.moved_at = Some(tip.value.moved_at());
            }
            Write::InboxDeleted { user, conversation, deleted } => {
                self.inbox(user, *conversation, deleted.at).deleted = MaybeUnset::Set(encode(&deleted.value));
            }
            Write::InboxArchived { user, conversation, archived } => {
                self.inbox(user, *conversation, archived.at).archived = MaybeUnset::Set(of_seq(archived.value.unwrap_or(Seq::ZERO)));
            }
            Write::InboxVeiled { user, conversation, veiled } => {
                self.inbox(user, *conversation, veiled.at).veiled = MaybeUnset::Set(of_seq(veiled.value));
            }
            Write::Mark { user, conversation, register, mark } => {
                let n = MaybeUnset::Set(of_n(mark.n));
                match register {
                    Register::Seen => self.inbox(user, *conversation, mark.seq).seen = n,
                    Register::Hidden => self.inbox(user, *conversation, mark.seq).hidden = n,
                    Register::Read => self.member(user, *conversation, mark.seq).read = n,
                    Register::Delivered => self.member(user, *conversation, mark.seq).delivered = n,
                }
            }
            _ => return false,
        }
        true
    }

    fn inbox(&mut self, user: &'a UserId, conversation: ConversationId, at: Seq) -> &mut InboxCells {
        self.inbox.entry(InboxKey { user, conversation, at }).or_default()
    }

    fn member(&mut self, user: &'a UserId, conversation: ConversationId, at: Seq) -> &mut Marks {
        self.members.entry(MemberKey { conversation, user, at }).or_default()
    }
}

pub(crate) fn shard_of(partition: Partition) -> (i32, i32) {
    let narrow = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    (narrow(partition.0 % CHECKPOINT_SHARDS), narrow(partition.0))
}

/// The time of a write to a table that only grows.
fn micros(at: Millis) -> i64 {
    of_millis(at).0.saturating_mul(1_000)
}

fn ttl_s(keep: Duration) -> i32 {
    i32::try_from(keep.as_secs()).unwrap_or(i32::MAX)
}
