//! How values become bytes: a format byte, then CBOR with numbered fields.
//!
//! Fields and variants are known by their numbers, which are never reused: a reader skips fields that it doesn't know and takes
//! `None` for optional ones that are missing, so both can be added.

use minicbor::{Decode, Encode};

/// The first byte of everything stored. Another value means another way of reading what follows.
const FORMAT: u8 = 1;

#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("unknown format {0}")]
    Format(u8),
    #[error("no bytes")]
    Empty,
    #[error("malformed: {0}")]
    Malformed(#[from] minicbor::decode::Error),
}

pub fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    encode_to(&mut bytes, value);
    bytes
}

/// Appends the bytes of a value.
pub fn encode_to<T: Encode<()>>(bytes: &mut Vec<u8>, value: &T) {
    bytes.push(FORMAT);
    minicbor::encode(value, bytes).expect("writing to memory does not fail");
}

pub fn decode<'b, T: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T, DecodeError> {
    match bytes.split_first() {
        None => Err(DecodeError::Empty),
        Some((&FORMAT, body)) => Ok(minicbor::decode(body)?),
        Some((&other, _)) => Err(DecodeError::Format(other)),
    }
}
