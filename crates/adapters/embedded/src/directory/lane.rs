//! Connections that blocking work takes turns on, away from the async threads.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use dunlin_ports::StoreError;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{self, Attempt};

/// How many calls wait for a connection, with those that have one. More are turned away, rather than kept for longer than anyone waits.
const CALLS_MAX: usize = 1024;

pub struct Lane {
    file: Arc<Path>,
    attempt: Attempt,
    /// As many as there are connections.
    turns: Arc<Semaphore>,
    places: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Lane {
    pub fn new(file: Arc<Path>, attempt: Attempt, connections: Vec<Connection>) -> Arc<Lane> {
        let turns = Arc::new(Semaphore::new(connections.len()));
        Arc::new(Lane { file, attempt, turns, places: Semaphore::new(CALLS_MAX), idle: Mutex::new(connections) })
    }

    /// Runs to its end once begun, also if the caller stops waiting.
    pub async fn run<T, F>(self: &Arc<Lane>, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let Ok(_place) = self.places.try_acquire() else {
            return Err(StoreError::Unavailable(format!("{CALLS_MAX} calls wait for {} already", self.file.display())));
        };
        let turn = Arc::clone(&self.turns).acquire_owned().await.expect("the semaphore is never closed");
        let mut loan = Loan::take(Arc::clone(self), turn);
        let done = tokio::task::spawn_blocking(move || job(loan.connection())).await;
        done.map_err(|error| error::task(self.attempt, &error))?.map_err(|error| error::sqlite(&self.file, self.attempt, &error))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that goes back to its lane whatever happens, also when the job panics.
struct Loan {
    lane: Arc<Lane>,
    connection: Option<Connection>,
    /// Dropped after the connection went back, so whoever has a turn finds one.
    _turn: OwnedSemaphorePermit,
}

impl Loan {
    fn take(lane: Arc<Lane>, turn: OwnedSemaphorePermit) -> Loan {
        let connection = lane.idle().pop();
        Loan { lane, connection, _turn: turn }
    }

    fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("there are as many turns as connections")
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let connection = self.connection.take();
        self.lane.idle().extend(connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> Arc<Lane> {
        Lane::new(Path::new("test").into(), Attempt::Doubtful, vec![Connection::open_in_memory().unwrap()])
    }

    #[tokio::test]
    async fn a_job_that_panics_gives_its_connection_back_and_its_transaction_up() {
        let lane = lane();
        lane.run(|connection| connection.execute_batch("CREATE TABLE t (x)")).await.unwrap();
        let failed = lane
            .run::<(), _>(|connection| {
                let transaction = connection.transaction()?;
                transaction.execute("INSERT INTO t VALUES (1)", [])?;
                panic!("a bug")
            })
            .await;
        assert!(matches!(failed, Err(StoreError::Unknown(_))), "{failed:?}");
        let rows: u32 = lane.run(|connection| connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0))).await.unwrap();
        assert_eq!(rows, 0);
    }

    #[tokio::test]
    async fn more_calls_than_there_are_places_are_turned_away() {
        let lane = lane();
        let all = lane.places.acquire_many(CALLS_MAX as u32).await.unwrap();
        let refused = lane.run(|_| Ok(())).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
        drop(all);
        lane.run(|_| Ok(())).await.unwrap();
    }
}
