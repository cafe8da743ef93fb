//! Immutable text that is cheap to clone and can be encoded.

use std::{fmt, ops::Deref, sync::Arc};

use minicbor::{Decode, Encode, decode, encode};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(text.into())
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl<C> Encode<C> for Text {
    fn encode<W: encode::Write>(&self, e: &mut minicbor::Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.str(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Text {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Text, decode::Error> {
        Ok(d.str()?.into())
    }
}
