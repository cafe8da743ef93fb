//! The message store as a model: every cell with its time, in memory, each write made apart. It passes the contract suite, and the
//! property tests run on it because they can stop and reorder its writes. No product code does.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use dunlin_model::{
    BlockRow, Cell, ConversationId, DedupKey, DedupRow, EditRow, Emoji, FeedKey, FeedRow, Head, InboxRow, IndexRow, LogKey, Mark,
    MemberRow, MessageRow, Millis, N, OutcomeRow, Pair, Partition, ReactionRow, Register, Revision, Seq, Standing, UserId,
};
use dunlin_ports::{Batch, Checkpoint, Known, MessageStore, Order, Parked, ParkedRow, Replay, SeqRange, StoreError, Wanted, Write};

#[derive(Default)]
pub struct ModelStore {
    state: Mutex<State>,
    /// Nothing can be applied while this is set.
    away: Arc<AtomicBool>,
    /// What it holds once it has answered the next question of a projector.
    meanwhile: Mutex<Option<State>>,
}

impl ModelStore {
    /// After the next answer to a projector and before its next question, somebody else writes: the store holds this then.
    pub fn meanwhile(&self, state: State) {
        *self.meanwhile.lock().expect("no test goes on after a panic") = Some(state);
    }

    /// A store that takes nothing while the switch is on.
    pub fn unavailable_while(away: Arc<AtomicBool>) -> ModelStore {
        ModelStore { away, ..ModelStore::default() }
    }
}

/// All tables. Two states are equal if every cell is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct State {
    pub heads: BTreeMap<ConversationId, Head>,
    pub messages: BTreeMap<(ConversationId, Seq), StoredMessage>,
    pub edits: BTreeMap<(ConversationId, Seq, Seq), EditRow>,
    pub index: BTreeMap<(ConversationId, N), IndexRow>,
    pub deleted: BTreeSet<(ConversationId, N)>,
    pub hidden: BTreeSet<(UserId, ConversationId, Seq)>,
    pub reactions: BTreeMap<(ConversationId, Seq, UserId, Emoji), Cell<bool>>,
    pub inbox: BTreeMap<(UserId, ConversationId), InboxRow>,
    pub members: BTreeMap<(ConversationId, UserId), MemberRow>,
    pub blocks: BTreeMap<(LogKey, UserId, Seq), BlockRow>,
    pub standings: BTreeMap<(UserId, UserId), Standing>,
    pub feed: BTreeMap<(UserId, FeedKey), FeedRow>,
    pub dedup: BTreeMap<(DedupKey, Seq), DedupRow>,
    pub outcomes: BTreeMap<(ConversationId, Seq), OutcomeRow>,
    pub parked: BTreeMap<(LogKey, Seq), ParkedRow>,
    pub replays: BTreeMap<(LogKey, Seq), Replay>,
    pub checkpoints: BTreeMap<Partition, Checkpoint>,
}

/// A message whose cells may arrive in any order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StoredMessage {
    sent: Option<MessageRow>,
    revision: Option<Cell<Revision>>,
}

impl StoredMessage {
    pub fn row(&self) -> Option<MessageRow> {
        let mut row = self.sent.clone()?;
        if let Some(revision) = &self.revision {
            row.revise(revision.clone());
        }
        Some(row)
    }
}

