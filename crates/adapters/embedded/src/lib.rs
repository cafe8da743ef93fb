//! Every port on one machine, each on the simplest thing that is trusted for its job. What is not here: any rule of messaging.

mod blobs;
mod clock;
mod directory;
mod ephemeral;
mod error;
mod event_log;
mod folder;
mod log;
mod random;
mod session_bus;
mod store;
mod tree;
mod trim;

pub use blobs::Blobs;
pub use clock::SystemClock;
pub use directory::Directory;
pub use ephemeral::Ephemeral;
pub use event_log::EventLog;
pub use folder::{Folder, OpenError, Options, Sizes};
pub use random::RandomIds;
pub use session_bus::SessionBus;
pub use store::Messages;
pub use tree::Stats as StateStats;
pub use trim::{ReadBack, Trimmed};
