//! Whether this node and an engine agree about the time. Where they don't, TTLs end early, tokens are good for too long, and times go
//! backwards for whoever reads from two nodes: better not to start.

use anyhow::{Result, ensure};
use dunlin_model::Millis;
use dunlin_ports::Clock;

/// How far two clocks may differ. Clocks that anyone looks after differ by much less.
const SKEW_MAX_MS: u64 = 5_000;

/// Of an engine that tells its time only with what it does.
pub fn trouble(engine: &str, skew_ms: u64) -> Option<String> {
    let seconds = skew_ms as f64 / 1_000.0;
    (skew_ms > SKEW_MAX_MS).then(|| format!("the clocks of {engine} and this node differ by {seconds:.1} s: set the one that is wrong"))
}

/// Asks an engine for its time, and refuses one that differs by more than the limit.
pub async fn agree<E>(engine: &str, clock: &dyn Clock, asking: impl Future<Output = Result<Millis, E>>) -> Result<()>
where
    anyhow::Error: From<E>,
{
    let asked = clock.now();
    let theirs = asking.await?;
    let skew_ms = skew_ms(asked, theirs, clock.now());
    let words = if theirs > asked { "ahead of" } else { "behind" };
    ensure!(
        skew_ms <= SKEW_MAX_MS,
        "the clock of {engine} is {:.1} s {words} this node's, and {} s are allowed: set the clock that is wrong",
        skew_ms as f64 / 1_000.0,
        SKEW_MAX_MS / 1_000
    );
    Ok(())
}

/// By how much their clock differs from ours at least. They looked at it at some moment between the two times of ours.
fn skew_ms(asked: Millis, theirs: Millis, answered: Millis) -> u64 {
    theirs.0.saturating_sub(answered.0).max(asked.0.saturating_sub(theirs.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differs from what is asked by so much.
    struct Shifted(u64);

    impl Clock for Shifted {
        fn now(&self) -> Millis {
            Millis(self.0)
        }
    }

    async fn agreed(ours: u64, theirs: u64) -> Result<(), String> {
        let answer = async { anyhow::Ok(Millis(theirs)) };
        agree("Cassandra", &Shifted(ours), answer).await.map_err(|error| error.to_string())
    }

    #[test]
    fn a_round_trip_is_no_skew() {
        assert_eq!(skew_ms(Millis(1_000), Millis(1_000), Millis(9_000)), 0);
        assert_eq!(skew_ms(Millis(1_000), Millis(9_000), Millis(9_000)), 0);
        assert_eq!(skew_ms(Millis(1_000), Millis(9_500), Millis(9_000)), 500);
        assert_eq!(skew_ms(Millis(1_000), Millis(300), Millis(9_000)), 700);
    }

    #[test]
    fn a_difference_that_matters_is_told() {
        assert_eq!(trouble("Kafka", SKEW_MAX_MS), None);
        assert!(trouble("Kafka", 7_250).is_some_and(|told| told.contains("Kafka") && told.contains("7.2 s")));
    }

    #[tokio::test]
    async fn clocks_that_differ_by_more_than_5_s_are_refused_and_the_sentence_says_which_way() {
        assert_eq!(agreed(100_000, 105_000).await, Ok(()));
        assert_eq!(agreed(100_000, 95_000).await, Ok(()));
        let why = agreed(100_000, 107_300).await.unwrap_err();
        assert_eq!(why, "the clock of Cassandra is 7.3 s ahead of this node's, and 5 s are allowed: set the clock that is wrong");
        assert!(agreed(100_000, 94_000).await.unwrap_err().contains("6.0 s behind this node's"));
    }
}
