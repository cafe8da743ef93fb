//! What compaction does to rows on the way: it drops expired ones, and it is the place where a running compaction can be told to stop.

use std::panic::RefUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lsm_tree::compaction::filter::Context;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};

use super::is_reserved;

/// Says whether a row has expired for good, by key and value. It must not panic.
///
/// A hint for saving room, not a rule: it is asked only when a row happens to be compacted (perhaps never), so a reader has to judge expiry
/// itself. A snapshot that was open before goes on seeing the row; one that is opened later may not see it, without any batch in between.
/// Once true for a row it has to stay true.
pub trait Expiry: Send + Sync + RefUnwindSafe {
    fn expired(&self, key: &[u8], value: &[u8]) -> bool;
}

impl<F: Fn(&[u8], &[u8]) -> bool + Send + Sync + RefUnwindSafe> Expiry for F {
    fn expired(&self, key: &[u8], value: &[u8]) -> bool {
        self(key, value)
    }
}

/// Makes one [`Filter`] for each compaction.
pub(super) struct Filters {
    pub expiry: Option<Arc<dyn Expiry>>,
    pub stop: Arc<AtomicBool>,
}

struct Filter {
    expiry: Option<Arc<dyn Expiry>>,
    stop: Arc<AtomicBool>,
}

impl Factory for Filters {
    fn name(&self) -> &str {
        "expiry"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Filter { expiry: self.expiry.clone(), stop: Arc::clone(&self.stop) })
    }
}

impl CompactionFilter for Filter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        // The engine's own stop signal fires only after its last user is gone. An error here abandons the compaction, and changes nothing.
        if self.stop.load(Ordering::Relaxed) {
            return Err(std::io::Error::from(std::io::ErrorKind::Interrupted).into());
        }
        let Some(expiry) = &self.expiry else { return Ok(Verdict::Keep) };
        if is_reserved(item.key()) || !expiry.expired(item.key(), &item.value()?) {
            return Ok(Verdict::Keep);
        }
        // Leaves a tombstone until the last level; dropping the row at once would bring back an older one of the same key below it.
        Ok(Verdict::Remove)
    }
}
