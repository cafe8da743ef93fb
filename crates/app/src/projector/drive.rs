//! Moves a projection along on a thread of its own, or on that of a sender who is alone: to wake another thread and be woken by it takes longer
//! than to project one event.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use tokio::runtime::Handle;

/// How long a step may take, on average of the last few, for a sender to do it in its own thread.
const STEP_QUICK: Duration = Duration::from_micros(500);

/// How often the projection's own thread looks after senders on theirs, and for how many looks it stays after the last of them.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LOOKS_MAX: u32 = 100;

/// After so many batches a sender leaves the rest to the projection's own thread.
const BATCHES_OF_A_GUEST_MAX: u32 = 2;

type Projection = Pin<Box<dyn Future<Output = ()> + Send>>;

pub struct Drive {
    /// None once it has ended.
    projection: Mutex<Option<Projection>>,
    /// Whose timers and tasks it uses, whoever moves it.
    runtime: Handle,
    owner: Arc<Owner>,
    waker: Waker,
    step_nanos: AtomicU64,
}

impl Drive {
    pub fn new(projection: impl Future<Output = ()> + Send + 'static, runtime: Handle) -> Drive {
        let owner = Arc::new(Owner::default());
        let waker = Waker::from(Arc::clone(&owner));
        // Until a few steps have shown how long they take.
        let step_nanos = AtomicU64::new(2 * nanos(STEP_QUICK));
        Drive { projection: Mutex::new(Some(Box::pin(projection))), runtime, owner, waker, step_nanos }
    }

    /// Makes this thread the projection's own, until it has ended.
    pub fn run(&self) {
        self.owner.thread.set(thread::current()).expect("a projection has one thread");
        while !self.step(self.projection.lock().unwrap_or_else(PoisonError::into_inner)) {
            self.owner.wait();
        }
    }

    /// Appends, and if the sender is alone projects what was appended, if that is quick and nobody else is at it. The projection's own thread is
    /// woken only if there is something left for it.
    pub async fn append<T>(&self, appending: impl Future<Output = T>, is_alone: impl Fn() -> bool) -> T {
        let mut appending = pin!(appending);
        poll_fn(|context| {
            let _visit = self.owner.visit();
            let outer = HELD_BACK.replace(Some(HeldBack { of: Arc::as_ptr(&self.owner), is_woken: false }));
            let polled = catch_unwind(AssertUnwindSafe(|| appending.as_mut().poll(context)));
            let is_woken = HELD_BACK.replace(outer).is_some_and(|held_back| held_back.is_woken);
            let has_helped = is_woken && matches!(polled, Ok(Poll::Ready(_))) && is_alone() && self.help();
            self.owner.unpark_if(is_woken && !has_helped);
            polled.unwrap_or_else(|panic| resume_unwind(panic))
        })
        .await
    }

    /// Whether it could.
    fn help(&self) -> bool {
        if self.step_nanos.load(Ordering::Relaxed) > nanos(STEP_QUICK) {
            return false;
        }
        let Ok(projection) = self.projection.try_lock() else { return false };
        let outer = GUEST_BATCHES.replace(Some(0));
        let has_ended = self.step(projection);
        GUEST_BATCHES.set(outer);
        if has_ended {
            self.waker.wake_by_ref();
        }
        true
    }

    /// Whether it has ended.
    fn step(&self, mut projection: MutexGuard<'_, Option<Projection>>) -> bool {
        let Some(future) = projection.as_mut() else { return true };
        let _runtime = self.runtime.enter();
        let start = Instant::now();
        // A guest's task may be at the end of what it may do in a row, which says nothing about the projection.
        let mut future = tokio::task::unconstrained(future.as_mut());
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut future).poll(&mut Context::from_waker(&self.waker))));
        let average = (self.step_nanos.load(Ordering::Relaxed) * 7 + nanos(start.elapsed())) / 8;
        self.step_nanos.store(average, Ordering::Relaxed);
        let has_ended = !matches!(polled, Ok(Poll::Pending));
        if has_ended {
            // What panicked has been reported. Who watches its progress learns that it ended.
            *projection = None;
        }
        has_ended
    }
}

