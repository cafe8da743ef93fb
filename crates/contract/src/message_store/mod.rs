//! What every message store promises.

mod conversations;
mod judging;
mod make;
mod messages;
mod users;

pub use conversations::*;
pub use judging::*;
pub use messages::*;
pub use users::*;
