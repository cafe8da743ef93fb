//! Every port on one machine, each on the simplest thing that is trusted for its job. What is not here: any rule of messaging.

mod blobs;
mod clock;
mod directory;
mod ephemeral;
mod error;
mod random;
mod session_bus;

pub use blobs::Blobs;
pub use clock::SystemClock;
pub use directory::Directory;
pub use ephemeral::Ephemeral;
pub use random::RandomIds;
pub use session_bus::SessionBus;
