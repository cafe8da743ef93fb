//! Which shard something belongs to. Fixed for good: golden vectors below.

use std::fmt;

use sha2::{Digest, Sha256};

/// How many there are, on however many databases.
pub const SHARDS: u8 = 64;

/// One of the parts that users, server keys and tasks are divided into. A shard lives in one database, as a schema of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Shard(u8);

impl Shard {
    /// The first byte of the id's SHA-256, so that whoever looks finds it too: `SELECT get_byte(sha256('alice'), 0) % 64`.
    pub fn of(id: &str) -> Shard {
        Shard(Sha256::digest(id)[0] % SHARDS)
    }

    pub fn numbered(number: u8) -> Option<Shard> {
        (number < SHARDS).then_some(Shard(number))
    }

    pub fn all() -> impl Iterator<Item = Shard> {
        (0..SHARDS).map(Shard)
    }

    pub fn number(self) -> u8 {
        self.0
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn schema(self) -> String {
        format!("dunlin_shard_{:02}", self.0)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Some shards, written as `0-31, 40`; empty for none.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardSet(u64);

impl ShardSet {
    pub const ALL: ShardSet = ShardSet(u64::MAX);

    /// None if it is not understood, or names what does not exist.
    pub fn parse(text: &str) -> Option<ShardSet> {
        let mut set = ShardSet::default();
        for range in text.split(',').map(str::trim).filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last {
                return None;
            }
            for number in first..=last {
                set.insert(Shard::numbered(number)?);
            }
        }
        Some(set)
    }

    pub fn contains(self, shard: Shard) -> bool {
        self.0 & 1 << shard.0 != 0
    }

    pub fn insert(&mut self, shard: Shard) {
        self.0 |= 1 << shard.0;
    }

    pub fn shards(self) -> impl Iterator<Item = Shard> {
        Shard::all().filter(move |&shard| self.contains(shard))
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Shard> for ShardSet {
    fn from_iter<I: IntoIterator<Item = Shard>>(shards: I) -> ShardSet {
        let mut set = ShardSet::default();
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

/// As it is parsed.
impl fmt::Display for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for Shard(number) in self.shards() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        let words = ranges.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
        f.write_str(&words.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Debug for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_what_they_always_were() {
        for (id, shard) in [("alice", 43), ("bob", 1), ("1", 43), ("A.b_c:d@e-f", 50), ("550e8400-e29b-41d4-a716-446655440000", 35)] {
            assert_eq!(Shard::of(id), Shard(shard), "{id}");
        }
    }

    #[test]
    fn ids_spread_over_all_shards() {
        let mut counts = [0u32; SHARDS as usize];
        for id in 0..64_000 {
            counts[Shard::of(&format!("user-{id}")).index()] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    #[test]
    fn sets_read_back() {
        for (text, shown, len) in
            [("", "", 0), ("0-63", "0-63", 64), ("7", "7", 1), ("3,1, 2 ,9-10", "1-3, 9-10", 5), ("0-31, 16-40,", "0-40", 41)]
        {
            let set = ShardSet::parse(text).unwrap();
            assert_eq!((set.to_string().as_str(), set.shards().count()), (shown, len));
            assert_eq!(ShardSet::parse(&set.to_string()), Some(set));
        }
        for wrong in ["64", "0-64", "5-3", "a", "1-", "-1", "1 2"] {
            assert_eq!(ShardSet::parse(wrong), None, "{wrong}");
        }
    }
}
