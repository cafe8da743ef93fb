//! Times on the wire: RFC 3339 in UTC with milliseconds.

use std::{fmt, str::FromStr};

use dunlin_model::Millis;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use utoipa::ToSchema;

/// A moment, as RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-11-16T09:41:00.123Z")]
pub struct Time(pub Millis);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Beyond the year 9999 there is nothing to tell apart.
        let ms = i64::try_from(self.0.0).unwrap_or(i64::MAX);
        let at = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
        write!(f, "{at:.3}")
    }
}

impl FromStr for Time {
    type Err = &'static str;

    /// Any offset is understood; what is before 1970 is not. Parts of a millisecond count as one: whatever is earlier than the one is
    /// earlier than the other.
    fn from_str(text: &str) -> Result<Time, &'static str> {
        let at: Timestamp = text.parse().map_err(|_| "must be a time such as 2026-11-16T09:41:00.123Z")?;
        let ns = u128::try_from(at.as_nanosecond()).map_err(|_| "must not be before 1970")?;
        let ms = u64::try_from(ns.div_ceil(1_000_000)).map_err(|_| "must not be that late")?;
        Ok(Time(Millis(ms)))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_read_back() {
        for (ms, text) in [(0, "1970-01-01T00:00:00.000Z"), (1_763_286_060_123, "2025-11-16T09:41:00.123Z")] {
            assert_eq!(Time(Millis(ms)).to_string(), text);
            assert_eq!(text.parse(), Ok(Time(Millis(ms))));
        }
        assert_eq!("2025-11-16T10:41:00.123+01:00".parse(), Ok(Time(Millis(1_763_286_060_123))));
        assert_eq!("2025-11-16T09:41:00.1225Z".parse(), Ok(Time(Millis(1_763_286_060_123))));
        for wrong in ["", "yesterday", "2025-11-16", "1969-12-31T23:59:59Z", "2025-13-16T10:41:00Z"] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
        assert!(Time(Millis(u64::MAX)).to_string().starts_with("9999-"));
    }
}