impl State {
    /// Makes one write. Any write may come again, late, or before one that was meant to precede it.
    pub fn write(&mut self, write: Write) {
        match write {
            Write::Message { conversation, row } => {
                let key = (conversation, row.seq);
                self.messages.entry(key).or_default().sent = Some(Arc::unwrap_or_clone(row));
            }
            Write::Revision { conversation, target, revision, .. } => {
                Cell::merge(&mut self.messages.entry((conversation, target)).or_default().revision, revision);
            }
            Write::Edit { conversation, target, row } => drop(self.edits.insert((conversation, target, row.at), row)),
            Write::Index { conversation, row } => drop(self.index.insert((conversation, row.n), row)),
            Write::DeletedNumber { conversation, n, .. } => drop(self.deleted.insert((conversation, n))),
            Write::Hidden { user, conversation, target, .. } => drop(self.hidden.insert((user, conversation, target))),
            Write::Reaction { conversation, target, user, emoji, on, .. } => {
                let mut cell = self.reactions.remove(&(conversation, target, user.clone(), emoji.clone()));
                Cell::merge(&mut cell, on);
                self.reactions.extend(cell.map(|cell| ((conversation, target, user, emoji), cell)));
            }
            Write::InboxTip { user, conversation, tip } => Cell::merge(&mut self.inbox_row(user, conversation).tip, (*tip).clone()),
            Write::InboxDeleted { user, conversation, deleted } => Cell::merge(&mut self.inbox_row(user, conversation).deleted, deleted),
            Write::InboxArchived { user, conversation, archived } => {
                Cell::merge(&mut self.inbox_row(user, conversation).archived, archived)
            }
            Write::InboxVeiled { user, conversation, veiled } => Cell::merge(&mut self.inbox_row(user, conversation).veiled, veiled),
            Write::Mark { user, conversation, register, mark } => self.raise(user, conversation, register, mark),
            Write::Block(row) => self.block(row),
            Write::Feed { user, row } => drop(self.feed.insert((user, row.key), row)),
            Write::Dedup { key, row } => drop(self.dedup.insert((key, row.seq), row)),
            Write::Outcome { conversation, at, row } => drop(self.outcomes.insert((conversation, at), row)),
            Write::Parked { key, at, time, bytes } => drop(self.parked.insert((key, at), ParkedRow { at, time, bytes })),
            Write::Unparked { key, replay } => {
                let mine = self.replays.entry((key, replay.at)).or_insert(replay);
                mine.to = mine.to.max(replay.to);
            }
        }
    }

    pub fn write_head(&mut self, conversation: ConversationId, head: Head) {
        let newer = self.heads.get(&conversation).is_none_or(|mine| mine.applied <= head.applied);
        if newer {
            self.heads.insert(conversation, head);
        }
    }

    pub fn write_checkpoint(&mut self, partition: Partition, checkpoint: Checkpoint) {
        let newer = self.checkpoints.get(&partition).is_none_or(|mine| mine.seq <= checkpoint.seq);
        if newer {
            self.checkpoints.insert(partition, checkpoint);
        }
    }

    fn inbox_row(&mut self, user: UserId, conversation: ConversationId) -> &mut InboxRow {
        self.inbox.entry((user, conversation)).or_insert_with(|| InboxRow::new(conversation))
    }

    fn raise(&mut self, user: UserId, conversation: ConversationId, register: Register, mark: Mark) {
        match register {
            Register::Seen => self.inbox_row(user, conversation).seen.raise(mark),
            Register::Hidden => self.inbox_row(user, conversation).hidden.raise(mark),
            Register::Read => self.member(user, conversation).read.raise(mark),
            Register::Delivered => self.member(user, conversation).delivered.raise(mark),
        }
    }

    fn member(&mut self, user: UserId, conversation: ConversationId) -> &mut MemberRow {
        self.members.entry((conversation, user.clone())).or_insert_with(|| MemberRow::new(user))
    }

    fn block(&mut self, row: BlockRow) {
        let pair = Pair::new(row.blocker.clone(), row.blocked.clone());
        for user in pair.users() {
            let other = pair.other(user);
            let standing = self.standings.entry((user.clone(), other.clone())).or_insert_with(|| Standing::new(other.clone()));
            standing.merge(user, &row);
        }
        self.blocks.insert((pair.log_key(), row.blocker.clone(), row.at), row);
    }

    /// What the projector asks, as of the events that ask.
    pub fn known(&self, wanted: &Wanted) -> Known {
        Known {
            heads: wanted.heads.iter().map(|conversation| self.heads.get(conversation).cloned()).collect(),
            dedup: wanted.dedup.iter().map(|(key, below)| self.dedup_below(key, *below)).collect(),
            blocks: wanted.blocks.iter().map(|(key, below)| self.blocks_below(*key, *below)).collect(),
            messages: wanted.messages.iter().map(|key| self.messages.get(key).and_then(StoredMessage::row)).collect(),
        }
    }

    fn dedup_below(&self, key: &DedupKey, below: Seq) -> Option<DedupRow> {
        let range = (key.clone(), Seq::ZERO)..(key.clone(), below);
        self.dedup.range(range).next_back().map(|(_, row)| *row)
    }

