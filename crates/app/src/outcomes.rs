//! Requests of this node that wait for what becomes of their events, and the bound on how many there are.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use dunlin_model::{ConversationId, LogKey, NodeId, Origin, Outcome, RequestId, Seq};
use dunlin_ports::{Frame, MessageStore, Notice, Parked, SessionBus, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{AppError, send_status::outcome_of};

/// How many events of this node may be in the log without being projected. The log is faster than the projector: without a bound, what is
/// acknowledged would become visible ever later.
pub const UNPROJECTED_MAX: usize = 10_000;

/// How long a request waits for a place before it is told to come back.
const PLACE_WAIT: Duration = Duration::from_secs(2);

/// How often requests that nobody told are looked up in the store.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// After so many sweeps a request is given up.
const SWEEPS_MAX: u32 = 600;

pub struct Outcomes {
    node: NodeId,
    next: AtomicU64,
    places: Arc<Semaphore>,
    waiting: Mutex<HashMap<RequestId, Waiting>>,
    /// Log keys whose events are set aside: nobody will be told what becomes of them for now.
    parked: RwLock<ParkedKeys>,
    /// Whether what waits is so old that nothing more may be taken.
    overdue: AtomicBool,
}

#[derive(Default)]
struct ParkedKeys {
    keys: HashSet<LogKey>,
    /// How often keys were unparked: what was read before is old.
    unparked: u64,
}

struct Waiting {
    told: oneshot::Sender<Outcome>,
    /// Where the event stands, once it is appended.
    at: Option<(ConversationId, Seq)>,
    sweeps: u32,
    _place: OwnedSemaphorePermit,
}

/// A place among the waiting. Dropping it gives it up unless the event was appended.
pub struct Place<'a> {
    outcomes: &'a Outcomes,
    pub origin: Origin,
    told: Option<oneshot::Receiver<Outcome>>,
}

impl Outcomes {
    pub fn new(node: NodeId, unprojected_max: usize) -> Outcomes {
        let places = Arc::new(Semaphore::new(unprojected_max));
        Outcomes {
            node,
            next: AtomicU64::new(1),
            places,
            waiting: Mutex::default(),
            parked: RwLock::default(),
            overdue: AtomicBool::new(false),
        }
    }

