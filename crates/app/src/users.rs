//! Users: who there is, and whose tokens still count.

use dunlin_model::{Millis, User, UserChange, UserId};

use crate::{App, AppError};

impl App {
    /// Creates or changes a user.
    pub async fn upsert_user(&self, id: &UserId, change: UserChange) -> Result<User, AppError> {
        Ok(self.directory.upsert_user(id, change, self.clock.now()).await?)
    }

    pub async fn user(&self, id: &UserId) -> Result<User, AppError> {
        self.directory.user(id).await?.ok_or_else(|| AppError::NoUser(id.clone()))
    }

    /// Makes void whatever tokens of a user were issued until now; says up to when.
    pub async fn revoke_tokens(&self, user: &UserId) -> Result<Millis, AppError> {
        let issued_before = self.clock.now();
        self.directory.revoke_tokens(user, issued_before).await?;
        self.identities.tokens_revoked(user, issued_before);
        Ok(issued_before)
    }
}
