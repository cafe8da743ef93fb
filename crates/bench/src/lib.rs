//! Load, statistics and the checker behind `dunlin bench`: generic over the ports and the use cases, so that every profile is measured alike.
//!
//! What is not here: opening data folders, and the order of the phases (the binary, which names adapters).

pub mod check;
pub mod cluster;
mod disk;
mod drive;
pub mod http;
mod latency;
mod ledger;
mod memory;
mod people;
mod plot;
mod progress;
mod random;
pub mod raw;
pub mod reads;
pub mod report;
pub mod sends;
pub mod setup;
mod table;
mod tag;

pub use disk::{DiskSpeed, file_system, fsyncs, scratch, sizes};
pub use drive::{Driven, Lane, Paced, closed, paced};
pub use latency::{Latencies, Summary};
pub use ledger::{LaneRecord, Ledger};
pub use memory::Memory;
pub use people::People;
pub use plot::svg;
pub use progress::Progress;
pub use report::Report;
pub use table::table;
