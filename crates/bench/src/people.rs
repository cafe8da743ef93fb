//! Who writes to whom, and what: a population with a few busy conversations and many quiet ones.

use std::collections::HashSet;

use anyhow::Result;
use dunlin_app::{Destination, SendMessage};
use dunlin_model::{Content, ConversationId, MessageType, Pair, UserId};

use crate::{random::Random, tag::Tag};

const TEXT_BYTES_MIN: usize = 100;
const TEXT_BYTES_MAX: usize = 300;
/// All texts are parts of this much.
const POOL_BYTES: usize = 64 << 10;
const CONVERSATIONS_PER_USER: usize = 2;
/// How many users have an inbox of exactly `People::usual_size`.
const USUAL: usize = 25;

/// Fixed by the number of users.
pub struct People {
    users: Vec<UserId>,
    /// Indexes of two users each; the busiest first.
    pairs: Vec<(u32, u32)>,
    pool: String,
    pub wide: UserId,
    pub wide_size: usize,
    pub usual: Vec<UserId>,
    pub usual_size: usize,
}

impl People {
    pub fn new(count: usize) -> Result<People> {
        People::of_run(count, "")
    }

    /// With names of their own, so that a server on which another run was made knows none of them.
    pub fn of_run(count: usize, run: &str) -> Result<People> {
        let user = |name: &str, number: usize| UserId::parse(&format!("{name}{run}-{number:05}"));
        let users = (0..count.max(2)).map(|number| user("user", number)).collect::<Result<Vec<_>, _>>()?;
        let mut random = Random::new(1);
        let (mut known, mut pairs) = (HashSet::new(), Vec::new());
        for number in 0..users.len() * CONVERSATIONS_PER_USER {
            let (one, other) = (number % users.len(), random.below(users.len()));
            if one != other && known.insert((one.min(other), one.max(other))) {
                pairs.push((one as u32, other as u32));
            }
        }
        Ok(People {
            pool: pool(&mut random),
            wide: user("wide", 0)?,
            wide_size: users.len().min(1_000),
            usual: (0..USUAL).map(|number| user("usual", number)).collect::<Result<_, _>>()?,
            usual_size: users.len().min(20),
            pairs,
            users,
        })
    }

    /// One of the quiet conversations.
    pub fn quiet(&self, number: usize) -> (UserId, UserId) {
        let (one, other) = self.pairs[self.pairs.len() - 1 - number % self.pairs.len()];
        (self.users[one as usize].clone(), self.users[other as usize].clone())
    }

    /// Everyone, to be created.
    pub fn everyone(&self) -> impl Iterator<Item = &UserId> {
        self.users.iter().chain(&self.usual).chain([&self.wide])
    }

    /// Who writes to whom so that every conversation is open, and that the inboxes of the wide and the usual ones are full, a part of it unread.
    pub fn openings(&self) -> Vec<(UserId, UserId)> {
        let pairs = self.pairs.iter().map(|(one, other)| (self.users[*one as usize].clone(), self.users[*other as usize].clone()));
        let owners = [(&self.wide, self.wide_size)].into_iter().chain(self.usual.iter().map(|user| (user, self.usual_size)));
        let circles = owners.flat_map(|(owner, size)| {
            self.users[..size].iter().enumerate().flat_map(move |(number, other)| match number % 3 {
                0 => vec![(owner.clone(), other.clone())],
                1 => vec![(other.clone(), owner.clone())],
                _ => vec![(other.clone(), owner.clone()); 3],
            })
        });
        pairs.chain(circles).collect()
    }

    /// One of the conversations, busy ones more often: either of the two may be first.
    pub fn pair(&self, random: &mut Random) -> (UserId, UserId) {
        let (one, other) = self.pairs[random.skewed(self.pairs.len())];
        let (one, other) = (self.users[one as usize].clone(), self.users[other as usize].clone());
        if random.next().is_multiple_of(2) { (one, other) } else { (other, one) }
    }

    /// One of the busiest conversations with one of its members.
    pub fn busy(&self, random: &mut Random) -> (UserId, ConversationId) {
        let (one, other) = self.pairs[random.below(self.pairs.len().min(1_000))];
        let (one, other) = (&self.users[one as usize], &self.users[other as usize]);
        (one.clone(), ConversationId::direct(&Pair::new(one.clone(), other.clone())))
    }

    pub fn message(&self, tag: Tag, (from, to): (UserId, UserId)) -> Result<SendMessage> {
        Ok(SendMessage {
            sender: Some(from),
            to: Destination::User(to),
            client_id: tag.client_id()?,
            message_type: MessageType::text(),
            content: Content::text(self.text(tag))?,
            reply_to: None,
            metadata: None,
        })
    }

    /// As long as most.
    pub fn some_text(&self) -> &str {
        &self.pool[..(TEXT_BYTES_MIN + TEXT_BYTES_MAX) / 2]
    }

    /// Fixed by the tag, so that the checker knows what was said.
    pub fn text(&self, tag: Tag) -> &str {
        let noise = tag.noise() as usize;
        let bytes = TEXT_BYTES_MIN + noise % (TEXT_BYTES_MAX - TEXT_BYTES_MIN + 1);
        let start = (noise >> 16) % (self.pool.len() - bytes);
        &self.pool[start..start + bytes]
    }
}

/// Words of ASCII letters: as compressible as talk, roughly.
fn pool(random: &mut Random) -> String {
    let mut words: Vec<String> = Vec::new();
    for _ in 0..2_000 {
        let letters = 2 + random.below(7);
        words.push((0..letters).map(|_| char::from(b'a' + random.skewed(26) as u8)).collect());
    }
    let mut pool = String::with_capacity(POOL_BYTES + 16);
    while pool.len() < POOL_BYTES {
        pool.push_str(&words[random.skewed(words.len())]);
        pool.push(' ');
    }
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_who_writes_exists_and_texts_are_the_same_again() {
        let people = People::new(50).unwrap();
        let everyone: HashSet<&UserId> = people.everyone().collect();
        let openings = people.openings();
        assert!(openings.iter().all(|(from, to)| everyone.contains(from) && everyone.contains(to) && from != to));
        let of_wide: HashSet<&UserId> =
            openings.iter().filter(|(from, to)| [from, to].contains(&&people.wide)).flat_map(|(f, t)| [f, t]).collect();
        assert_eq!(of_wide.len(), people.wide_size + 1);
        let again = People::new(50).unwrap();
        for tag in (0..1_000).map(|count| Tag { lane: 5, count }) {
            assert!((TEXT_BYTES_MIN..=TEXT_BYTES_MAX).contains(&people.text(tag).len()));
            assert_eq!(people.text(tag), again.text(tag));
        }
    }
}
