//! What goes over the wire: bodies of requests and answers, problems and their codes. Shared by the server, the client and the tests.
//!
//! Requests refuse unknown fields by name; answers may grow, so whoever reads them ignores what they don't know.

mod conversations;
mod feed;
mod messages;
mod pages;
mod problem;
mod time;
mod users;

pub use conversations::{Block, Conversation, ConversationUnread, LastMessage, MarkBody, Member, Unread, Visibility};
pub use feed::{Feed, FeedItem, Happening};
pub use messages::{Change, EditBody, Message, Opaque, Outcome, Reaction, Receipts, SendBody, SendStatus, SendToBody, Sent, Status};
pub use pages::Page;
pub use problem::{Code, FieldError, Problem};
pub use time::Time;
pub use users::{Token, TokenBody, TokensRevoked, User, UserBody};

use std::collections::BTreeMap;

/// Short texts by short names, for the application's own use.
pub type Metadata = BTreeMap<String, String>;
