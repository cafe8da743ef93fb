//! What the projector writes. Each is a cell or a row of its own; `at` is the seq that orders it among writes to the same cell.

use std::sync::Arc;

use bytes::Bytes;
use dunlin_model::{
    BlockRow, Cell, ConversationId, DedupKey, DedupRow, Deleted, EditRow, Emoji, FeedRow, IndexRow, LogKey, Mark, MessageRow, Millis, N,
    OutcomeRow, Register, Revision, Seq, Tip, UserId,
};

#[derive(Clone, PartialEq, Debug)]
pub enum Write {
    /// A message as it was sent. Never has a revision.
    Message {
        conversation: ConversationId,
        row: Arc<MessageRow>,
    },
    /// What an edit or a deletion makes of it.
    Revision {
        conversation: ConversationId,
        target: Seq,
        bucket: u32,
        revision: Cell<Revision>,
    },
    Edit {
        conversation: ConversationId,
        target: Seq,
        row: EditRow,
    },
    Index {
        conversation: ConversationId,
        row: IndexRow,
    },
    DeletedNumber {
        conversation: ConversationId,
        n: N,
        at: Seq,
    },
    Hidden {
        user: UserId,
        conversation: ConversationId,
        target: Seq,
        at: Seq,
    },
    Reaction {
        conversation: ConversationId,
        target: Seq,
        bucket: u32,
        user: UserId,
        emoji: Emoji,
        on: Cell<bool>,
    },
    /// Shared: every member's inbox gets the same.
    InboxTip {
        user: UserId,
        conversation: ConversationId,
        tip: Arc<Cell<Tip>>,
    },
    InboxDeleted {
        user: UserId,
        conversation: ConversationId,
        deleted: Cell<Deleted>,
    },
    InboxArchived {
        user: UserId,
        conversation: ConversationId,
        archived: Cell<Option<Seq>>,
    },
    InboxVeiled {
        user: UserId,
        conversation: ConversationId,
        veiled: Cell<Seq>,
    },
    /// A register that only rises, ordered by the seq of the mark itself.
    Mark {
        user: UserId,
        conversation: ConversationId,
        register: Register,
        mark: Mark,
    },
    Block(BlockRow),
    Feed {
        user: UserId,
        row: FeedRow,
    },
    Dedup {
        key: DedupKey,
        row: DedupRow,
    },
    /// What became of an event that leaves nothing else to tell it by: rejected, a duplicate, or a block.
    Outcome {
        conversation: ConversationId,
        at: Seq,
        row: OutcomeRow,
    },
    /// An event set aside, as the log holds it.
    Parked {
        key: LogKey,
        at: Seq,
        time: Millis,
        bytes: Bytes,
    },
    /// Events that were set aside were judged after all. Of two under one `at`, the one that came further stands.
    Unparked {
        key: LogKey,
        replay: Replay,
    },
}

/// What one unpark event had judged: the events set aside from one seq up to, and without, another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replay {
    /// The unpark event.
    pub at: Seq,
    /// Its log time, at which feeds show them.
    pub time: Millis,
    pub from: Seq,
    pub to: Seq,
}

impl Replay {
    pub fn contains(&self, seq: Seq) -> bool {
        self.from <= seq && seq < self.to
    }
}
