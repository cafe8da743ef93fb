//! The machine's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use dunlin_model::Millis;
use dunlin_ports::Clock;

pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        // A clock that stands before 1970 is a machine without a battery: zero is as good as any wrong time.
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since_1970.as_millis()).expect("u64 milliseconds last for half a billion years"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_this_century() {
        let year_2020 = Millis(1_577_836_800_000);
        let year_2120 = Millis(4_733_510_400_000);
        assert!((year_2020..year_2120).contains(&SystemClock.now()));
    }
}
