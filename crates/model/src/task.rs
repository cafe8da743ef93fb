//! Work that one node at a time does for all.

use std::{fmt, sync::Arc};

use crate::{Millis, NodeId};

/// Which work, such as `clean-up`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskName(Arc<str>);

impl TaskName {
    pub const CHARS_MAX: usize = 64;

    pub fn parse(text: &str) -> Result<TaskName, InvalidTaskName> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
        if text.is_empty() || text.len() > TaskName::CHARS_MAX || !text.bytes().all(allowed) {
            return Err(InvalidTaskName);
        }
        Ok(TaskName(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must have 1 to {} characters of a-z 0-9 . -", TaskName::CHARS_MAX)]
pub struct InvalidTaskName;

/// Who does a task, and for how long before anyone else may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    pub holder: NodeId,
    pub until: Millis,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tasks_keep_to_their_limits() {
        for right in ["a", "clean-up", "copy.blocks-7", &"x".repeat(64)] {
            assert_eq!(TaskName::parse(right).unwrap().as_str(), right);
        }
        for wrong in ["", "A", "a b", "a_b", &"x".repeat(65)] {
            assert_eq!(TaskName::parse(wrong), Err(InvalidTaskName), "{wrong}");
        }
    }
}
