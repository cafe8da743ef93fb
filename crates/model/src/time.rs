//! Log time in milliseconds, and the months that the feed is kept by.

use minicbor::{Decode, Encode};

/// Milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Millis(#[n(0)] pub u64);

impl Millis {
    pub const ZERO: Millis = Millis(0);
    pub const DAY: u64 = 24 * 60 * 60 * 1000;

    pub fn minus(self, ms: u64) -> Millis {
        Millis(self.0.saturating_sub(ms))
    }

    pub fn month(self) -> Month {
        // Days to civil date, for the proleptic Gregorian calendar: eras of 400 years, years that begin in March.
        let days = self.0 / Millis::DAY + 719_468;
        let day_of_era = days % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let (month, carry) = if march_month < 10 { (march_month + 3, 0) } else { (march_month - 9, 1) };
        let year = days / 146_097 * 400 + year_of_era + carry;
        Month(u32::try_from(year * 12 + month - 1).expect("a month of u64 milliseconds since 1970, counted in years, fits"))
    }
}

/// A calendar month, counted from year 0: `year * 12 + month - 1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(transparent)]
pub struct Month(#[n(0)] pub u32);

impl Month {
    pub fn next(self) -> Month {
        Month(self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_follow_the_calendar() {
        let month = |ms| Millis(ms).month().0;
        assert_eq!(month(0), 1970 * 12);
        assert_eq!(month(31 * Millis::DAY - 1), 1970 * 12);
        assert_eq!(month(31 * Millis::DAY), 1970 * 12 + 1);
        assert_eq!(month(951_782_400_000), 2000 * 12 + 1, "29 February 2000");
        assert_eq!(month(951_868_800_000), 2000 * 12 + 2, "1 March 2000");
        assert_eq!(month(1_735_689_599_999), 2024 * 12 + 11, "the last millisecond of 2024");
        assert_eq!(month(1_735_689_600_000), 2025 * 12, "the first of 2025");
    }
}
