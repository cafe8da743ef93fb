//! Blocks and unblocks, and lists whom the caller blocks.

use dunlin_model::{Block, Body, ConversationId, Millis, Pair, Standing, UserId};

use crate::{App, AppError, Changed, PAGE_MAX, cursor};

const CURSOR: &str = "blocks";

#[derive(Clone, Debug)]
pub struct BlockPage {
    /// Whom, and since when.
    pub blocks: Vec<(UserId, Millis)>,
    /// Where the next page begins; none at the end.
    pub next: Option<String>,
}

impl App {
    pub async fn block(&self, caller: &UserId, other: &UserId, on: bool) -> Result<Changed, AppError> {
        if caller == other {
            return Err(AppError::BlocksSelf);
        }
        // Whoever blocked someone may take that back, whatever became of them.
        if on || !self.standings(caller).await?.iter().any(|standing| standing.other == *other) {
            self.must_exist(std::slice::from_ref(other)).await?;
        }
        let pair = Pair::new(caller.clone(), other.clone());
        let between = ConversationId::direct(&pair);
        self.change(caller, between, Body::Block(Block { pair, on })).await
    }

    /// Whom the caller blocks, ordered by user.
    pub async fn blocks(&self, caller: &UserId, cursor: Option<&str>, limit: usize) -> Result<BlockPage, AppError> {
        let limit = limit.clamp(1, PAGE_MAX);
        let mut after: Option<UserId> = cursor.map(|text| cursor::read(CURSOR, text)).transpose()?;
        let mut blocks = Vec::new();
        while blocks.len() <= limit {
            let standings = self.store.standings(caller, after.as_ref(), PAGE_MAX).await?;
            after = standings.last().map(|standing| standing.other.clone());
            let end = standings.len() < PAGE_MAX;
            blocks.extend(standings.into_iter().filter_map(|standing| Some((standing.other.clone(), standing.blocks_since()?))));
            if end {
                break;
            }
        }
        let more = blocks.len() > limit;
        blocks.truncate(limit);
        let next = blocks.last().filter(|_| more).map(|(user, _)| cursor::write(CURSOR, user));
        Ok(BlockPage { blocks, next })
    }

    /// How the caller stands to everyone that they block or are blocked by.
    pub(crate) async fn standings(&self, caller: &UserId) -> Result<Vec<Standing>, AppError> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let standings = self.store.standings(caller, after.as_ref(), PAGE_MAX).await?;
            after = standings.last().map(|standing| standing.other.clone());
            let end = standings.len() < PAGE_MAX;
            all.extend(standings);
            if end {
                return Ok(all);
            }
        }
    }
}
