//! Reads of the same thing at the same time share one query: a conversation that thousands open at once costs as much as one that two do.
//!
//! Nobody gets an answer to a query that began before they asked: it could lack what they just wrote. So whoever asks while a query is
//! under way waits for it to end, and shares the next one with all others who came meanwhile.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dunlin_ports::StoreError;

pub struct Flights<K, V> {
    by_question: Mutex<HashMap<K, Arc<Flight<V>>>>,
}

struct Flight<V> {
    /// One query at a time. Whoever waits gets it in the order of coming.
    turn: tokio::sync::Mutex<()>,
    known: Mutex<Known<V>>,
}

struct Known<V> {
    begun: u64,
    /// The newest answer, and which query it is of.
    answer: Option<(u64, Result<V, StoreError>)>,
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Flights<K, V> {
        Flights { by_question: Mutex::default() }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Flights<K, V> {
    pub async fn ask<F: Future<Output = Result<V, StoreError>>>(&self, question: K, query: impl FnOnce() -> F) -> Result<V, StoreError> {
        let flight = Arc::clone(lock(&self.by_question).entry(question.clone()).or_default());
        let seat = Seat { flights: self, question, flight };
        let before = lock(&seat.flight.known).begun;
        let _turn = seat.flight.turn.lock().await;
        let number = {
            let mut known = lock(&seat.flight.known);
            match &known.answer {
                Some((number, answer)) if *number > before => return answer.clone(),
                _ => known.begun += 1,
            }
            known.begun
        };
        let answer = query().await;
        lock(&seat.flight.known).answer = Some((number, answer.clone()));
        answer
    }
}

/// The last to leave clears up, also one who no longer waits.
struct Seat<'a, K: Hash + Eq, V> {
    flights: &'a Flights<K, V>,
    question: K,
    flight: Arc<Flight<V>>,
}

impl<K: Hash + Eq, V> Drop for Seat<'_, K, V> {
    fn drop(&mut self) {
        let mut by_question = lock(&self.flights.by_question);
        // This one's and the map's: and only who has the map's lock makes more.
        if Arc::strong_count(&self.flight) == 2 {
            by_question.remove(&self.question);
        }
    }
}

impl<V> Default for Flight<V> {
    fn default() -> Flight<V> {
        Flight { turn: tokio::sync::Mutex::default(), known: Mutex::new(Known { begun: 0, answer: None }) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };

    use futures::future::join_all;

    use super::*;

    /// Answers what was written when it began.
    async fn query(value: &AtomicU64, queries: &AtomicU64) -> Result<u64, StoreError> {
        queries.fetch_add(1, Ordering::Relaxed);
        let read = value.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(read)
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_at_once_shares_and_nobody_reads_what_was_before_they_asked() {
        let (flights, value, queries) = (Flights::<u8, u64>::default(), AtomicU64::new(0), AtomicU64::new(0));
        let asks = (0..100_u64).map(|number| {
            let (flights, value, queries) = (&flights, &value, &queries);
            async move {
                tokio::time::sleep(Duration::from_millis(number)).await;
                value.store(number, Ordering::Relaxed);
                let read = flights.ask(1, || query(value, queries)).await.unwrap();
                assert!(read >= number, "{read} is older than the write {number} of who asks");
            }
        });
        join_all(asks).await;
        let queries = queries.load(Ordering::Relaxed);
        assert!(queries <= 8, "{queries} queries in six times that one takes");
        assert!(lock(&flights.by_question).is_empty(), "nothing is left behind");
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_waiting_takes_nothing_from_the_others() {
        let (flights, value, queries) = (Flights::<u8, u64>::default(), AtomicU64::new(7), AtomicU64::new(0));
        let ask = || flights.ask(1, || query(&value, &queries));
        let first = tokio::time::timeout(Duration::from_millis(10), ask());
        let (first, second) = futures::join!(first, ask());
        assert!(first.is_err());
        assert_eq!(second.unwrap(), 7);
        assert!(lock(&flights.by_question).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn other_questions_go_by_themselves_and_an_error_is_shared_but_not_kept() {
        let flights = Flights::<u8, u64>::default();
        let away = || async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Err(StoreError::Unavailable("away".to_owned()))
        };
        let all = futures::join!(flights.ask(1, away), flights.ask(1, away), flights.ask(1, away), flights.ask(2, || async { Ok(2) }));
        assert!(all.0.is_err() && all.1.is_err() && all.2.is_err());
        assert_eq!(all.3.unwrap(), 2);
        assert_eq!(flights.ask(1, || async { Ok(1) }).await.unwrap(), 1);
    }
}
