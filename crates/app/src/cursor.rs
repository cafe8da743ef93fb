//! Opaque cursors: what a page ended with, for the query that it belongs to.

use data_encoding::BASE64URL_NOPAD;
use dunlin_model::{decode, encode};
use minicbor::{Decode, Encode};

use crate::AppError;

/// A cursor of one query can't be taken for another's: the first field says whose it is.
pub(crate) fn write<T: Encode<()>>(query: &str, value: &T) -> String {
    BASE64URL_NOPAD.encode(&encode(&(query, value)))
}

pub(crate) fn read<T: for<'b> Decode<'b, ()>>(query: &str, cursor: &str) -> Result<T, AppError> {
    let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).map_err(|_| AppError::InvalidCursor)?;
    let (of, value): (&str, T) = decode(&bytes).map_err(|_| AppError::InvalidCursor)?;
    if of == query { Ok(value) } else { Err(AppError::InvalidCursor) }
}
