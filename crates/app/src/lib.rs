//! What Dunlin does: the use cases, one a file, and the projector. Knows ports, not adapters; nothing here is called over a network.
//!
//! A write use case checks what it can for a quick answer, appends one event and waits a little for its outcome. The projector decides.

mod announcements;
mod answers;
mod blocks;
pub mod check;
mod conversation;
mod copies;
mod cursor;
mod error;
mod feed;
mod history;
mod identity;
mod inbox;
mod known;
mod mark;
mod messages;
mod open;
mod outcomes;
pub mod projector;
mod receipts;
mod recent;
mod seldom;
mod send;
mod send_status;
mod submit;
mod unpark;
mod unread;
mod users;
mod visibility;

use std::sync::Arc;

use dunlin_model::{NodeId, UserId};
use dunlin_ports::{Clock, Directory, Ephemeral, EventLog, IdGen, MessageStore};

pub use blocks::BlockPage;
pub use conversation::{ConversationView, LastMessage, MemberView};
pub use copies::Copies;
pub use dunlin_ports::{AnswerKey, StoreError};
pub use error::AppError;
pub use feed::FeedPage;
pub use history::{HistoryPage, HistoryQuery, MessageView, ReactionView, Status};
pub use identity::{IDENTITY_TTL_MS, Identities};
pub use inbox::{InboxPage, InboxQuery};
pub use known::KnownConversations;
pub use outcomes::{Outcomes, UNPROJECTED_MAX};
pub use projector::{Drive, Order, Progress, Projector, ProjectorError, Rules, Shares, Ticks};
pub use receipts::Receipts;
pub use seldom::Seldom;
pub use send::{Destination, SendMessage};
pub use send_status::{SendToken, outcome_of};
pub use submit::{Changed, Sent, Submitted};
pub use unpark::unpark;
pub use unread::{Unread, UnreadTotals};

/// The most rows that any page has.
pub const PAGE_MAX: usize = 200;

/// The use cases. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub log: Arc<dyn EventLog>,
    pub store: Arc<dyn MessageStore>,
    pub directory: Arc<dyn Directory>,
    pub ephemeral: Arc<dyn Ephemeral>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdGen>,
    pub outcomes: Arc<Outcomes>,
    /// What senders who are alone help along, where projecting is quick.
    pub drive: Option<Arc<Drive>>,
    pub known: Arc<KnownConversations>,
    pub identities: Arc<Identities>,
    pub node: NodeId,
    /// Users who may post anywhere, with the type `robot`.
    pub robots: Arc<[UserId]>,
    pub dedup_window_ms: u64,
}