    /// Waits for a place; `Busy` if the projector is too far behind.
    pub async fn place(&self) -> Result<Place<'_>, AppError> {
        let place = match self.places.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                let place = tokio::time::timeout(PLACE_WAIT, self.places.clone().acquire_owned()).await;
                place.map_err(|_| AppError::Busy)?.map_err(|_| AppError::Busy)?
            }
        };
        let request = RequestId(self.next.fetch_add(1, Ordering::Relaxed));
        let (told, receiver) = oneshot::channel();
        self.waiting().insert(request, Waiting { told, at: None, sweeps: 0, _place: place });
        Ok(Place { outcomes: self, origin: Origin { node: self.node, request }, told: Some(receiver) })
    }

    /// Tells those who wait here.
    pub fn settle(&self, outcomes: impl IntoIterator<Item = (RequestId, Outcome)>) {
        let found: Vec<(Waiting, Outcome)> = {
            let mut waiting = self.waiting();
            outcomes.into_iter().filter_map(|(request, outcome)| Some((waiting.remove(&request)?, outcome))).collect()
        };
        // Outside of the lock: waking takes longer than finding, and new requests want in.
        for (waiting, outcome) in found {
            // Whoever asked may have left; the outcome is in the store.
            let _ = waiting.told.send(outcome);
        }
    }

    /// Takes in what other nodes tell, for as long as the bus lasts.
    pub async fn listen(&self, bus: &dyn SessionBus) -> Result<(), StoreError> {
        let mut inbound = bus.listen(self.node).await?;
        while let Some(frame) = inbound.next().await {
            self.take_in(frame);
        }
        Ok(())
    }

    pub fn take_in(&self, frame: Frame) {
        self.settle(frame.notices.into_iter().map(|Notice::Outcome { request, outcome }| (request, outcome)));
    }

    /// Finds in the store what nobody told: the bus may lose frames, and a place must not be held for ever.
    pub async fn sweep(&self, store: &dyn MessageStore) {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            let mut found = Vec::new();
            for (request, conversation, seq) in self.overdue() {
                if let Ok(Some(outcome)) = outcome_of(store, conversation, seq).await {
                    found.push((request, outcome));
                }
            }
            self.settle(found);
        }
    }

    /// What a projector has set aside; several may tell.
    pub fn park(&self, keys: impl Iterator<Item = LogKey>) {
        self.parked_mut().keys.extend(keys);
    }

    /// What is no longer set aside.
    pub fn unpark(&self, keys: &[LogKey]) {
        let mut parked = self.parked_mut();
        parked.unparked += 1;
        keys.iter().for_each(|key| _ = parked.keys.remove(key));
    }

    /// Takes in what the store says of parked keys: a projector elsewhere may have set them aside, or brought them back.
    pub async fn look_for_parked(&self, store: &dyn MessageStore) -> Result<(), StoreError> {
        const PARKED_MAX: usize = 10_000;
        let unparked = self.parked_keys().unparked;
        let found = store.parked(PARKED_MAX).await?;
        self.found_parked(found, unparked);
        Ok(())
    }

    /// `unparked` is as of before it was looked for.
    fn found_parked(&self, found: Vec<Parked>, unparked: u64) {
        let (waiting, replayed): (Vec<_>, Vec<_>) = found.into_iter().partition(|parked| parked.first.is_some());
        let mut parked = self.parked_mut();
        replayed.iter().for_each(|replayed| _ = parked.keys.remove(&replayed.key));
        // What this node's own projectors have brought back meanwhile may have been found as it was before.
        if parked.unparked == unparked {
            parked.keys.extend(waiting.into_iter().map(|parked| parked.key));
        }
    }

    pub fn parked(&self) -> Vec<LogKey> {
        self.parked_keys().keys.iter().copied().collect()
    }

    pub fn is_parked(&self, key: &LogKey) -> bool {
        self.parked_keys().keys.contains(key)
    }

    pub fn parked_len(&self) -> usize {
        self.parked_keys().keys.len()
    }

    /// Told by whoever knows how old the oldest event is that waits, and for how long the log keeps it.
    pub fn set_overdue(&self, overdue: bool) {
        self.overdue.store(overdue, Ordering::Relaxed);
    }

    pub fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Relaxed)
    }

    pub fn waiting_len(&self) -> usize {
        self.waiting().len()
    }

    /// Those that were waiting at the last sweep already. Whoever can't be found for long is given up, and finds out by itself.
    fn overdue(&self) -> Vec<(RequestId, ConversationId, Seq)> {
        let mut overdue = Vec::new();
        self.waiting().retain(|request, waiting| {
            if let (true, Some((conversation, seq))) = (waiting.sweeps > 0, waiting.at) {
                overdue.push((*request, conversation, seq));
            }
            waiting.sweeps += 1;
            waiting.sweeps <= SWEEPS_MAX
        });
        overdue
    }

    fn parked_keys(&self) -> RwLockReadGuard<'_, ParkedKeys> {
        self.parked.read().expect("nothing panics while it holds this lock")
    }

    fn parked_mut(&self) -> RwLockWriteGuard<'_, ParkedKeys> {
        self.parked.write().expect("nothing panics while it holds this lock")
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, Waiting>> {
        self.waiting.lock().expect("nothing panics while it holds this lock")
    }
}

impl Place<'_> {
    /// The event is in the log at this place: what becomes of it will be told.
    pub fn appended(mut self, conversation: ConversationId, seq: Seq) -> oneshot::Receiver<Outcome> {
        if let Some(waiting) = self.outcomes.waiting().get_mut(&self.origin.request) {
            waiting.at = Some((conversation, seq));
        }
        self.told.take().expect("taken only here, and this consumes the place")
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.told.is_some() {
            self.outcomes.waiting().remove(&self.origin.request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_looked_up_before_an_unpark_does_not_park_again() {
        let outcomes = Outcomes::new(NodeId(1), 1);
        let key = LogKey::of_strangers(dunlin_model::Partition(3));
        let found = || vec![Parked { key, first: Some(Seq::MAX), replays: Vec::new() }];
        let before = outcomes.parked_keys().unparked;
        outcomes.found_parked(found(), before);
        assert!(outcomes.is_parked(&key));
        outcomes.unpark(&[key]);
        outcomes.found_parked(found(), before);
        assert!(!outcomes.is_parked(&key), "the store was asked before");
        outcomes.found_parked(found(), before + 1);
        assert!(outcomes.is_parked(&key), "it was parked again since");
    }
}
