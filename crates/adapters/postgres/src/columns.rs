//! How the model's values stand in columns.

use dunlin_model::Millis;
use tokio_postgres::{Row, types::FromSql};

use crate::error::{Fault, corrupt};

/// PostgreSQL's integers have a sign. A time beyond them is "never" in any case, so the highest stands for it.
pub fn ms(at: Millis) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

pub fn millis(row: &Row, column: &str) -> Result<Millis, Fault> {
    optional_millis(row, column)?.ok_or_else(|| corrupt(column, &"is null"))
}

pub fn optional_millis(row: &Row, column: &str) -> Result<Option<Millis>, Fault> {
    let value = get::<Option<i64>>(row, column)?;
    value.map(|value| u64::try_from(value).map(Millis).map_err(|why| corrupt(column, &why))).transpose()
}

pub fn get<'a, T: FromSql<'a>>(row: &'a Row, column: &str) -> Result<T, Fault> {
    row.try_get(column).map_err(|why| corrupt(column, &why))
}

/// A value that has to be a valid one of the model.
pub fn parsed<T, E: std::fmt::Display>(column: &str, parsed: Result<T, E>) -> Result<T, Fault> {
    parsed.map_err(|why| corrupt(column, &why))
}
