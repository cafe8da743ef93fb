//! Numbers deleted for everyone: the rows that count them and the head's list, against the messages that are deleted.

use std::collections::BTreeSet;

use dunlin_model::{Deleted, MessageRow, N, limits};
use dunlin_ports::StoreError;

use super::{Conversation, Place, Walk};

/// A count reads all rows above its number, so counting at each deleted number is quadratic. With more rows than this only whole pages of
/// messages are compared: a row that is off by a few numbers within a page then goes unnoticed.
const EXACT_ROWS_MAX: u64 = 2_000;

pub(super) struct Recount<'a> {
    this: Conversation<'a>,
    place: Place,
    rows: u64,
    newest: Newest,
    /// Everything up to here was compared, and so many rows lie above.
    compared: N,
    above: u64,
}

impl<'a> Recount<'a> {
    pub(super) async fn begin(walk: &mut Walk<'_>, this: Conversation<'a>) -> Result<Recount<'a>, StoreError> {
        let rows = walk.store.deleted_above(this.id, N::ZERO).await?;
        let place = Place::conversation(this.id);
        Ok(Recount { this, place, rows, newest: Newest::default(), compared: N::ZERO, above: rows })
    }

    pub(super) async fn add(&mut self, walk: &mut Walk<'_>, page: &[MessageRow]) -> Result<(), StoreError> {
        let deleted: Vec<N> = page.iter().filter(|row| row.is_deleted()).map(|row| row.n).collect();
        walk.report.deleted_numbers += deleted.len() as u64;
        deleted.iter().for_each(|n| self.newest.add(*n));
        let Some(last) = page.last().filter(|_| self.above > 0 || !deleted.is_empty()) else { return Ok(()) };
        if self.rows <= EXACT_ROWS_MAX {
            for n in &deleted {
                self.compare(walk, &deleted, before(*n)).await?;
                self.compare(walk, &deleted, *n).await?;
            }
        }
        self.compare(walk, &deleted, last.n).await
    }

    /// All messages have passed. Gives the list that the head and the inboxes should have.
    pub(super) fn end(self, walk: &mut Walk<'_>) -> Newest {
        if self.above > 0 {
            walk.report.problem(&self.place, format!("{} deleted numbers lie above the last message", self.above));
        }
        if let Some(difference) = self.newest.difference(&self.this.head.deleted) {
            walk.report.problem(&self.place, format!("head's deleted numbers are wrong: {difference}"));
        }
        self.newest
    }

    /// Compares rows and messages from the last such point up to this one.
    async fn compare(&mut self, walk: &mut Walk<'_>, deleted: &[N], up_to: N) -> Result<(), StoreError> {
        if up_to <= self.compared {
            return Ok(());
        }
        let above = walk.store.deleted_above(self.this.id, up_to).await?;
        let rows = self.above.saturating_sub(above);
        let messages = deleted.iter().filter(|n| self.compared < **n && **n <= up_to).count() as u64;
        if rows != messages {
            let from = self.compared.next().0;
            let what = format!("from n {from} to {} there are {messages} deleted messages and {rows} deleted numbers", up_to.0);
            walk.report.problem(&self.place, what);
        }
        (self.compared, self.above) = (up_to, above);
        Ok(())
    }
}

/// The list that the head and the inboxes should have.
#[derive(Default)]
pub(super) struct Newest {
    list: Deleted,
    /// The same numbers, so that a difference can be named.
    numbers: BTreeSet<N>,
}

impl Newest {
    fn add(&mut self, n: N) {
        self.list.add(n);
        self.numbers.insert(n);
        if self.numbers.len() > limits::DELETED_IN_HEAD_MAX {
            self.numbers.pop_first();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// In what a list differs from this one.
    pub(super) fn difference(&self, found: &Deleted) -> Option<String> {
        if *found == self.list {
            return None;
        }
        let holds = |n: N| found.above(before(n)) != found.above(n);
        match self.numbers.iter().rfind(|n| !holds(**n)) {
            Some(n) => Some(format!("n {} is missing", n.0)),
            None => Some(format!("they have others beside the {} right ones", self.numbers.len())),
        }
    }
}

fn before(n: N) -> N {
    N(n.0.saturating_sub(1))
}
