//! Users.

use dunlin_model::{Millis, Name, PhoneNumber, User, UserChange, UserId, decode, encode};
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

/// The number belongs to another user.
pub struct Taken;

pub fn set_phone(
    connection: &mut Connection,
    id: &UserId,
    phone: Option<PhoneNumber>,
    at: Millis,
) -> rusqlite::Result<Result<Option<User>, Taken>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Some(before) = get(&transaction, id)? else { return Ok(Ok(None)) };
    let owner = phone.as_ref().map(|phone| with_phone(&transaction, phone)).transpose()?.flatten();
    if owner.is_some_and(|owner| owner != *id) {
        return Ok(Err(Taken));
    }
    let user = before.with_phone(phone, at);
    if user != before {
        put(&transaction, &user)?;
    }
    transaction.commit()?;
    Ok(Ok(Some(user)))
}

pub fn with_phone(connection: &Connection, phone: &PhoneNumber) -> rusqlite::Result<Option<UserId>> {
    let mut select = connection.prepare_cached("SELECT id FROM users WHERE phone = ?1")?;
    select.query_row([phone.as_str()], |row| parsed(0, UserId::parse(&row.get::<_, String>(0)?))).optional()
}

pub fn get(connection: &Connection, id: &UserId) -> rusqlite::Result<Option<User>> {
    let mut select = connection.prepare_cached("SELECT display_name, metadata, created_at, updated_at, phone FROM users WHERE id = ?1")?;
    select
        .query_row([id.as_str()], |row| {
            let display_name = row.get::<_, Option<String>>(0)?.map(|name| parsed(0, Name::parse(&name))).transpose()?;
            let metadata = row.get::<_, Option<Vec<u8>>>(1)?.map(|bytes| parsed(1, decode(&bytes))).transpose()?;
            let phone = row.get::<_, Option<String>>(4)?.map(|phone| parsed(4, PhoneNumber::parse(&phone))).transpose()?;
            Ok(User { id: id.clone(), display_name, metadata, phone, created_at: millis(row, 2)?, updated_at: millis(row, 3)? })
        })
        .optional()
}

pub fn exist(connection: &Connection, ids: &[UserId]) -> rusqlite::Result<Vec<bool>> {
    let mut select = connection.prepare_cached("SELECT 1 FROM users WHERE id = ?1")?;
    ids.iter().map(|id| select.exists([id.as_str()])).collect()
}

fn put(connection: &Connection, user: &User) -> rusqlite::Result<()> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO users (id, display_name, metadata, created_at, updated_at, phone) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (id) DO UPDATE SET
           display_name = excluded.display_name, metadata = excluded.metadata, updated_at = excluded.updated_at, phone = excluded.phone",
    )?;
    let metadata = user.metadata.as_ref().map(encode);
    let display_name = user.display_name.as_ref().map(Name::as_str);
    let phone = user.phone.as_ref().map(PhoneNumber::as_str);
    upsert.execute(params![user.id.as_str(), display_name, metadata, ms(user.created_at), ms(user.updated_at), phone])?;
    Ok(())
}
