//! Where time comes from, so that tests own it.

use dunlin_model::Millis;

/// Wall-clock time. May stand still or jump; whoever needs more says so (the log's time never goes backwards).
pub trait Clock: Send + Sync {
    fn now(&self) -> Millis;
}
