//! How Dunlin is called over the network. For now: whether it is alive and well.

mod health;

pub use health::{Health, router};