thread_local! {
    /// On the thread of a sender: how many batches it has projected.
    static GUEST_BATCHES: Cell<Option<u32>> = const { Cell::new(None) };

    /// On the thread of a sender, while it appends: who is not to be woken.
    static HELD_BACK: Cell<Option<HeldBack>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct HeldBack {
    of: *const Owner,
    is_woken: bool,
}

/// Called by the projection after each batch: here a sender who has done enough leaves.
pub(super) async fn batch_is_done() {
    let Some(batches) = GUEST_BATCHES.get() else { return };
    GUEST_BATCHES.set(Some(batches + 1));
    let mut leaves = batches + 1 >= BATCHES_OF_A_GUEST_MAX;
    poll_fn(|context| {
        if std::mem::take(&mut leaves) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

/// The projection's own thread, as what is woken. Otherwise idle, it looks after senders who sync and project on threads of their runtime: while
/// one of them does, nobody may be waiting for the network there. If the disk hangs just then, another of the runtime's threads is woken.
#[derive(Default)]
struct Owner {
    thread: OnceLock<Thread>,
    is_woken: AtomicBool,
    visits: Visits,
}

#[derive(Default)]
struct Visits {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Whether the owner looks after them.
    are_watched: AtomicBool,
    runtime: OnceLock<Handle>,
}

/// A sender is at work on its own thread for as long as this lives.
struct Visit<'a>(&'a Visits);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Release);
    }
}

