//! Server keys.

use std::collections::BTreeSet;

use dunlin_model::{Millis, Name, Scope, SecretHash, ServerKey, ServerKeyId};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::{
    columns::{millis, ms, optional_millis, parsed},
    outbox,
};

/// The key that stands under the id afterwards: the given one, or whichever was there before.
pub fn create(connection: &mut Connection, key: &ServerKey) -> rusqlite::Result<ServerKey> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(before) = get(&transaction, &key.id)? {
        return Ok(before);
    }
    transaction.execute(
        "INSERT INTO server_keys (id, name, scopes, secret_hash, created_at, revoked_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![key.id.as_str(), key.name.as_str(), words(&key.scopes), key.secret_hash.0, ms(key.created_at), key.revoked_at.map(ms)],
    )?;
    transaction.commit()?;
    Ok(key.clone())
}

pub fn get(connection: &Connection, id: &ServerKeyId) -> rusqlite::Result<Option<ServerKey>> {
    let mut select =
        connection.prepare_cached("SELECT id, name, scopes, secret_hash, created_at, revoked_at FROM server_keys WHERE id = ?1")?;
    select.query_row([id.as_str()], key).optional()
}

pub fn page(connection: &Connection, after: Option<&ServerKeyId>, limit: usize) -> rusqlite::Result<Vec<ServerKey>> {
    let mut select = connection.prepare_cached(
        "SELECT id, name, scopes, secret_hash, created_at, revoked_at FROM server_keys WHERE id > ?1 ORDER BY id LIMIT ?2",
    )?;
    // No id is empty, so all of them come after the empty text.
    let after = after.map_or("", ServerKeyId::as_str);
    select.query_map(params![after, i64::try_from(limit).unwrap_or(i64::MAX)], key)?.collect()
}

pub fn revoke(connection: &mut Connection, id: &ServerKeyId, at: Millis) -> rusqlite::Result<Option<ServerKey>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("UPDATE server_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL", params![id.as_str(), ms(at)])?;
    let key = get(&transaction, id)?;
    if key.is_some() {
        outbox::key_revoked(&transaction, id)?;
    }
    transaction.commit()?;
    Ok(key)
}

fn key(row: &Row<'_>) -> rusqlite::Result<ServerKey> {
    Ok(ServerKey {
        id: parsed(0, ServerKeyId::parse(&row.get::<_, String>(0)?))?,
        name: parsed(1, Name::parse(&row.get::<_, String>(1)?))?,
        scopes: scopes(&row.get::<_, String>(2)?),
        secret_hash: SecretHash(row.get(3)?),
        created_at: millis(row, 4)?,
        revoked_at: optional_millis(row, 5)?,
    })
}

fn words(scopes: &BTreeSet<Scope>) -> String {
    scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" ")
}

/// A scope that a later version has written is left out: a key is good for no more than this version knows of.
fn scopes(words: &str) -> BTreeSet<Scope> {
    words.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_of_a_later_version_grants_nothing() {
        assert_eq!(scopes("act fly users"), [Scope::Act, Scope::Users].into());
        assert_eq!(scopes("fly"), BTreeSet::new());
        assert_eq!(scopes(""), BTreeSet::new());
        assert_eq!(words(&Scope::ALL.into()), "act users metrics");
    }
}
