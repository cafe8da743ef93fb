//! Index rows: one where each stretch of messages begins, no others, each found by number and by time. Read beside the messages, in pages.

use std::collections::VecDeque;

use dunlin_model::{IndexRow, MessageRow, N, limits};
use dunlin_ports::StoreError;

use super::{Conversation, PAGE, Place, Walk};

pub(super) struct Index<'a> {
    this: Conversation<'a>,
    place: Place,
    /// Rows that were read and not yet passed.
    ahead: VecDeque<IndexRow>,
    read_up_to: N,
    end: bool,
    /// The first of the rows that share the newest time: what a look-up by that time gives.
    first_of_time: Option<IndexRow>,
}

impl<'a> Index<'a> {
    pub(super) fn new(this: Conversation<'a>) -> Index<'a> {
        let place = Place::conversation(this.id);
        Index { this, place, ahead: VecDeque::new(), read_up_to: N::ZERO, end: false, first_of_time: None }
    }

    /// The next message: `cut` if a bucket begins with it.
    pub(super) async fn pass(&mut self, walk: &mut Walk<'_>, message: &MessageRow, cut: bool) -> Result<(), StoreError> {
        let wanted = cut || message.n.0 % limits::INDEX_EVERY == 1;
        self.drop_below(walk, message.n).await?;
        let found = self.take_at(walk, message.n).await?;
        let right = IndexRow { seq: message.seq, n: message.n, at: message.created_at, bucket: message.bucket };
        match found {
            None if wanted => walk.report.problem(&self.place, format!("there is no index row at n {}", message.n.0)),
            Some(_) if !wanted => walk.report.problem(&self.place, surplus(message.n)),
            Some(row) if row != right => {
                walk.report.problem(&self.place, format!("index row differs from its message: {row:?}, expected {right:?}"));
            }
            Some(row) => self.look_up(walk, row).await?,
            None => {}
        }
        Ok(())
    }

    /// All messages have passed: whatever is left has none.
    pub(super) async fn end(&mut self, walk: &mut Walk<'_>) -> Result<(), StoreError> {
        while let Some(row) = self.peek(walk).await? {
            self.ahead.pop_front();
            walk.report.problem(&self.place, surplus(row.n));
        }
        Ok(())
    }

    async fn drop_below(&mut self, walk: &mut Walk<'_>, n: N) -> Result<(), StoreError> {
        while let Some(row) = self.peek(walk).await?.filter(|row| row.n < n) {
            self.ahead.pop_front();
            walk.report.problem(&self.place, surplus(row.n));
        }
        Ok(())
    }

    async fn take_at(&mut self, walk: &mut Walk<'_>, n: N) -> Result<Option<IndexRow>, StoreError> {
        let found = self.peek(walk).await?.filter(|row| row.n == n);
        Ok(found.and_then(|_| self.ahead.pop_front()))
    }

    async fn peek(&mut self, walk: &mut Walk<'_>) -> Result<Option<IndexRow>, StoreError> {
        if self.ahead.is_empty() && !self.end {
            self.ahead.extend(walk.store.index(self.this.id, self.read_up_to, PAGE).await?);
            self.end = !walk.onward(&self.place, &mut self.read_up_to, self.ahead.back().map(|row| row.n));
        }
        Ok(self.ahead.front().copied())
    }

    async fn look_up(&mut self, walk: &mut Walk<'_>, row: IndexRow) -> Result<(), StoreError> {
        walk.report.index_rows += 1;
        let first_of_time = self.first_of_time.filter(|first| first.at == row.at).unwrap_or(row);
        self.first_of_time = Some(first_of_time);
        let by_n = walk.store.index_at_n(self.this.id, row.n).await?;
        let by_time = walk.store.index_from_time(self.this.id, row.at).await?;
        for (by, found, right) in [("number", by_n, row), ("time", by_time, first_of_time)] {
            if found != Some(right) {
                let found = found.map_or("none".into(), |found| format!("that at n {}", found.n.0));
                walk.report.problem(&self.place, format!("index row at n {} is not found by its {by}: {found} is", right.n.0));
            }
        }
        Ok(())
    }
}

fn surplus(n: N) -> String {
    format!("there is an index row at n {}, where none belongs", n.0)
}
