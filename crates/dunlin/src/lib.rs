//! The binary's parts: the only place that names adapters.

pub mod bench;
pub mod blobs;
pub mod clocks;
pub mod cluster;
pub mod config;
pub mod dev;
pub mod engine;
pub mod life;
pub mod node;
pub mod secrets;
