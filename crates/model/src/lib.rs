//! What Dunlin talks about: ids, positions, content, events, heads, rows and their encoding.
//!
//! Everything here is a value: no I/O, no clock, no randomness. Strings are parsed at the edge into the types of this crate, so
//! whatever holds a `UserId` holds a valid one. What an event *does* is the projector's business (`dunlin-app`).

mod blob;
mod codec;
mod content;
mod directory;
mod event;
#[cfg(test)]
mod golden;
mod head;
mod ids;
mod inbox;
pub mod limits;
mod marks;
mod metadata;
mod outcome;
mod position;
mod rows;
mod task;
mod text;
mod time;

pub use blob::{BlobKey, InvalidBlobKey};
pub use codec::{DecodeError, decode, encode, encode_to};
pub use content::{ClientId, Content, ContentHash, Emoji, InvalidContent, MessageType};
pub use directory::{Announcement, Field, InvalidDetail, Name, PhoneNumber, Scope, SecretHash, ServerKey, ServerKeyId, User, UserChange};
pub use event::{
    Block, Body, Delete, Edit, Event, EventId, Hide, Message, NodeId, Opening, Origin, React, Read, RequestId, Visibility, VisibilityChange,
};
pub use head::{Bucket, Deleted, Head, Kind, Last, RecentIds};
pub use ids::{AdId, ConversationId, ConversationKind, InvalidId, LogKey, Pair, UserId};
pub use inbox::{Cell, InboxRow, Shown, Tip};
pub use marks::{Mark, MemberRow, Register};
pub use metadata::{InvalidMetadata, Metadata};
pub use outcome::{Accepted, Outcome, OutcomeRow, Rejection};
pub use position::{Epoch, N, Offset, Partition, Position, Seq};
pub use rows::{BlockRow, DedupKey, DedupRow, EditRow, FeedKey, FeedRow, Happening, IndexRow, MessageRow, ReactionRow, Revision, Standing};
pub use task::{InvalidTaskName, Lease, TaskName};
pub use text::Text;
pub use time::Millis;

/// The version of the projector's rules that new events are written under (an event is projected by the rules that it carries).
pub const RULES: u16 = 1;
