//! The thread that has the next segment ready before the writer needs it. A failure here comes before any record is written, so it is
//! retried for as long as the log is open.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracing::{error, info};

use super::error::AppendError;
use super::segment::{self, Disk, Pace, SegmentFile};

/// The writer's handle of the thread; dropping it ends the thread and removes a segment that was not used.
pub(super) struct Preparer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    dir: PathBuf,
    segment_bytes: u32,
    disk: Arc<dyn Disk>,
    retry: Duration,
    pace: Pace,
    state: Mutex<State>,
    changed: Condvar,
}

enum State {
    Idle,
    /// Asked for, being made.
    Wanted,
    Ready(SegmentFile),
    /// Could not be made; tried again every `retry`. Stays so until it succeeds, so that the writer has an answer meanwhile.
    Failed(AppendError),
}

impl Preparer {
    pub(super) fn start(dir: PathBuf, segment_bytes: u32, disk: Arc<dyn Disk>, retry: Duration) -> std::io::Result<Self> {
        let (pace, state, changed) = (Pace::default(), Mutex::new(State::Idle), Condvar::new());
        let shared = Arc::new(Shared { dir, segment_bytes, disk, retry, pace, state, changed });
        let thread = thread::Builder::new().name("log-prepare".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run()
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Asks for a segment that will be taken later.
    pub(super) fn want(&self) {
        let mut state = self.shared.lock();
        if matches!(*state, State::Idle) {
            *state = State::Wanted;
            self.shared.changed.notify_all();
        }
    }

    /// Asks for it to be ready soon, at the cost of what is appended meanwhile.
    pub(super) fn hurry(&self) {
        self.want();
        self.shared.pace.hurry.store(true, Ordering::Relaxed);
    }

    /// The next segment; waits while it is being made. `Err`: it can't be made at present.
    pub(super) fn take(&self) -> Result<SegmentFile, AppendError> {
        self.hurry();
        let mut state = self.shared.lock();
        loop {
            match std::mem::replace(&mut *state, State::Idle) {
                State::Ready(segment) => {
                    self.shared.pace.hurry.store(false, Ordering::Relaxed);
                    return Ok(segment);
                }
                other => *state = other,
            }
            if let State::Failed(refusal) = *state {
                return Err(refusal);
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        self.shared.pace.stop.store(true, Ordering::Relaxed);
        // Taken and let go, so that the thread is either before its check of `stop` or already waiting.
        drop(self.shared.lock());
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported when it happened; nothing is left to do about it.
            let _ = thread.join();
        }
        // Only to give its room back: opening removes it, too.
        let _ = segment::remove_unfinished(&self.shared.dir);
    }
}

impl Shared {
    fn run(&self) {
        while self.wait_for_work() {
            let made = segment::prepare(&self.dir, self.segment_bytes, &*self.disk, &self.pace);
            let mut state = self.lock();
            let failed_before = matches!(*state, State::Failed(_));
            match made {
                Ok(segment) => {
                    if failed_before {
                        info!(dir = %self.dir.display(), "next log segment could be made after all; appends go on");
                    }
                    *state = State::Ready(segment);
                }
                Err(_) if self.pace.stop.load(Ordering::Relaxed) => return,
                Err(cause) => {
                    if !failed_before {
                        error!(dir = %self.dir.display(), %cause, "failed to make the next log segment; trying again");
                    }
                    *state = State::Failed(AppendError::before_writing(&cause));
                }
            }
            self.changed.notify_all();
        }
    }

    /// `false`: stop.
    fn wait_for_work(&self) -> bool {
        let mut state = self.lock();
        loop {
            if self.pace.stop.load(Ordering::Relaxed) {
                return false;
            }
            match *state {
                State::Wanted => return true,
                State::Failed(_) => {
                    let (again, waited) = self.changed.wait_timeout(state, self.retry).unwrap_or_else(PoisonError::into_inner);
                    if waited.timed_out() {
                        return !self.pace.stop.load(Ordering::Relaxed);
                    }
                    state = again;
                }
                State::Idle | State::Ready(_) => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
