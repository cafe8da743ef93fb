//! Everything derived from the log: messages, heads, inboxes, feeds. What is not here: any decision (projector).

mod write;

use async_trait::async_trait;
use bytes::Bytes;
use dunlin_model::{
    BlockRow, ConversationId, DedupKey, DedupRow, EditRow, Epoch, EventId, FeedKey, FeedRow, Head, InboxRow, IndexRow, LogKey, Mark,
    MemberRow, MessageRow, Millis, N, OutcomeRow, Partition, ReactionRow, Seq, Standing, UserId,
};

use crate::{Record, StoreError};
pub use write::{Replay, Write};

/// Takes the projector's writes and answers typed reads. An adapter is a mapping, not a second projector.
///
/// - **Repeatable, in any order**: a write that was made before changes nothing; of two writes to one cell the one with the higher seq
///   stands, whichever arrived first. Only a revision comes after its message: the projector has read that.
/// - **Ordered**: `apply` makes a batch's writes, then its heads, then its checkpoint: a head is never there before what it stands for, nor a
///   checkpoint before any of its events.
/// - **Read your writes**: what `apply` has returned from is seen by every later read.
/// - **Bounded**: a page has at most `limit` rows, and adjacent pages meet with no gap and no overlap.
#[async_trait]
pub trait MessageStore: Send + Sync {
    async fn apply(&self, batch: &Batch) -> Result<(), StoreError>;

    /// Up to where a partition has been applied; `None` before its first event.
    async fn checkpoint(&self, partition: Partition) -> Result<Option<Checkpoint>, StoreError>;

    /// What the projector must know to judge a batch of events, each as of the event that asks.
    async fn known(&self, wanted: &Wanted) -> Result<Known, StoreError>;

    async fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError>;

    /// Heads for walks over everything, in an order of the store's own that does not change.
    async fn heads(&self, after: Option<ConversationId>, limit: usize) -> Result<Vec<(ConversationId, Head)>, StoreError>;

    /// A message whose bucket is not the first is found by the index row with which its bucket begins.
    async fn message(&self, conversation: ConversationId, seq: Seq) -> Result<Option<MessageRow>, StoreError>;

    async fn messages(
        &self,
        conversation: ConversationId,
        range: SeqRange,
        order: Order,
        limit: usize,
    ) -> Result<Vec<MessageRow>, StoreError>;

    /// The last index row at or below a number.
    async fn index_at_n(&self, conversation: ConversationId, n: N) -> Result<Option<IndexRow>, StoreError>;

    /// The first index row at or after a time.
    async fn index_from_time(&self, conversation: ConversationId, at: Millis) -> Result<Option<IndexRow>, StoreError>;

    /// Index rows in the order of their numbers.
    async fn index(&self, conversation: ConversationId, after: N, limit: usize) -> Result<Vec<IndexRow>, StoreError>;

    /// How many numbers above `n` were deleted for everyone.
    async fn deleted_above(&self, conversation: ConversationId, n: N) -> Result<u64, StoreError>;

    /// Which messages of a range one user deleted for themselves, ascending.
    async fn hidden(&self, user: &UserId, conversation: ConversationId, range: SeqRange, limit: usize) -> Result<Vec<Seq>, StoreError>;

    /// Reactions to the messages of a range, also those taken back, ordered by message, user and emoji.
    async fn reactions(&self, conversation: ConversationId, range: SeqRange, limit: usize) -> Result<Vec<ReactionRow>, StoreError>;

    /// What edits made of a message, oldest first.
    async fn edits(&self, conversation: ConversationId, target: Seq, limit: usize) -> Result<Vec<EditRow>, StoreError>;

    /// A user's inbox rows, in an order of the store's own that does not change.
    async fn inbox(&self, user: &UserId, after: Option<ConversationId>, limit: usize) -> Result<Vec<InboxRow>, StoreError>;

