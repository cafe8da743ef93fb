//! Reads. A conversation's messages lie in buckets; the index tells in which one to look.

use async_trait::async_trait;
use dunlin_model::{
    BlockRow, Cell, ConversationId, DedupKey, DedupRow, EditRow, Emoji, Epoch, EventId, FeedKey, FeedRow, Head, InboxRow, IndexRow, LogKey,
    Mark, MemberRow, MessageRow, Millis, N, OutcomeRow, Partition, ReactionRow, Seq, Standing, UserId, decode, encode,
};
use dunlin_ports::{Batch, Checkpoint, Known, MessageStore, Order, Parked, ParkedRow, Replay, SeqRange, StoreError, Wanted};
use futures::{FutureExt as _, TryStreamExt as _};
use scylla::value::CqlTimestamp;

use crate::{
    Messages,
    error::{OrCorrupt as _, corrupt},
    feed_months::month_of,
    row::{
        InboxColumns, IndexColumns, MessageColumns, cell, content, happening, index_row, mark, millis, n, of_bucket, of_millis, of_n,
        of_seq, parsed, seq, slice_of, thread, user,
    },
    write::{CHECKPOINT_SHARDS, shard_of},
};

#[async_trait]
impl MessageStore for Messages {
    async fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        self.apply_batch(batch).await
    }

    async fn checkpoint(&self, partition: Partition) -> Result<Option<Checkpoint>, StoreError> {
        let row: Option<(i64, CqlTimestamp, Vec<u8>)> = self.row(&self.statements.checkpoint, shard_of(partition)).await?;
        let Some((at, log_time, event_id)) = row else { return Ok(None) };
        let event_id = event_id.try_into().map_err(|_| corrupt(&"a checkpoint's event id has not 16 bytes"))?;
        Ok(Some(Checkpoint { seq: seq(at)?, log_time: millis(log_time), event_id: EventId(event_id) }))
    }

    async fn known(&self, wanted: &Wanted) -> Result<Known, StoreError> {
        // Heads before all else: what a head stands for is there by the time the rest is read.
        let heads = self.each(wanted.heads.iter().map(|conversation| self.head(*conversation)).collect()).await?;
        let dedup = self.each(wanted.dedup.iter().map(|(key, below)| self.dedup_below(key, *below).boxed()).collect());
        let blocks = self.each(wanted.blocks.iter().map(|(key, below)| self.blocks_below(key, *below).boxed()).collect());
        let messages = self.each(wanted.messages.iter().map(|(conversation, seq)| self.message(*conversation, *seq)).collect());
        let (dedup, blocks, messages) = futures::try_join!(dedup, blocks, messages)?;
        Ok(Known { heads, dedup, blocks, messages })
    }

    async fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        self.shared.heads.ask(conversation, || self.read_head(conversation)).await
    }

    /// In the order of tokens. Two ids may share one: then they come in the order of their texts.
    async fn heads(&self, after: Option<ConversationId>, limit: usize) -> Result<Vec<(ConversationId, Head)>, StoreError> {
        /// More of one token than that there never are.
        const SAME_TOKEN_MAX: usize = 8;
        let rows: Vec<(String, Option<Vec<u8>>)> = match after {
            None => self.rows(&self.statements.heads, (to_limit(limit),)).await?,
            Some(after) => {
                let after = after.to_string();
                let mut rows: Vec<(String, Option<Vec<u8>>)> =
                    self.rows(&self.statements.heads_from, (&after, to_limit(limit + SAME_TOKEN_MAX))).await?;
                let passed = rows.iter().position(|(id, _)| *id == after).map_or(0, |place| place + 1);
                rows.drain(..passed);
                rows.truncate(limit);
                rows
            }
        };
        let head = |(id, head): (String, Option<Vec<u8>>)| Some((parsed(&id), decode(&head?).or_corrupt()));
        rows.into_iter().filter_map(head).map(|(id, head)| Ok((id?, head?))).collect()
    }

    async fn message(&self, conversation: ConversationId, seq: Seq) -> Result<Option<MessageRow>, StoreError> {
        let first = if self.buckets.is_long(conversation) { None } else { self.message_in(conversation, 0, seq).await? };
        if first.is_some() {
            return Ok(first);
        }
        match self.bucket_of(conversation, seq).await? {
            0 if !self.buckets.is_long(conversation) => Ok(None),
            bucket => self.message_in(conversation, bucket, seq).await,
        }
    }

    async fn messages(
        &self,
        conversation: ConversationId,
        range: SeqRange,
        order: Order,
        limit: usize,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let question = (conversation, range, order, limit);
        self.shared.messages.ask(question, || self.read_messages(conversation, range, order, limit)).await
    }

    async fn index_at_n(&self, conversation: ConversationId, n: N) -> Result<Option<IndexRow>, StoreError> {
        self.index_below(conversation, "n", of_n(n)).await
    }

    async fn index_from_time(&self, conversation: ConversationId, at: Millis) -> Result<Option<IndexRow>, StoreError> {
        Ok(self.index_from(conversation, "time", of_millis(at).0, 1).await?.pop())
    }

    async fn index(&self, conversation: ConversationId, after: N, limit: usize) -> Result<Vec<IndexRow>, StoreError> {
        self.index_from(conversation, "n", of_n(after).saturating_add(1), limit).await
    }

    async fn deleted_above(&self, conversation: ConversationId, n: N) -> Result<u64, StoreError> {
        let count: Option<(i64,)> = self.row(&self.statements.deleted_above, (conversation.to_string(), of_n(n))).await?;
        Ok(count.map_or(0, |(count,)| u64::try_from(count).unwrap_or(0)))
    }

    async fn hidden(&self, user: &UserId, conversation: ConversationId, range: SeqRange, limit: usize) -> Result<Vec<Seq>, StoreError> {
        let values = (user.as_str(), conversation.to_string(), of_seq(range.after), of_seq(range.before), to_limit(limit));
        let rows: Vec<(i64,)> = self.rows(&self.statements.hidden, values).await?;
        rows.into_iter().map(|(target,)| seq(target)).collect()
    }

    async fn reactions(&self, conversation: ConversationId, range: SeqRange, limit: usize) -> Result<Vec<ReactionRow>, StoreError> {
        self.shared.reactions.ask((conversation, range, limit), || self.read_reactions(conversation, range, limit)).await
    }

    async fn edits(&self, conversation: ConversationId, target: Seq, limit: usize) -> Result<Vec<EditRow>, StoreError> {
        type Columns = (i64, Option<CqlTimestamp>, Option<String>, Option<String>, Option<Vec<u8>>);
        let rows: Vec<Columns> = self.rows(&self.statements.edits, (conversation.to_string(), of_seq(target), to_limit(limit))).await?;
        let row = |(at, edited_at, text, content_type, opaque): Columns| {
            let content = content(text.as_deref(), content_type.as_deref(), opaque.as_deref())?;
            let content = content.ok_or_else(|| corrupt(&"an edit has no content"))?;
            Ok(EditRow { at: seq(at)?, edited_at: edited_at.map(millis).unwrap_or_default(), content })
        };
        rows.into_iter().map(row).collect()
    }

    async fn inbox(&self, user: &UserId, after: Option<ConversationId>, limit: usize) -> Result<Vec<InboxRow>, StoreError> {
        let rows: Vec<InboxColumns> = match after {
            None => self.rows(&self.statements.inbox, (user.as_str(), to_limit(limit))).await?,
            Some(after) => {
                let values = (user.as_str(), slice_of(after), after.to_string(), to_limit(limit));
                self.rows(&self.statements.inbox_after, values).await?
            }
        };
        rows.into_iter().map(InboxColumns::row).collect()
    }

    async fn inbox_moves(
        &self,
        user: &UserId,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<(ConversationId, Option<Millis>)>, StoreError> {
        let rows: Vec<(String, Option<CqlTimestamp>)> = match after {
            None => self.rows(&self.statements.inbox_moves, (user.as_str(), to_limit(limit))).await?,
            Some(after) => {
                let values = (user.as_str(), slice_of(after), after.to_string(), to_limit(limit));
                self.rows(&self.statements.inbox_moves_after, values).await?
            }
        };
        rows.into_iter().map(|(conversation, moved_at)| Ok((parsed(&conversation)?, moved_at.map(millis)))).collect()
    }

    async fn inbox_row(&self, user: &UserId, conversation: ConversationId) -> Result<Option<InboxRow>, StoreError> {
        let values = (user.as_str(), slice_of(conversation), conversation.to_string());
        let row: Option<InboxColumns> = self.row(&self.statements.inbox_row, values).await?;
        row.map(InboxColumns::row).transpose()
    }

    async fn members(&self, conversation: ConversationId, after: Option<UserId>, limit: usize) -> Result<Vec<MemberRow>, StoreError> {
        let question = (conversation, after.clone(), limit);
        self.shared.members.ask(question, || self.read_members(conversation, after, limit)).await
    }

    async fn mark_delivered(&self, conversation: ConversationId, user: &UserId, mark: Mark) -> Result<(), StoreError> {
        // Users write these, as many as there are.
        let _place = self.place()?;
        self.raise_delivered(conversation, user, mark).await
    }

    async fn standings(&self, of: &UserId, after: Option<&UserId>, limit: usize) -> Result<Vec<Standing>, StoreError> {
        type Columns = (String, Option<CqlTimestamp>, Option<i64>, Option<CqlTimestamp>, Option<i64>);
        let after = after.map_or("", UserId::as_str);
        let rows: Vec<Columns> = self.rows(&self.statements.standings, (of.as_str(), after, to_limit(limit))).await?;
        let since = |value: Option<CqlTimestamp>, written| {
            let cell = cell(value, written)?;
            Ok::<_, StoreError>(cell.map(|(at, since)| Cell { at, value: Some(millis(since)).filter(|since| *since > Millis::ZERO) }))
        };
        let row = |(other, by_me, by_me_at, me, me_at): Columns| {
            Ok(Standing { other: user(&other)?, blocked_by_me: since(by_me, by_me_at)?, blocked_me: since(me, me_at)? })
        };
        rows.into_iter().map(row).collect()
    }

    async fn feed(&self, user: &UserId, after: FeedKey, limit: usize) -> Result<Vec<FeedRow>, StoreError> {
        type Columns = (CqlTimestamp, String, i64, Option<String>, Option<i64>);
        let first = month_of(after.at);
        let months: Vec<(i32,)> = self.rows(&self.statements.feed_months, (user.as_str(), first)).await?;
        // Before every id there is, as texts are ordered.
        let conversation = if after.conversation == ConversationId::FIRST { String::new() } else { after.conversation.to_string() };
        let mut found = Vec::new();
        for (month,) in months {
            let rest = to_limit(limit - found.len());
            let values = (user.as_str(), month, of_millis(after.at), &conversation, of_seq(after.seq), rest);
            let rows: Vec<Columns> = self.rows(&self.statements.feed, values).await?;
            for (at, conversation, seq_at, what, target) in rows {
                // Columns may be younger than their row by a write that is under way.
                let Some(what) = what else { continue };
                let key = FeedKey { at: millis(at), conversation: parsed(&conversation)?, seq: seq(seq_at)? };
                found.push(FeedRow { key, what: happening(&what)?, target: target.map(seq).transpose()? });
            }
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }

    async fn horizon(&self, partitions: u32) -> Result<Millis, StoreError> {
        let shards = (0..CHECKPOINT_SHARDS.min(partitions)).map(|shard| {
            let shard = i32::try_from(shard).unwrap_or(i32::MAX);
            self.rows::<(i32, Option<CqlTimestamp>)>(&self.statements.checkpoints, (shard,)).boxed()
        });
        let times: Vec<Millis> = (self.each(shards.collect()).await?.into_iter().flatten())
            .filter(|(part, _)| u32::try_from(*part).is_ok_and(|part| part < partitions))
            .filter_map(|(_, log_time)| log_time.map(millis))
            .collect();
        let all_there = times.len() as u64 == u64::from(partitions);
        Ok(times.into_iter().min().filter(|_| all_there).unwrap_or(Millis::ZERO))
    }

    async fn parked(&self, limit: usize) -> Result<Vec<Parked>, StoreError> {
        let rows: Vec<(Vec<u8>, i64)> = self.rows(&self.statements.parked, (to_limit(limit),)).await?;
        self.each(rows.into_iter().map(|(key, _)| self.parked_key(key).boxed()).collect()).await
    }

    async fn parked_rows(&self, key: &LogKey, from: Seq, limit: usize) -> Result<Vec<ParkedRow>, StoreError> {
        let values = (encode(key), of_seq(from), to_limit(limit));
        let rows: Vec<(i64, CqlTimestamp, Vec<u8>)> = self.rows(&self.statements.parked_rows, values).await?;
        rows.into_iter().map(|(at, time, event)| Ok(ParkedRow { at: seq(at)?, time: millis(time), bytes: event.into() })).collect()
    }

    async fn outcome(&self, conversation: ConversationId, seq: Seq) -> Result<Option<OutcomeRow>, StoreError> {
        let row: Option<(Option<Vec<u8>>,)> = self.row(&self.statements.outcome, (conversation.to_string(), of_seq(seq))).await?;
        row.and_then(|(outcome,)| outcome).map(|outcome| decode(&outcome).or_corrupt()).transpose()
    }

    async fn epoch(&self) -> Result<Option<Epoch>, StoreError> {
        Ok(self.life().await?.map(|life| life.epoch))
    }
}

impl Messages {
    async fn parked_key(&self, encoded: Vec<u8>) -> Result<Parked, StoreError> {
        let rows: Vec<(i64, CqlTimestamp, i64, i64)> = self.rows(&self.statements.replays, (&encoded,)).await?;
        let replay = |(at, time, from, to)| Ok(Replay { at: seq(at)?, time: millis(time), from: seq(from)?, to: seq(to)? });
        let replays = rows.into_iter().map(replay).collect::<Result<Vec<_>, StoreError>>()?;
        let from = replays.iter().map(|replay| replay.to).max().unwrap_or(Seq::ZERO);
        let key = decode(&encoded).or_corrupt()?;
        let first = self.parked_rows(&key, from, 1).await?.first().map(|row| row.at);
        Ok(Parked { key, first, replays })
    }

    async fn message_in(&self, conversation: ConversationId, bucket: u32, seq: Seq) -> Result<Option<MessageRow>, StoreError> {
        let row: Option<MessageColumns> = self.row(&self.statements.message, (thread(conversation, bucket), of_seq(seq))).await?;
        Ok(self.learnt(conversation, bucket, row.into_iter().collect())?.pop())
    }

    async fn read_head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        let row: Option<(Option<Vec<u8>>,)> = self.row(&self.statements.head, (conversation.to_string(),)).await?;
        row.and_then(|(head,)| head).map(|head| decode(&head).or_corrupt()).transpose()
    }

    async fn read_messages(
        &self,
        conversation: ConversationId,
        range: SeqRange,
        order: Order,
        limit: usize,
    ) -> Result<Vec<MessageRow>, StoreError> {
        if range.after >= range.before {
            return Ok(Vec::new());
        }
        // Most conversations have one bucket, and any row of it tells.
        let mut first = None;
        if !self.buckets.is_long(conversation) {
            let rows = self.messages_in(conversation, 0, range, order, limit).await?;
            let is_all = !rows.is_empty() && !self.buckets.is_long(conversation);
            if is_all || (order == Order::OldestFirst && rows.len() >= limit) {
                return Ok(rows);
            }
            first = Some(rows);
        }
        let mut found = Vec::new();
        for bucket in self.buckets(conversation, range, order).await? {
            let rest = limit - found.len();
            found.extend(match first.take().filter(|_| bucket == 0) {
                Some(rows) => rows.into_iter().take(rest).collect(),
                None => self.messages_in(conversation, bucket, range, order, rest).await?,
            });
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }

    async fn read_reactions(&self, conversation: ConversationId, range: SeqRange, limit: usize) -> Result<Vec<ReactionRow>, StoreError> {
        type Columns = (i64, String, String, Option<bool>, Option<i64>);
        let mut found = Vec::new();
        for bucket in self.buckets(conversation, range, Order::OldestFirst).await? {
            let rest = to_limit(limit - found.len());
            let values = (conversation.to_string(), of_bucket(bucket), of_seq(range.after), of_seq(range.before), rest);
            let rows: Vec<Columns> = self.rows(&self.statements.reactions, values).await?;
            for (target, by, emoji, is_on, written) in rows {
                let Some((at, value)) = cell(is_on, written)? else { continue };
                let emoji = Emoji::parse(&emoji).map_err(|error| corrupt(&error))?;
                found.push(ReactionRow { target: seq(target)?, user: user(&by)?, emoji, on: Cell { at, value } });
            }
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }

    async fn read_members(&self, conversation: ConversationId, after: Option<UserId>, limit: usize) -> Result<Vec<MemberRow>, StoreError> {
        type Columns = (String, Option<i64>, Option<i64>, Option<i64>, Option<i64>);
        let after = after.as_ref().map_or("", UserId::as_str);
        let rows: Vec<Columns> = self.rows(&self.statements.members, (conversation.to_string(), after, to_limit(limit))).await?;
        let row = |(name, read, read_at, delivered, delivered_at): Columns| {
            Ok(MemberRow { user: user(&name)?, read: mark(read, read_at)?, delivered: mark(delivered, delivered_at)? })
        };
        rows.into_iter().map(row).collect()
    }

    async fn messages_in(
        &self,
        conversation: ConversationId,
        bucket: u32,
        range: SeqRange,
        order: Order,
        limit: usize,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let statement = match order {
            Order::NewestFirst => &self.statements.messages_newest,
            Order::OldestFirst => &self.statements.messages_oldest,
        };
        let values = (thread(conversation, bucket), of_seq(range.after), of_seq(range.before), to_limit(limit));
        let rows = self.rows(statement, values).await?;
        self.learnt(conversation, bucket, rows)
    }

    /// The messages, after taking note of what they tell about buckets.
    fn learnt(&self, conversation: ConversationId, bucket: u32, columns: Vec<MessageColumns>) -> Result<Vec<MessageRow>, StoreError> {
        let is_long = columns.first().is_some_and(MessageColumns::is_long);
        let mut rows = Vec::with_capacity(columns.len());
        for columns in columns {
            rows.extend(columns.row()?);
        }
        if let Some(newest) = rows.iter().map(|row| row.seq).max().filter(|_| bucket == 0) {
            self.buckets.learn(conversation, newest, is_long);
        }
        Ok(rows)
    }

    /// The bucket that holds a seq, if there is a message with it. The first bucket needs no index row.
    async fn bucket_of(&self, conversation: ConversationId, seq: Seq) -> Result<u32, StoreError> {
        Ok(self.index_below(conversation, "seq", of_seq(seq)).await?.map_or(0, |row| row.bucket))
    }

    /// The buckets that a range touches, in the order in which they are read.
    async fn buckets(&self, conversation: ConversationId, range: SeqRange, order: Order) -> Result<Vec<u32>, StoreError> {
        if range.after >= range.before {
            return Ok(Vec::new());
        }
        if self.buckets.first_has(conversation, range.before.previous()) {
            return Ok(vec![0]);
        }
        let last = self.bucket_of(conversation, range.before.previous()).await?;
        let first = if last == 0 { 0 } else { self.bucket_of(conversation, range.after.next()).await? };
        Ok(match order {
            Order::OldestFirst => (first..=last).collect(),
            Order::NewestFirst => (first..=last).rev().collect(),
        })
    }

    async fn index_below(&self, conversation: ConversationId, by: &str, value: i64) -> Result<Option<IndexRow>, StoreError> {
        let row: Option<IndexColumns> = self.row(&self.statements.index_below, (conversation.to_string(), by, value)).await?;
        row.map(index_row).transpose()
    }

    async fn index_from(&self, conversation: ConversationId, by: &str, value: i64, limit: usize) -> Result<Vec<IndexRow>, StoreError> {
        let values = (conversation.to_string(), by, value, to_limit(limit));
        let rows: Vec<IndexColumns> = self.rows(&self.statements.index_from, values).await?;
        rows.into_iter().map(index_row).collect()
    }

    async fn dedup_below(&self, key: &DedupKey, below: Seq) -> Result<Option<DedupRow>, StoreError> {
        let sender = key.sender.as_ref().map_or("", UserId::as_str);
        let values = (key.conversation.to_string(), sender, key.client_id.as_str(), of_seq(below));
        type Columns = (i64, Option<i64>, Option<CqlTimestamp>, Option<Vec<u8>>);
        let row: Option<Columns> = self.row(&self.statements.dedup, values).await?;
        let Some((at, Some(number), Some(created_at), Some(hash))) = row else { return Ok(None) };
        Ok(Some(DedupRow { seq: seq(at)?, n: n(number), created_at: millis(created_at), hash: decode(&hash).or_corrupt()? }))
    }

    /// Newest first, until both have been seen: one may have changed their mind a hundred times since the other last did.
    async fn blocks_below(&self, key: &LogKey, below: Seq) -> Result<Vec<BlockRow>, StoreError> {
        type Columns = (String, String, i64, CqlTimestamp, bool);
        let rows = self.stream::<Columns, _>(&self.statements.blocks_below, (&key.hash()[..], of_seq(below))).await?;
        let mut rows = std::pin::pin!(rows);
        let mut newest: Vec<BlockRow> = Vec::new();
        while let Some((blocker, blocked, at, since, on)) = rows.try_next().await? {
            let row = BlockRow { blocker: user(&blocker)?, blocked: user(&blocked)?, at: seq(at)?, since: millis(since), on };
            if newest.iter().all(|other| other.blocker != row.blocker) {
                newest.push(row);
            }
            if newest.len() == 2 {
                break;
            }
        }
        Ok(newest)
    }
}

fn to_limit(limit: usize) -> i32 {
    i32::try_from(limit).unwrap_or(i32::MAX)
}
