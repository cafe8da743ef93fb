//! From when on users' tokens count.

use dunlin_model::{Millis, UserId};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{
    columns::{millis, ms},
    outbox,
};

pub fn valid_from(connection: &Connection, user: &UserId) -> rusqlite::Result<Option<Millis>> {
    let mut select = connection.prepare_cached("SELECT issued_before FROM token_revocations WHERE user_id = ?1")?;
    select.query_row([user.as_str()], |row| millis(row, 0)).optional()
}

pub fn revoke(connection: &mut Connection, user: &UserId, issued_before: Millis) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(
        "INSERT INTO token_revocations (user_id, issued_before) VALUES (?1, ?2)
         ON CONFLICT (user_id) DO UPDATE SET issued_before = max(token_revocations.issued_before, excluded.issued_before)",
        params![user.as_str(), ms(issued_before)],
    )?;
    outbox::tokens_revoked(&transaction, user, issued_before)?;
    transaction.commit()
}
