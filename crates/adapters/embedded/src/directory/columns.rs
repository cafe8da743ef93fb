//! How the model's values stand in columns.

use dunlin_model::Millis;
use rusqlite::{Row, types::Type};

/// SQLite's integers have a sign. A time beyond them is "never" in any case, so the highest stands for it.
pub fn ms(at: Millis) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

pub fn millis(row: &Row<'_>, column: usize) -> rusqlite::Result<Millis> {
    optional_millis(row, column)?.ok_or_else(|| rusqlite::Error::InvalidColumnType(column, "time".into(), Type::Null))
}

pub fn optional_millis(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Millis>> {
    let Some(value) = row.get::<_, Option<i64>>(column)? else { return Ok(None) };
    let ms = u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))?;
    Ok(Some(Millis(ms)))
}

/// A text that has to be a valid value of the model.
pub fn parsed<T, E: std::error::Error + Send + Sync + 'static>(column: usize, parsed: Result<T, E>) -> rusqlite::Result<T> {
    parsed.map_err(|invalid| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(invalid)))
}
