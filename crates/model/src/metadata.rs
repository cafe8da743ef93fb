//! What an application keeps with a user or a message: short texts by short names. Dunlin never reads it.

use std::sync::Arc;

use minicbor::{Decode, Encode, decode, encode};

use crate::{Text, limits};

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidMetadata {
    #[error("must have at most {} entries", limits::METADATA_ENTRIES_MAX)]
    TooMany,
    #[error("a name must have 1 to {} bytes and no control characters", limits::METADATA_NAME_BYTES_MAX)]
    Name,
    #[error("a value must have at most {} bytes", limits::METADATA_VALUE_BYTES_MAX)]
    Value,
    #[error("a name must not come twice")]
    Twice,
}

/// Never empty: nothing to keep is no metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metadata(Arc<[(Text, Text)]>);

impl Metadata {
    /// `None` if there are no entries.
    pub fn parse<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Option<Metadata>, InvalidMetadata> {
        let mut all: Vec<(Text, Text)> = Vec::new();
        for (name, value) in entries {
            match () {
                () if all.len() == limits::METADATA_ENTRIES_MAX => return Err(InvalidMetadata::TooMany),
                () if !is_name(name) => return Err(InvalidMetadata::Name),
                () if value.len() > limits::METADATA_VALUE_BYTES_MAX => return Err(InvalidMetadata::Value),
                () => all.push((name.into(), value.into())),
            }
        }
        all.sort_unstable();
        if all.windows(2).any(|two| two[0].0 == two[1].0) {
            return Err(InvalidMetadata::Twice);
        }
        Ok((!all.is_empty()).then(|| Metadata(all.into())))
    }

    /// Ordered by name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= limits::METADATA_NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

impl<C> Encode<C> for Metadata {
    fn encode<W: encode::Write>(&self, e: &mut minicbor::Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.map(self.0.len() as u64)?;
        for (name, value) in self.entries() {
            e.str(name)?.str(value)?;
        }
        e.ok()
    }
}

impl<'b, C> Decode<'b, C> for Metadata {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Metadata, decode::Error> {
        let entries = d.map_iter::<&str, &str>()?.collect::<Result<Vec<_>, _>>()?;
        let metadata = Metadata::parse(entries).map_err(|invalid| decode::Error::message(invalid.to_string()))?;
        metadata.ok_or_else(|| decode::Error::message("metadata is empty"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_ordered_and_reads_back() {
        let metadata = Metadata::parse([("b", "2"), ("a", ""), ("名", "前")]).unwrap().unwrap();
        assert_eq!(metadata.entries().collect::<Vec<_>>(), [("a", ""), ("b", "2"), ("名", "前")]);
        let bytes = minicbor::to_vec(&metadata).unwrap();
        assert_eq!(minicbor::decode::<Metadata>(&bytes).unwrap(), metadata);
    }

    #[test]
    fn metadata_keeps_to_its_limits() {
        let long = "x".repeat(limits::METADATA_VALUE_BYTES_MAX + 1);
        let names: Vec<String> = (0..=limits::METADATA_ENTRIES_MAX).map(|number| number.to_string()).collect();
        assert_eq!(Metadata::parse([]), Ok(None));
        assert_eq!(Metadata::parse([("", "x")]), Err(InvalidMetadata::Name));
        assert_eq!(Metadata::parse([("a\n", "x")]), Err(InvalidMetadata::Name));
        assert_eq!(Metadata::parse([(&*"x".repeat(65), "x")]), Err(InvalidMetadata::Name));
        assert_eq!(Metadata::parse([("a", &*long)]), Err(InvalidMetadata::Value));
        assert_eq!(Metadata::parse([("a", "1"), ("a", "2")]), Err(InvalidMetadata::Twice));
        assert!(Metadata::parse(names[1..].iter().map(|name| (&**name, ""))).is_ok());
        assert_eq!(Metadata::parse(names.iter().map(|name| (&**name, ""))), Err(InvalidMetadata::TooMany));
    }
}
