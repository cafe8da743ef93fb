//! Users.

use dunlin_model::{Millis, Name, User, UserChange, UserId, decode, encode};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::columns::{millis, ms, parsed};

pub fn upsert(connection: &mut Connection, id: &UserId, change: UserChange, at: Millis) -> rusqlite::Result<User> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let before = get(&transaction, id)?;
    let user = match &before {
        Some(user) => user.changed(change, at),
        None => User::new(id.clone(), change, at),
    };
    if before.as_ref() != Some(&user) {
        put(&transaction, &user)?;
    }
    transaction.commit()?;
    Ok(user)
}

pub fn get(connection: &Connection, id: &UserId) -> rusqlite::Result<Option<User>> {
    let mut select = connection.prepare_cached("SELECT display_name, metadata, created_at, updated_at FROM users WHERE id = ?1")?;
    select
        .query_row([id.as_str()], |row| {
            let display_name = row.get::<_, Option<String>>(0)?.map(|name| parsed(0, Name::parse(&name))).transpose()?;
            let metadata = row.get::<_, Option<Vec<u8>>>(1)?.map(|bytes| parsed(1, decode(&bytes))).transpose()?;
            Ok(User { id: id.clone(), display_name, metadata, created_at: millis(row, 2)?, updated_at: millis(row, 3)? })
        })
        .optional()
}

pub fn exist(connection: &Connection, ids: &[UserId]) -> rusqlite::Result<Vec<bool>> {
    let mut select = connection.prepare_cached("SELECT 1 FROM users WHERE id = ?1")?;
    ids.iter().map(|id| select.exists([id.as_str()])).collect()
}

fn put(connection: &Connection, user: &User) -> rusqlite::Result<()> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO users (id, display_name, metadata, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (id) DO UPDATE SET
           display_name = excluded.display_name, metadata = excluded.metadata, updated_at = excluded.updated_at",
    )?;
    let metadata = user.metadata.as_ref().map(encode);
    let display_name = user.display_name.as_ref().map(Name::as_str);
    upsert.execute(params![user.id.as_str(), display_name, metadata, ms(user.created_at), ms(user.updated_at)])?;
    Ok(())
}
