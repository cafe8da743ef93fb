//! Users.

use dunlin_model::{Millis, Name, PhoneNumber, User, UserChange, UserId, decode, encode};
use tokio::time::Instant;
use tokio_postgres::{Row, types::Type};

use crate::{
    columns::{get, millis, ms, parsed},
    error::Fault,
    pool::Loan,
    router::Router,
    shard::Shard,
};

const COLUMNS: &str = "id, display_name, metadata, phone, created_at, updated_at";

pub async fn upsert(router: &Router, id: &UserId, change: &UserChange, at: Millis, deadline: Instant) -> Result<User, Fault> {
    let shard = Shard::of(id.as_str());
    loop {
        let (work, found) = router.begin_reading(shard, deadline, &locking(), &[(&id.as_str(), Type::TEXT)]).await?;
        if let Some(before) = found.first().map(user).transpose()? {
            let user = before.changed(change.clone(), at);
            commit_changed(work, &before, &user).await?;
            return Ok(user);
        }
        let user = User::new(id.clone(), change.clone(), at);
        if commit_insert(work, &user).await? {
            return Ok(user);
        }
        // Someone else has made the user in between. Users stay, so this happens once.
    }
}

pub async fn read(router: &Router, id: &UserId, deadline: Instant) -> Result<Option<User>, Fault> {
    let shard = Shard::of(id.as_str());
    let rows = router.read(shard, deadline, COLUMNS, "users WHERE id = $1", &[(&id.as_str(), Type::TEXT)]).await?;
    rows.first().map(user).transpose()
}

/// Those of the ids, all of one shard, that exist.
pub async fn existing(router: &Router, shard: Shard, ids: &[&str], deadline: Instant) -> Result<Vec<String>, Fault> {
    let rows = router.read(shard, deadline, "id", "users WHERE id = ANY($1)", &[(&ids, Type::TEXT_ARRAY)]).await?;
    rows.iter().map(|row| get(row, "id")).collect()
}

/// Nobody else changes this user until the end of the transaction.
pub async fn locked(work: &Loan, id: &UserId) -> Result<Option<User>, Fault> {
    work.query(&locking(), &[(&id.as_str(), Type::TEXT)]).await?.first().map(user).transpose()
}

fn locking() -> String {
    format!("SELECT {COLUMNS} FROM users WHERE id = $1 FOR UPDATE")
}

async fn commit_insert(work: Loan, user: &User) -> Result<bool, Fault> {
    let sql = format!("INSERT INTO users ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING RETURNING id");
    let given = [
        (&user.id.as_str() as _, Type::TEXT),
        (&user.display_name.as_ref().map(Name::as_str) as _, Type::TEXT),
        (&user.metadata.as_ref().map(encode) as _, Type::BYTEA),
        (&user.phone.as_ref().map(PhoneNumber::as_str) as _, Type::TEXT),
        (&ms(user.created_at) as _, Type::INT8),
        (&ms(user.updated_at) as _, Type::INT8),
    ];
    Ok(!work.commit_with(&sql, &given).await?.is_empty())
}

pub async fn commit_changed(work: Loan, before: &User, user: &User) -> Result<(), Fault> {
    if user == before {
        return work.commit().await;
    }
    let given = [
        (&user.id.as_str() as _, Type::TEXT),
        (&user.display_name.as_ref().map(Name::as_str) as _, Type::TEXT),
        (&user.metadata.as_ref().map(encode) as _, Type::BYTEA),
        (&user.phone.as_ref().map(PhoneNumber::as_str) as _, Type::TEXT),
        (&ms(user.updated_at) as _, Type::INT8),
    ];
    let sql = "UPDATE users SET display_name = $2, metadata = $3, phone = $4, updated_at = $5 WHERE id = $1";
    work.commit_with(sql, &given).await.map(drop)
}

fn user(row: &Row) -> Result<User, Fault> {
    let display_name = get::<Option<&str>>(row, "display_name")?.map(|name| parsed("display_name", Name::parse(name))).transpose()?;
    let metadata = get::<Option<&[u8]>>(row, "metadata")?.map(|bytes| parsed("metadata", decode(bytes))).transpose()?;
    let phone = get::<Option<&str>>(row, "phone")?.map(|phone| parsed("phone", PhoneNumber::parse(phone))).transpose()?;
    Ok(User {
        id: parsed("id", UserId::parse(get(row, "id")?))?,
        display_name,
        metadata,
        phone,
        created_at: millis(row, "created_at")?,
        updated_at: millis(row, "updated_at")?,
    })
}
