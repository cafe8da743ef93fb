//! In which months a user's feed has something: a reader who was away for a year would otherwise ask for each of them.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use dunlin_model::{Millis, UserId};

/// How many are remembered as written before all are forgotten.
const WRITTEN_MAX: usize = 200_000;

/// Months that were written lately, so that they are not written with every row.
#[derive(Default)]
pub(crate) struct FeedMonths {
    written: Mutex<HashSet<(UserId, i32)>>,
}

impl FeedMonths {
    pub fn is_written(&self, user: &UserId, month: i32) -> bool {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).contains(&(user.clone(), month))
    }

    pub fn written(&self, user: &UserId, month: i32) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.len() >= WRITTEN_MAX {
            written.clear();
        }
        written.insert((user.clone(), month));
    }
}

/// The month of a time in UTC, as a number that reads well: 202611.
pub(crate) fn month_of(at: Millis) -> i32 {
    // Days since the first of March of the year 0, in eras of 400 years: the leap day comes last in a year.
    let days = i64::try_from(at.0 / Millis::DAY).unwrap_or(i64::MAX / 2) + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let (month, next_year) = if month_from_march < 10 { (month_from_march + 3, 0) } else { (month_from_march - 9, 1) };
    i32::try_from((era * 400 + year + next_year) * 100 + month).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_those_of_the_calendar() {
        let day = |days: u64| month_of(Millis(days * Millis::DAY));
        assert_eq!(
            [day(0), day(30), day(31), day(58), day(59), day(364), day(365)],
            [197001, 197001, 197002, 197002, 197003, 197012, 197101]
        );
        // 2024 is a leap year; 2100 is none.
        assert_eq!([day(19_782), day(19_783), day(47_540), day(47_541)], [202402, 202403, 210002, 210003]);
        assert_eq!(month_of(Millis(1_794_873_600_000)), 202611);
    }
}
