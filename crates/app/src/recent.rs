//! A map that forgets what was not used for a while: two generations, the older one dropped when the younger is full.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
};

use foldhash::fast::RandomState;

pub(crate) struct Recent<K, V> {
    young: HashMap<K, V, RandomState>,
    old: HashMap<K, V, RandomState>,
    /// What both generations hold together, at most.
    max: usize,
}

impl<K: Hash + Eq + Clone, V> Recent<K, V> {
    pub(crate) fn new(max: usize) -> Recent<K, V> {
        Recent { young: HashMap::default(), old: HashMap::default(), max }
    }

    /// Moves what is found to the young generation, so that it stays until the next but one `age`.
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        match self.young.entry(key.clone()) {
            Entry::Occupied(place) => Some(place.into_mut()),
            Entry::Vacant(place) => self.old.remove(key).map(|value| place.insert(value)),
        }
    }

    pub(crate) fn contains(&mut self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.young.insert(key, value);
    }

    /// Makes room. What was used since the last call stays.
    pub(crate) fn age(&mut self) {
        if self.young.len() > self.max / 2 {
            self.old = std::mem::take(&mut self.young);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let mut recent = Recent::new(10);
        recent.insert(0, "used");
        recent.insert(1, "not used");
        for key in 2..40 {
            recent.insert(key, "");
            assert_eq!(recent.get(&0), Some(&mut "used"));
            recent.age();
            assert!(recent.young.len() + recent.old.len() <= 12);
        }
        assert_eq!(recent.get(&1), None);
    }
}
