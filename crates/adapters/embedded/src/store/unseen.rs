//! Which client ids were never seen. Nearly all of them were not, and looking for each in the tree was a third of what judging costs.
//!
//! A filter in memory, of a fixed size: what it does not have is not in the tree; what it has may be. The more the tree holds the more often it
//! sends a question there that it need not, and nothing else gets worse.

use std::{
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use tracing::{debug, warn};

use super::keys::{self, Key};
use crate::tree::{Tree, TreeError};

/// 8 MiB of bits.
const BLOCKS: usize = 1 << 17;
/// With more than so many the filter is of little use, and reading them all to fill it is not worth it.
const FILL_MAX: usize = 7_000_000;
/// How many keys are read in one go.
const STRETCH: usize = 20_000;

/// As large as what a processor fetches from memory at once: a question costs one fetch.
type Block = [AtomicU64; 8];

pub(super) struct Unseen {
    blocks: Box<[Block]>,
    /// Everything that the tree held when it was opened is in.
    is_filled: AtomicBool,
}

impl Unseen {
    fn new() -> Unseen {
        Unseen { blocks: (0..BLOCKS).map(|_| Block::default()).collect(), is_filled: AtomicBool::new(false) }
    }

    /// Before the row can be read: who asks afterwards must not be told that it was never seen.
    pub(super) fn add(&self, hash: &[u8; 16]) {
        let (block, bits) = self.place(hash);
        for bit in bits {
            block[bit / 64].fetch_or(1 << (bit % 64), Ordering::Relaxed);
        }
    }

    /// True only if the tree has no row under this.
    pub(super) fn is_unseen(&self, hash: &[u8; 16]) -> bool {
        if !self.is_filled.load(Ordering::Acquire) {
            return false;
        }
        let (block, mut bits) = self.place(hash);
        bits.any(|bit| block[bit / 64].load(Ordering::Relaxed) & (1 << (bit % 64)) == 0)
    }

    /// The hash is as good as random, so its own bits serve.
    fn place(&self, hash: &[u8; 16]) -> (&Block, impl Iterator<Item = usize> + use<>) {
        const BITS: usize = 6;
        let number = u128::from_le_bytes(*hash);
        let block = &self.blocks[number as usize % BLOCKS];
        (block, (0..BITS).map(move |turn| (number >> (64 + 9 * turn)) as usize % 512))
    }
}

/// Fills the filter from what the tree holds, on a thread of its own; until then every question goes to the tree.
pub(super) struct Filling {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Filling {
    pub(super) fn start(tree: &Arc<Tree>) -> (Arc<Unseen>, Filling) {
        let (unseen, stop) = (Arc::new(Unseen::new()), Arc::new(AtomicBool::new(false)));
        if tree.applied().is_none() {
            unseen.is_filled.store(true, Ordering::Release);
            return (unseen, Filling { stop, thread: None });
        }
        let run = {
            let (tree, unseen, stop) = (Arc::clone(tree), Arc::clone(&unseen), Arc::clone(&stop));
            move || match fill(&tree, &unseen, &stop) {
                Ok(filled) => debug!(filled, "the filter of client ids is filled, or there are too many"),
                Err(error) => warn!(%error, "the filter of client ids was not filled; sends cost a little more"),
            }
        };
        // Without the thread the filter stays unused.
        let thread = thread::Builder::new().name("state-filter".to_owned()).spawn(run).ok();
        (unseen, Filling { stop, thread })
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported when it happened; the filter stays unused.
            let _ = thread.join();
        }
    }
}

/// False if there are too many rows, or it was told to stop. Rows that come meanwhile are added by whoever writes them.
fn fill(tree: &Tree, unseen: &Unseen, stop: &AtomicBool) -> Result<bool, TreeError> {
    let (mut after, mut count) = (Key::new(keys::DEDUP), 0);
    while !stop.load(Ordering::Relaxed) && count <= FILL_MAX {
        let rows = tree.snapshot().range((Bound::Excluded(&after[..]), Bound::Excluded(&[keys::DEDUP + 1][..])))?;
        let before = count;
        for found in rows.take(STRETCH) {
            let (key, _) = found?;
            // None is of another length; if one were, better no filter than one with a hole.
            let Some(hash) = key.get(1..).and_then(|hash| hash.try_into().ok()) else { return Ok(false) };
            unseen.add(hash);
            after = keys::dedup(hash);
            count += 1;
        }
        if count - before < STRETCH {
            unseen.is_filled.store(true, Ordering::Release);
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> [u8; 16] {
        let key = dunlin_model::DedupKey {
            conversation: dunlin_model::ConversationId::FIRST,
            sender: None,
            client_id: dunlin_model::ClientId::parse(&number.to_string()).unwrap(),
        };
        key.hash()
    }

    #[test]
    fn what_was_added_is_never_unseen_and_nearly_everything_else_is() {
        let unseen = Unseen::new();
        unseen.is_filled.store(true, Ordering::Release);
        assert!((0..1_000).all(|number| unseen.is_unseen(&hash(number))));
        (0..100_000).for_each(|number| unseen.add(&hash(number)));
        assert!((0..100_000).all(|number| !unseen.is_unseen(&hash(number))));
        let wrong = (100_000..200_000).filter(|number| !unseen.is_unseen(&hash(*number))).count();
        assert!(wrong < 1_000, "{wrong} of 100,000 are taken for seen");
    }

    #[test]
    fn nothing_is_unseen_until_it_is_filled() {
        assert!(!Unseen::new().is_unseen(&hash(1)));
    }

    #[test]
    fn a_tree_that_is_opened_again_fills_it() {
        let dir = tempfile::tempdir().unwrap();
        let count = STRETCH as u64 * 2 + 7;
        {
            let tree = Tree::open(dir.path(), crate::tree::Options::default()).unwrap();
            let mut keys: Vec<_> = (0..count).map(|number| keys::dedup(&hash(number)).to_vec()).collect();
            keys.sort_unstable();
            tree.apply(keys.into_iter().map(|key| (key, Some(b"row".to_vec()))), 1).unwrap();
            tree.flush().unwrap();
        }
        let tree = Arc::new(Tree::open(dir.path(), crate::tree::Options::default()).unwrap());
        let (unseen, mut filling) = Filling::start(&tree);
        filling.thread.take().unwrap().join().unwrap();
        assert!((0..count).all(|number| !unseen.is_unseen(&hash(number))));
        assert!((count..count + 1_000).filter(|number| unseen.is_unseen(&hash(*number))).count() > 900, "it is filled");
    }

    #[test]
    fn filling_ends_when_it_is_no_longer_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Arc::new(Tree::open(dir.path(), crate::tree::Options::default()).unwrap());
        let stop = AtomicBool::new(true);
        assert!(!fill(&tree, &Unseen::new(), &stop).unwrap());
    }
}
