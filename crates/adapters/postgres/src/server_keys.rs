//! Server keys.

use std::collections::BTreeSet;

use dunlin_model::{Millis, Name, Scope, SecretHash, ServerKey, ServerKeyId};
use tokio::time::Instant;
use tokio_postgres::{Row, types::Type};

use crate::{
    columns::{get, millis, ms, optional_millis, parsed},
    error::Fault,
    pool::Loan,
    router::Router,
    shard::Shard,
};

const COLUMNS: &str = "id, name, scopes, secret_hash, created_at, revoked_at";

/// The key that stands under the id afterwards: the given one, or whichever was there before.
pub async fn create(work: &Loan, new: &ServerKey) -> Result<ServerKey, Fault> {
    let sql = format!("INSERT INTO server_keys ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING");
    let given = [
        (&new.id.as_str() as _, Type::TEXT),
        (&new.name.as_str() as _, Type::TEXT),
        (&words(&new.scopes) as _, Type::TEXT),
        (&new.secret_hash.0.as_slice() as _, Type::BYTEA),
        (&ms(new.created_at) as _, Type::INT8),
        (&new.revoked_at.map(ms) as _, Type::INT8),
    ];
    work.query(&sql, &given).await?;
    let sql = format!("SELECT {COLUMNS} FROM server_keys WHERE id = $1");
    let rows = work.query(&sql, &[(&new.id.as_str(), Type::TEXT)]).await?;
    rows.first().map_or_else(|| Err(Fault::Passing(format!("server key {} is not there yet", new.id))), key)
}

pub async fn read(router: &Router, id: &ServerKeyId, deadline: Instant) -> Result<Option<ServerKey>, Fault> {
    let given = [(&id.as_str() as _, Type::TEXT)];
    let rows = router.read(Shard::of(id.as_str()), deadline, COLUMNS, "server_keys WHERE id = $1", &given).await?;
    rows.first().map(key).transpose()
}

/// Of one shard.
pub async fn page(
    router: &Router,
    shard: Shard,
    after: Option<&ServerKeyId>,
    limit: usize,
    deadline: Instant,
) -> Result<Vec<ServerKey>, Fault> {
    // No id is empty, so all of them come after the empty text.
    let after = after.map_or("", ServerKeyId::as_str);
    let given = [(&after as _, Type::TEXT), (&i64::try_from(limit).unwrap_or(i64::MAX) as _, Type::INT8)];
    let rows = router.read(shard, deadline, COLUMNS, "server_keys WHERE id > $1 ORDER BY id LIMIT $2", &given).await?;
    rows.iter().map(key).collect()
}

pub async fn revoke(work: &Loan, id: &ServerKeyId, at: Millis) -> Result<Option<ServerKey>, Fault> {
    let sql = format!("UPDATE server_keys SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1 RETURNING {COLUMNS}");
    let rows = work.query(&sql, &[(&id.as_str(), Type::TEXT), (&ms(at), Type::INT8)]).await?;
    rows.first().map(key).transpose()
}

fn key(row: &Row) -> Result<ServerKey, Fault> {
    Ok(ServerKey {
        id: parsed("id", ServerKeyId::parse(get(row, "id")?))?,
        name: parsed("name", Name::parse(get(row, "name")?))?,
        scopes: scopes(get(row, "scopes")?),
        secret_hash: SecretHash(parsed("secret_hash", get::<&[u8]>(row, "secret_hash")?.try_into())?),
        created_at: millis(row, "created_at")?,
        revoked_at: optional_millis(row, "revoked_at")?,
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
        assert_eq!(words(&Scope::ALL.into()), "act users metrics");
    }
}
