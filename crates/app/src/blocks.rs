//! Blocks and unblocks, and lists whom the caller blocks.

use dunlin_model::{Block, BlockRow, Body, ConversationId, Pair, UserId};

use crate::{App, AppError, Changed, PAGE_MAX};

#[derive(Clone, Debug)]
pub struct BlockPage {
    pub blocks: Vec<BlockRow>,
    /// Where the next page begins; none at the end.
    pub next: Option<UserId>,
}

impl App {
    pub async fn block(&self, caller: &UserId, other: &UserId, on: bool) -> Result<Changed, AppError> {
        if caller == other {
            return Err(AppError::BlocksSelf);
        }
        if on {
            self.must_exist(std::slice::from_ref(other)).await?;
        }
        let pair = Pair::new(caller.clone(), other.clone());
        let between = ConversationId::direct(&pair);
        self.change(caller, between, Body::Block(Block { pair, on })).await
    }

    /// Whom the caller blocks, ordered by user.
    pub async fn blocks(&self, caller: &UserId, after: Option<UserId>, limit: usize) -> Result<BlockPage, AppError> {
        let limit = limit.clamp(1, PAGE_MAX);
        let (mut blocks, mut after) = (Vec::new(), after);
        loop {
            let rows = self.store.blocks(caller, after.as_ref(), PAGE_MAX).await?;
            let end = rows.len() < PAGE_MAX;
            after = rows.last().map(|row| other_of(row, caller).clone());
            blocks.extend(rows.into_iter().filter(|row| row.on && row.blocker == *caller));
            if end || blocks.len() >= limit {
                let more = !end || blocks.len() > limit;
                blocks.truncate(limit);
                let next = if more { blocks.last().map(|row| row.blocked.clone()) } else { None };
                return Ok(BlockPage { blocks, next });
            }
        }
    }

    /// How the caller and others stand to each other: (blocked by me, blocked me).
    pub(crate) async fn standing(&self, caller: &UserId) -> Result<Vec<BlockRow>, AppError> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let rows = self.store.blocks(caller, after.as_ref(), PAGE_MAX).await?;
            let end = rows.len() < PAGE_MAX;
            after = rows.last().map(|row| other_of(row, caller).clone());
            all.extend(rows.into_iter().filter(|row| row.on));
            if end {
                return Ok(all);
            }
        }
    }
}

fn other_of<'a>(row: &'a BlockRow, caller: &UserId) -> &'a UserId {
    if row.blocker == *caller { &row.blocked } else { &row.blocker }
}