impl Owner {
    fn visit(&self) -> Visit<'_> {
        // In this order, as the owner stops looking before it counts once more: one of the two sees the other.
        self.visits.begun.fetch_add(1, Ordering::SeqCst);
        if !self.visits.are_watched.swap(true, Ordering::SeqCst) {
            if let Ok(runtime) = Handle::try_current() {
                let _ = self.visits.runtime.set(runtime);
            }
            self.unpark_if(true);
        }
        Visit(&self.visits)
    }

    fn unpark_if(&self, is_woken: bool) {
        if let Some(thread) = self.thread.get().filter(|_| is_woken) {
            thread.unpark();
        }
    }

    fn wait(&self) {
        let (mut seen, mut looks) = (self.visits.counts(), 0);
        while !self.is_woken.swap(false, Ordering::Acquire) {
            if !self.visits.are_watched.load(Ordering::SeqCst) {
                thread::park();
                continue;
            }
            thread::park_timeout(LOOK_EVERY);
            let now = self.visits.counts();
            if now != seen {
                (seen, looks) = (now, 0);
                continue;
            }
            looks += 1;
            match now {
                (begun, ended) if begun != ended => self.visits.stir(),
                _ if looks == LOOKS_MAX => {
                    // Whoever comes next says so.
                    self.visits.are_watched.store(false, Ordering::SeqCst);
                    if self.visits.counts() != now {
                        self.visits.are_watched.store(true, Ordering::SeqCst);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Visits {
    fn counts(&self) -> (u64, u64) {
        (self.begun.load(Ordering::SeqCst), self.ended.load(Ordering::SeqCst))
    }

    /// Another thread of the senders' runtime wakes up, finds nothing else to do, and waits for the network.
    fn stir(&self) {
        if let Some(runtime) = self.runtime.get() {
            runtime.spawn(async {});
        }
    }
}

impl Wake for Owner {
    fn wake(self: Arc<Owner>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Owner>) {
        self.is_woken.store(true, Ordering::Release);
        match HELD_BACK.get() {
            Some(held_back) if held_back.of == Arc::as_ptr(self) => HELD_BACK.set(Some(HeldBack { is_woken: true, ..held_back })),
            _ => self.unpark_if(true),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    /// Takes numbers in batches, and tells each with the thread that took it.
    fn projection() -> (Arc<Drive>, mpsc::UnboundedSender<u32>, mpsc::UnboundedReceiver<(u32, thread::ThreadId)>) {
        let (numbers, mut taken) = mpsc::unbounded_channel();
        let (told, telling) = mpsc::unbounded_channel();
        let project = async move {
            while let Some(number) = taken.recv().await {
                assert_ne!(number, u32::MAX, "a number that nobody can project");
                told.send((number, thread::current().id())).expect("someone listens");
                batch_is_done().await;
            }
        };
        (Arc::new(Drive::new(project, Handle::current())), numbers, telling)
    }

    fn warm_up(drive: &Drive) {
        (0..64).for_each(|_| _ = drive.step(drive.projection.lock().unwrap()));
    }

    #[tokio::test]
    async fn who_is_alone_projects_on_its_own_thread_and_leaves_the_rest() {
        let (drive, numbers, mut told) = projection();
        warm_up(&drive);
        (0..4).for_each(|number| numbers.send(number).unwrap());
        drive.help();
        let here = thread::current().id();
        assert_eq!([told.try_recv(), told.try_recv()], [Ok((0, here)), Ok((1, here))]);
        assert!(told.try_recv().is_err(), "a guest stays for two batches");
        let own = thread::spawn({
            let drive = Arc::clone(&drive);
            move || drive.run()
        });
        assert_eq!([told.recv().await, told.recv().await], [2, 3].map(|number| Some((number, own.thread().id()))));
        drop(numbers);
        own.join().unwrap();
    }

    #[tokio::test]
    async fn whoever_projects_it_nothing_that_was_appended_is_left() {
        let (drive, numbers, mut told) = projection();
        warm_up(&drive);
        let own = thread::spawn({
            let drive = Arc::clone(&drive);
            move || drive.run()
        });
        let mut here = 0;
        for number in 0..10_000 {
            drive.append(async { numbers.send(number).unwrap() }, || true).await;
            let (projected, by) = told.recv().await.unwrap();
            assert_eq!(projected, number);
            here += u32::from(by == thread::current().id());
        }
        assert!(here > 0, "someone who is alone projects now and then");
        drop(numbers);
        own.join().unwrap();
    }

    /// One thread waits for the network and for time to pass. If that is the one which appends, the other must take its place.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_disk_that_hangs_stops_nobody_but_its_sender() {
        const HANGS: Duration = Duration::from_secs(3);
        let (drive, numbers, _told) = projection();
        let own = thread::spawn({
            let drive = Arc::clone(&drive);
            move || drive.run()
        });
        for _ in 0..3 {
            let appending = Arc::clone(&drive);
            let sender = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let begun = Instant::now();
                appending.append(async { thread::sleep(HANGS) }, || true).await;
                begun
            });
            let (other, begun) = (Instant::now(), tokio::spawn(tokio::time::sleep(Duration::from_millis(200))));
            begun.await.unwrap();
            assert!(other.elapsed() < HANGS, "{:?}", other.elapsed());
            assert!(sender.await.unwrap().elapsed() >= HANGS);
        }
        drop((numbers, drive));
        own.join().unwrap();
    }

    #[tokio::test]
    async fn nobody_helps_where_steps_take_long() {
        let (drive, numbers, mut told) = projection();
        numbers.send(1).unwrap();
        drive.help();
        assert!(told.try_recv().is_err(), "nothing is known of how long it takes");
    }

    #[tokio::test]
    async fn a_panic_on_the_thread_of_a_guest_ends_the_projection_and_not_the_guest() {
        let (drive, numbers, mut told) = projection();
        warm_up(&drive);
        let own = thread::spawn({
            let drive = Arc::clone(&drive);
            move || drive.run()
        });
        numbers.send(u32::MAX).unwrap();
        drive.help();
        own.join().unwrap();
        drive.help();
        assert_eq!(told.recv().await, None);
    }
}
