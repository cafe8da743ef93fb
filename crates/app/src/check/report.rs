//! What was verified, and what was found wrong.

use std::fmt;

use dunlin_model::{ConversationId, UserId};

/// How many problems a report spells out; the others are counted.
pub const PROBLEMS_KEPT_MAX: usize = 100;
/// Of these, how many about one place: a broken head makes a problem of each of its messages, which must not hide what is wrong elsewhere.
pub const PROBLEMS_OF_A_PLACE_MAX: usize = 20;

/// How much was verified, and the problems.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    pub conversations: u64,
    pub messages: u64,
    pub buckets: u64,
    pub index_rows: u64,
    /// Messages deleted for everyone.
    pub deleted_numbers: u64,
    pub dedup_rows: u64,
    /// Pairs of a conversation and one of its members.
    pub members: u64,
    pub inbox_rows: u64,
    pub unread_checked: u64,
    /// Whose inbox and feed were walked.
    pub users: u64,
    pub feed_rows: u64,
    /// The first ones, of each place and of all.
    pub problems: Vec<Problem>,
    pub problems_total: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    pub place: Place,
    pub what: String,
}

/// Whose rows: a conversation's, a user's, or one user's of a conversation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    pub conversation: Option<ConversationId>,
    pub user: Option<UserId>,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.problems_total == 0
    }

    pub(super) fn problem(&mut self, place: &Place, what: String) {
        self.problems_total += 1;
        let of_place = self.problems.iter().filter(|problem| problem.place == *place).count();
        if self.problems.len() < PROBLEMS_KEPT_MAX && of_place < PROBLEMS_OF_A_PLACE_MAX {
            self.problems.push(Problem { place: place.clone(), what });
        }
    }

    pub(super) fn problems(&mut self, place: &Place, all: impl IntoIterator<Item = String>) {
        all.into_iter().for_each(|what| self.problem(place, what));
    }
}

impl Place {
    pub(super) fn conversation(conversation: ConversationId) -> Place {
        Place { conversation: Some(conversation), user: None }
    }

    pub(super) fn user(user: &UserId) -> Place {
        Place { conversation: None, user: Some(user.clone()) }
    }

    pub(super) fn member(conversation: ConversationId, user: &UserId) -> Place {
        Place { conversation: Some(conversation), user: Some(user.clone()) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "verified {} conversations and the inboxes and feeds of {} users:", self.conversations, self.users)?;
        writeln!(f, "  {} messages in {} buckets, {} of them deleted for everyone", self.messages, self.buckets, self.deleted_numbers)?;
        writeln!(f, "  {} index rows, {} dedup rows, {} feed rows", self.index_rows, self.dedup_rows, self.feed_rows)?;
        writeln!(f, "  {} members, {} inbox rows, {} unread counts", self.members, self.inbox_rows, self.unread_checked)?;
        match self.problems_total {
            0 => return write!(f, "no problems"),
            1 => write!(f, "1 problem:")?,
            total => write!(f, "{total} problems:")?,
        }
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        match self.problems_total - self.problems.len() as u64 {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.conversation, &self.user) {
            (Some(conversation), Some(user)) => write!(f, "conversation {conversation}, user {user}"),
            (Some(conversation), None) => write!(f, "conversation {conversation}"),
            (None, Some(user)) => write!(f, "user {user}"),
            (None, None) => write!(f, "heads"),
        }
    }
}
