//! Everything that happened to a user, for a device that was away.

use dunlin_model::{ConversationId, FeedKey, FeedRow, Millis, Seq, UserId, limits};

use crate::{App, AppError, PAGE_MAX, cursor};

const CURSOR: &str = "feed";

#[derive(Clone, Debug)]
pub struct FeedPage {
    pub rows: Vec<FeedRow>,
    /// Go on from here now; none at the end.
    pub next: Option<String>,
    /// Store this to resume from: nothing can still appear before it.
    pub safe: String,
    /// The cursor was older than what is kept: start over from the inbox, then go on from here.
    pub reset: bool,
}

impl App {
    /// Nothing yet, and where to resume from: for a device that has just read the inbox.
    pub async fn feed_from_now(&self) -> Result<FeedPage, AppError> {
        let safe = beginning(self.store.horizon(self.log.partitions()).await?);
        Ok(FeedPage { rows: Vec::new(), next: None, safe: cursor::write(CURSOR, &safe), reset: false })
    }

    /// What happened after the cursor, in order of log time; without one, all that is kept.
    pub async fn feed(&self, caller: &UserId, after: Option<&str>, limit: usize) -> Result<FeedPage, AppError> {
        let limit = limit.clamp(1, PAGE_MAX);
        // The horizon first: whatever lies below it is written by the time the rows are read.
        let horizon = self.store.horizon(self.log.partitions()).await?;
        let oldest = beginning(horizon.minus(limits::FEED_DAYS * Millis::DAY));
        let (mut after, asked) = match after {
            None => (oldest, false),
            Some(text) => (cursor::read(CURSOR, text)?, true),
        };
        let reset = asked && after < oldest;
        after = after.max(oldest);
        let mut rows = self.store.feed(caller, after, limit + 1).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        // Never beyond the horizon, also where the cursor was (`next` may be); up to it once everything below is read.
        let safe = rows.last().filter(|_| more).map_or(beginning(horizon), |row| row.key.min(beginning(horizon)));
        let next = rows.last().filter(|_| more).map(|row| cursor::write(CURSOR, &row.key));
        Ok(FeedPage { rows, next, safe: cursor::write(CURSOR, &safe), reset })
    }
}

/// Before everything that happened at or after a time.
fn beginning(at: Millis) -> FeedKey {
    FeedKey { at, conversation: ConversationId::FIRST, seq: Seq::ZERO }
}
