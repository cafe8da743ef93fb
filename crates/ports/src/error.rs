//! What can go wrong at a port, told by what the caller can do about it.

/// `Ok(None)` says "not there"; an error says "could not tell".
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was done. Trying again later may work.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// It may or may not have been done. Repeating the same call is safe and tells.
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// Nothing was done: something else is there already.
    #[error("conflict: {0}")]
    Conflict(String),
    /// What is stored can't be right. Trying again won't help; someone has to look.
    #[error("corrupt: {0}")]
    Corrupt(String),
}
