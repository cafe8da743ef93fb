//! The bounded queue between those who append and the writer thread. Senders wait for room as futures, the writer waits as a thread
//! and takes everything at once. A channel would do the same with more work per record on both sides.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use super::error::AppendError;
use super::record::record_bytes;
use super::{Appended, QUEUE_BYTES_MAX};

pub(super) type Reply = oneshot::Sender<Result<Appended, AppendError>>;

/// One append on its way to the writer.
pub(super) struct Request {
    pub payload: Bytes,
    pub reply: Reply,
}

pub(super) struct Queue {
    /// One permit a byte; a permit is taken by `push` and given back by `release`, when the writer is done with the record.
    room: Semaphore,
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    closed: bool,
    /// The writer waits: only then is it worth a system call to wake it.
    writer_waits: bool,
    /// How many appends in a row found nobody else appending.
    alone: u32,
}

/// After so many appends in a row without another, their sender is taken to be alone. Senders who only seldom meet would hold up their
/// threads for as long as they all sync, and gain nothing.
const ALONE_APPENDS: u32 = 16;

impl Queue {
    pub(super) fn new() -> Self {
        Self { room: Semaphore::new(QUEUE_BYTES_MAX), state: Mutex::default(), filled: Condvar::new() }
    }

    /// Queues a payload once there is room. Dropping the future before it returns queues nothing.
    pub(super) async fn push(&self, payload: Bytes) -> Result<oneshot::Receiver<Result<Appended, AppendError>>, AppendError> {
        let bytes = u32::try_from(record_bytes(payload.len())).map_err(|_| AppendError::TooLarge)?;
        self.room.acquire_many(bytes).await.map_err(|_| AppendError::Closed)?.forget();
        let (reply, outcome) = oneshot::channel();
        let mut state = self.lock();
        if state.closed {
            return Err(AppendError::Closed);
        }
        state.requests.push(Request { payload, reply });
        if std::mem::take(&mut state.writer_waits) {
            drop(state);
            self.filled.notify_one();
        }
        Ok(outcome)
    }

    /// Whether the last few appends each came when there was no other, as this one does: then one sender appends, and may write by itself.
    pub(super) fn is_alone(&self) -> bool {
        let mut state = self.lock();
        let is_idle = state.writer_waits && !state.closed && state.requests.is_empty();
        state.alone = if is_idle { state.alone.saturating_add(1) } else { 0 };
        state.alone > ALONE_APPENDS
    }

    /// There is another after all.
    pub(super) fn is_not_alone(&self) {
        self.lock().alone = 0;
    }

    /// Takes room for a record that its sender writes by itself, to be released as for one that was queued.
    pub(super) fn take_room(&self, bytes: usize) -> bool {
        u32::try_from(bytes).is_ok_and(|bytes| self.room.try_acquire_many(bytes).map(SemaphorePermit::forget).is_ok())
    }

    /// Waits until something is queued. `false`: closed, and nothing is left.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.lock();
        while state.requests.is_empty() {
            if state.closed {
                return false;
            }
            state.writer_waits = true;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Swaps everything that is queued into `taken`, which is empty.
    pub(super) fn take(&self, taken: &mut Vec<Request>) {
        std::mem::swap(&mut self.lock().requests, taken);
    }

    /// Gives back the room of records that were answered.
    pub(super) fn release(&self, bytes: usize) {
        self.room.add_permits(bytes);
    }

    #[cfg(test)]
    pub(super) fn room_bytes(&self) -> usize {
        self.room.available_permits()
    }

    /// Refuses what comes from now on; what is queued can still be taken.
    pub(super) fn close(&self) {
        self.room.close();
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Closes, and drops what is queued: its senders see an unknown outcome rather than waiting for ever.
    pub(super) fn abandon(&self) {
        self.close();
        self.lock().requests.clear();
    }

    /// A panic elsewhere can't leave the state half changed, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn a_full_queue_makes_appends_wait_until_room_is_given_back_or_it_is_closed() {
        let queue = Queue::new();
        let payload = Bytes::from(vec![0; 8 * 1024 * 1024]);
        let bytes = record_bytes(payload.len());
        for _ in 0..QUEUE_BYTES_MAX / bytes {
            queue.push(payload.clone()).await.unwrap();
        }
        let mut context = Context::from_waker(Waker::noop());
        let mut waits = pin!(queue.push(payload.clone()));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        let mut taken = Vec::new();
        assert!(queue.wait());
        queue.take(&mut taken);
        assert!(waits.as_mut().poll(&mut context).is_pending(), "room is given back when the writer is done, not when it begins");
        queue.release(bytes);
        assert!(waits.as_mut().poll(&mut context).is_ready());

        let mut refused = pin!(queue.push(payload.clone()));
        assert!(refused.as_mut().poll(&mut context).is_pending());
        queue.close();
        assert!(matches!(refused.await, Err(AppendError::Closed)));
        taken.clear();
        assert!(queue.wait(), "what was queued can still be taken");
        queue.take(&mut taken);
        assert!(!queue.wait());
    }
}
