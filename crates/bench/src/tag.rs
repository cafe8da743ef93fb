//! What tells a sent message from every other, within its client id: so the checker knows it again without a list of all sends.

use dunlin_model::{ClientId, InvalidContent};

use crate::random::mix;

/// The `count`th send of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    pub lane: u32,
    pub count: u32,
}

impl Tag {
    /// As long as clients' own, and as random in its beginning.
    pub fn client_id(self) -> Result<ClientId, InvalidContent> {
        ClientId::parse(&format!("{:016x}{:08x}{:08x}", self.noise(), self.lane, self.count))
    }

    /// `None` for one that no lane made.
    pub fn read(id: &ClientId) -> Option<Tag> {
        let hex = |part: Option<&str>| u32::from_str_radix(part?, 16).ok();
        let tag = Tag { lane: hex(id.as_str().get(16..24))?, count: hex(id.as_str().get(24..))? };
        (tag.client_id().as_ref() == Ok(id)).then_some(tag)
    }

    pub fn noise(self) -> u64 {
        mix(u64::from(self.lane) << 32 | u64::from(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_reads_back_and_nothing_else_does() {
        let tag = Tag { lane: 3_900, count: u32::MAX };
        let id = tag.client_id().unwrap();
        assert_eq!((id.as_str().len(), Tag::read(&id)), (32, Some(tag)));
        for other in ["x", "00000000000000000000000000000001", &id.as_str().to_uppercase()] {
            assert_eq!(Tag::read(&ClientId::parse(other).unwrap()), None, "{other}");
        }
    }
}
