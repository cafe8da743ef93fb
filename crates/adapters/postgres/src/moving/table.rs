//! The tables of a shard, as the database tells them: whatever a version has in its shards comes along.

use tokio_postgres::types::Type;

use crate::{error::Fault, pool::Loan, shard::Shard};

pub struct Table {
    /// With its schema.
    pub name: String,
    /// Without it.
    pub relation: String,
    pub columns: String,
    /// Columns, all of them texts.
    pub key: Vec<String>,
}

/// All of them. There are no sequences or other things that would have to come along.
pub async fn all(session: &Loan, shard: Shard) -> Result<Vec<Table>, Fault> {
    let sql = "SELECT c.oid::regclass::text, c.relname::text,
                 (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
                    WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
                 ARRAY(SELECT attname::text FROM pg_attribute a JOIN pg_index i ON i.indrelid = c.oid AND a.attnum = ANY(i.indkey)
                    WHERE a.attrelid = c.oid AND i.indisprimary ORDER BY attnum)
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = $1 AND c.relkind = 'r' ORDER BY c.relname";
    let rows = session.query(sql, &[(&shard.schema(), Type::TEXT)]).await?;
    Ok(rows.iter().map(|row| Table { name: row.get(0), relation: row.get(1), columns: row.get(2), key: row.get(3) }).collect())
}

impl Table {
    /// For rows with these keys, each an object of JSON.
    pub fn with_keys(&self, keys: &[String]) -> String {
        let list = keys.join(", ").replace('\'', "''");
        let parts: Vec<String> = self.key.iter().map(|column| format!("k ->> '{column}'")).collect();
        format!("WHERE ({}) IN (SELECT {} FROM jsonb_array_elements('[{list}]') k)", self.key.join(", "), parts.join(", "))
    }

    /// How many rows, and the sum of their hashes: the same rows in another order are the same.
    pub async fn sum(&self, loan: &Loan, filter: &str) -> Result<String, Fault> {
        let Table { name, columns, .. } = self;
        let sql = format!(
            "SELECT count(*), coalesce(sum(('x' || left(md5(ROW({columns})::text), 16))::bit(64)::bigint::numeric), 0) FROM {name} {filter}"
        );
        let rows = loan.run(&sql).await?;
        let word = |index| rows.first().and_then(|row| row.get(index)).unwrap_or("nothing").to_owned();
        Ok(format!("{} rows with checksum {}", word(0), word(1)))
    }
}