    fn blocks_below(&self, key: LogKey, below: Seq) -> Vec<BlockRow> {
        let mut newest: BTreeMap<UserId, BlockRow> = BTreeMap::new();
        for ((of, blocker, at), row) in &self.blocks {
            if *of == key && *at < below {
                newest.insert(blocker.clone(), row.clone()); // Ascending by `at` for each blocker.
            }
        }
        newest.into_values().collect()
    }
}

impl ModelStore {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test goes on after a panic")
    }
}

#[async_trait]
impl MessageStore for ModelStore {
    async fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        if self.away.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("the model store is away".into()));
        }
        let mut state = self.state();
        batch.writes.iter().for_each(|write| state.write(write.clone()));
        batch.heads.iter().for_each(|(conversation, head)| state.write_head(*conversation, head.clone()));
        if let Some((partition, checkpoint)) = batch.checkpoint {
            state.write_checkpoint(partition, checkpoint);
        }
        Ok(())
    }

    async fn checkpoint(&self, partition: Partition) -> Result<Option<Checkpoint>, StoreError> {
        Ok(self.state().checkpoints.get(&partition).copied())
    }

    async fn known(&self, wanted: &Wanted) -> Result<Known, StoreError> {
        let known = self.state().known(wanted);
        if let Some(meanwhile) = self.meanwhile.lock().expect("no test goes on after a panic").take() {
            *self.state() = meanwhile;
        }
        Ok(known)
    }

    async fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        Ok(self.state().heads.get(&conversation).cloned())
    }

    async fn heads(&self, after: Option<ConversationId>, limit: usize) -> Result<Vec<(ConversationId, Head)>, StoreError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.state().heads.range((from, Bound::Unbounded)).take(limit).map(|(id, head)| (*id, head.clone())).collect())
    }

    async fn message(&self, conversation: ConversationId, seq: Seq) -> Result<Option<MessageRow>, StoreError> {
        Ok(self.state().messages.get(&(conversation, seq)).and_then(StoredMessage::row))
    }

    async fn messages(
        &self,
        conversation: ConversationId,
        range: SeqRange,
        order: Order,
        limit: usize,
    ) -> Result<Vec<MessageRow>, StoreError> {
        if range.after >= range.before {
            return Ok(Vec::new());
        }
        let state = self.state();
        let bounds = (Bound::Excluded((conversation, range.after)), Bound::Excluded((conversation, range.before)));
        let rows = state.messages.range(bounds).filter_map(|(_, stored)| stored.row());
        Ok(match order {
            Order::OldestFirst => rows.take(limit).collect(),
            Order::NewestFirst => rows.rev().take(limit).collect(),
        })
    }

    async fn index_at_n(&self, conversation: ConversationId, n: N) -> Result<Option<IndexRow>, StoreError> {
        Ok(self.state().index.range((conversation, N::ZERO)..=(conversation, n)).next_back().map(|(_, row)| *row))
    }

    async fn index_from_time(&self, conversation: ConversationId, at: Millis) -> Result<Option<IndexRow>, StoreError> {
        let state = self.state();
        let mut rows = state.index.range((conversation, N::ZERO)..=(conversation, N(u64::MAX)));
        Ok(rows.find(|(_, row)| row.at >= at).map(|(_, row)| *row))
    }

    async fn index(&self, conversation: ConversationId, after: N, limit: usize) -> Result<Vec<IndexRow>, StoreError> {
        let bounds = (Bound::Excluded((conversation, after)), Bound::Included((conversation, N(u64::MAX))));
        Ok(self.state().index.range(bounds).take(limit).map(|(_, row)| *row).collect())
    }

    async fn deleted_above(&self, conversation: ConversationId, n: N) -> Result<u64, StoreError> {
        let bounds = (Bound::Excluded((conversation, n)), Bound::Included((conversation, N(u64::MAX))));
        Ok(self.state().deleted.range(bounds).count() as u64)
    }

    async fn hidden(&self, user: &UserId, conversation: ConversationId, range: SeqRange, limit: usize) -> Result<Vec<Seq>, StoreError> {
        let bounds = (user.clone(), conversation, Seq::ZERO)..=(user.clone(), conversation, Seq::MAX);
        let state = self.state();
        let hidden = state.hidden.range(bounds).map(|(_, _, seq)| *seq);
        Ok(hidden.filter(|seq| range.contains(*seq)).take(limit).collect())
    }

    async fn reactions(&self, conversation: ConversationId, range: SeqRange, limit: usize) -> Result<Vec<ReactionRow>, StoreError> {
        let state = self.state();
        let rows = state.reactions.iter().filter(|((of, target, ..), _)| *of == conversation && range.contains(*target));
        let row = |((_, target, user, emoji), on): (&(_, Seq, UserId, Emoji), &Cell<bool>)| ReactionRow {
            target: *target,
            user: user.clone(),
            emoji: emoji.clone(),
            on: on.clone(),
        };
        Ok(rows.take(limit).map(row).collect())
    }

    async fn edits(&self, conversation: ConversationId, target: Seq, limit: usize) -> Result<Vec<EditRow>, StoreError> {
        let bounds = (conversation, target, Seq::ZERO)..=(conversation, target, Seq::MAX);
        Ok(self.state().edits.range(bounds).take(limit).map(|(_, row)| row.clone()).collect())
    }

    async fn inbox(&self, user: &UserId, after: Option<ConversationId>, limit: usize) -> Result<Vec<InboxRow>, StoreError> {
        let state = self.state();
        let rows = state.inbox.iter().filter(|((of, id), _)| of == user && after.is_none_or(|after| *id > after));
        Ok(rows.take(limit).map(|(_, row)| row.clone()).collect())
    }

    async fn inbox_row(&self, user: &UserId, conversation: ConversationId) -> Result<Option<InboxRow>, StoreError> {
        Ok(self.state().inbox.get(&(user.clone(), conversation)).cloned())
    }

    async fn members(&self, conversation: ConversationId, after: Option<UserId>, limit: usize) -> Result<Vec<MemberRow>, StoreError> {
        let state = self.state();
        let rows = state.members.iter().filter(|((of, user), _)| *of == conversation && after.as_ref().is_none_or(|after| user > after));
        Ok(rows.take(limit).map(|(_, row)| row.clone()).collect())
    }

    async fn mark_delivered(&self, conversation: ConversationId, user: &UserId, mark: Mark) -> Result<(), StoreError> {
        self.state().raise(user.clone(), conversation, Register::Delivered, mark);
        Ok(())
    }

    async fn standings(&self, user: &UserId, after: Option<&UserId>, limit: usize) -> Result<Vec<Standing>, StoreError> {
        let state = self.state();
        let rows = state.standings.iter().filter(|((of, other), _)| of == user && after.is_none_or(|after| other > after));
        Ok(rows.take(limit).map(|(_, row)| row.clone()).collect())
    }

    async fn feed(&self, user: &UserId, after: FeedKey, limit: usize) -> Result<Vec<FeedRow>, StoreError> {
        let state = self.state();
        let rows = state.feed.range((Bound::Excluded((user.clone(), after)), Bound::Unbounded)).take_while(|((of, _), _)| of == user);
        Ok(rows.take(limit).map(|(_, row)| *row).collect())
    }

    async fn horizon(&self, partitions: u32) -> Result<Millis, StoreError> {
        let state = self.state();
        let log_time = |partition| state.checkpoints.get(&Partition(partition)).map_or(Millis::ZERO, |checkpoint| checkpoint.log_time);
        Ok((0..partitions).map(log_time).min().unwrap_or_default())
    }

    async fn parked(&self, limit: usize) -> Result<Vec<Parked>, StoreError> {
        let state = self.state();
        let keys: BTreeSet<LogKey> = state.parked.keys().map(|(key, _)| *key).collect();
        let parked = keys.into_iter().take(limit).map(|key| {
            let replays: Vec<Replay> = state.replays.range((key, Seq::ZERO)..=(key, Seq::MAX)).map(|(_, replay)| *replay).collect();
            let from = replays.iter().map(|replay| replay.to).max().unwrap_or(Seq::ZERO);
            let first = state.parked.range((key, from)..=(key, Seq::MAX)).map(|((_, at), _)| *at).next();
            Parked { key, first, replays }
        });
        Ok(parked.collect())
    }

    async fn parked_rows(&self, key: &LogKey, from: Seq, limit: usize) -> Result<Vec<ParkedRow>, StoreError> {
        Ok(self.state().parked.range((*key, from)..=(*key, Seq::MAX)).take(limit).map(|(_, row)| row.clone()).collect())
    }

    async fn outcome(&self, conversation: ConversationId, seq: Seq) -> Result<Option<OutcomeRow>, StoreError> {
        Ok(self.state().outcomes.get(&(conversation, seq)).cloned())
    }
}
