//! Where fresh ids come from, so that tests own them.

/// Unguessable and never twice the same.
pub trait IdGen: Send + Sync {
    fn bits128(&self) -> [u8; 16];
}
