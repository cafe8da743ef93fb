//! Users.

use dunlin_model::{Field, Millis, Name, PhoneNumber, User, UserChange, UserId, decode, encode};
use tokio::time::Instant;
use tokio_postgres::{Row, types::Type};

use crate::{
    columns::{get, millis, ms, parsed},
    error::Fault,
    pool::Loan,
    router::{Router, being_moved, takes_writes},
    shard::Shard,
};

const COLUMNS: &str = "id, display_name, metadata, phone, created_at, updated_at";

pub async fn upsert(router: &Router, id: &UserId, change: &UserChange, at: Millis, deadline: Instant) -> Result<User, Fault> {
    let (shard, new) = (Shard::of(id.as_str()), User::new(id.clone(), change.clone(), at));
    let given = [
        (&new.id.as_str() as _, Type::TEXT),
        (&new.display_name.as_ref().map(Name::as_str) as _, Type::TEXT),
        (&new.metadata.as_ref().map(encode) as _, Type::BYTEA),
        (&ms(at) as _, Type::INT8),
        (&matches!(change.display_name, Field::Keep) as _, Type::BOOL),
        (&matches!(change.metadata, Field::Keep) as _, Type::BOOL),
    ];
    // What a user is after a change, the model says; this is the same in SQL. No row where nothing changes.
    let sql = format!(
        "INSERT INTO {schema}.users AS old (id, display_name, metadata, created_at, updated_at)
         SELECT $1, $2, $3, $4, $4 WHERE {takes_writes}
         ON CONFLICT (id) DO UPDATE SET
             display_name = CASE WHEN $5 THEN old.display_name ELSE $2 END,
             metadata = CASE WHEN $6 THEN old.metadata ELSE $3 END,
             updated_at = greatest(old.updated_at, $4)
         WHERE NOT $5 AND old.display_name IS DISTINCT FROM $2 OR NOT $6 AND old.metadata IS DISTINCT FROM $3
         RETURNING {COLUMNS}",
        schema = shard.schema(),
        takes_writes = takes_writes(shard),
    );
    if let Some(row) = router.write(shard, deadline, &sql, &given).await?.first() {
        return user(row);
    }
    match read(router, id, deadline).await? {
        Some(user) if user.changed(change.clone(), at) == user => Ok(user),
        // Or someone else has just changed the user.
        _ => Err(being_moved(shard)),
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
    let sql = format!("SELECT {COLUMNS} FROM users WHERE id = $1 FOR UPDATE");
    work.query(&sql, &[(&id.as_str(), Type::TEXT)]).await?.first().map(user).transpose()
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
