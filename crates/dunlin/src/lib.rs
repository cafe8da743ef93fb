//! The binary's parts: the only place that names adapters.

pub mod bench;
pub mod engine;