    /// The same rows, each with nothing but when it last moved; none where it has no tip.
    async fn inbox_moves(
        &self,
        user: &UserId,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<(ConversationId, Option<Millis>)>, StoreError> {
        let rows = self.inbox(user, after, limit).await?;
        Ok(rows.into_iter().map(|row| (row.conversation, row.tip.map(|tip| tip.value.moved_at()))).collect())
    }

    async fn inbox_row(&self, user: &UserId, conversation: ConversationId) -> Result<Option<InboxRow>, StoreError>;

    /// The marks that a conversation's members show to each other, by user; who never set one has no row.
    async fn members(&self, conversation: ConversationId, after: Option<UserId>, limit: usize) -> Result<Vec<MemberRow>, StoreError>;

    /// Raises a delivered mark. Not an event: it may be forgotten in a crash, and clients repeat it.
    async fn mark_delivered(&self, conversation: ConversationId, user: &UserId, mark: Mark) -> Result<(), StoreError>;

    /// How a user and others stand to each other now, also where a block was taken back, ordered by the other user.
    async fn standings(&self, user: &UserId, after: Option<&UserId>, limit: usize) -> Result<Vec<Standing>, StoreError>;

    /// A user's feed after a key, by time; what happened at one time comes in an order of the store's own that does not change.
    async fn feed(&self, user: &UserId, after: FeedKey, limit: usize) -> Result<Vec<FeedRow>, StoreError>;

    /// The time below which no event can still appear in a feed: the lowest checkpoint's of so many partitions. Zero while one has none.
    async fn horizon(&self, partitions: u32) -> Result<Millis, StoreError>;

    /// Log keys of which events were set aside because one of them could not be judged, also where all were replayed since.
    async fn parked(&self, limit: usize) -> Result<Vec<Parked>, StoreError>;

    /// The events that were set aside under a log key, from one on, in order.
    async fn parked_rows(&self, key: &LogKey, from: Seq, limit: usize) -> Result<Vec<ParkedRow>, StoreError>;

    /// Why the event at `seq` changed nothing; `None` if it is not projected, or did change something.
    async fn outcome(&self, conversation: ConversationId, seq: Seq) -> Result<Option<OutcomeRow>, StoreError>;

    /// The epoch of the log's present life; none for a store whose log can't be lost without it.
    async fn epoch(&self) -> Result<Option<Epoch>, StoreError> {
        Ok(None)
    }
}

/// A log key of which events were set aside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parked {
    pub key: LogKey,
    /// The first that still waits.
    pub first: Option<Seq>,
    /// What was replayed, in the order of the log.
    pub replays: Vec<Replay>,
}

/// An event set aside, as the log holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParkedRow {
    pub at: Seq,
    pub time: Millis,
    pub bytes: Bytes,
}

/// What some events write together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub writes: Vec<Write>,
    /// The head of each conversation after the last of its events.
    pub heads: Vec<(ConversationId, Head)>,
    pub checkpoint: Option<(Partition, Checkpoint)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// The last event of which, as of everything below it, all is written.
    pub seq: Seq,
    pub log_time: Millis,
    /// Whether the log is still the one that this was derived from.
    pub event_id: EventId,
}

impl Checkpoint {
    pub fn at(record: &Record) -> Checkpoint {
        Checkpoint { seq: record.position.seq, log_time: record.position.time, event_id: record.event_id }
    }
}

/// A question to [`MessageStore::known`].
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub heads: Vec<ConversationId>,
    /// The newest rows below a seq.
    pub dedup: Vec<(DedupKey, Seq)>,
    /// The newest row of each direction between the two users of a pair, below a seq.
    pub blocks: Vec<(LogKey, Seq)>,
    pub messages: Vec<(ConversationId, Seq)>,
}

impl Wanted {
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.dedup.is_empty() && self.blocks.is_empty() && self.messages.is_empty()
    }
}

/// The answer, in the order of the question.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub heads: Vec<Option<Head>>,
    pub dedup: Vec<Option<DedupRow>>,
    pub blocks: Vec<Vec<BlockRow>>,
    pub messages: Vec<Option<MessageRow>>,
}

/// Seqs strictly between two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SeqRange {
    pub after: Seq,
    pub before: Seq,
}

impl SeqRange {
    pub const ALL: SeqRange = SeqRange { after: Seq::ZERO, before: Seq::MAX };

    pub fn contains(&self, seq: Seq) -> bool {
        self.after < seq && seq < self.before
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    NewestFirst,
    OldestFirst,
}
