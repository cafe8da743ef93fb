//! Keeps a connection on its thread. Reading a body wakes the very task that reads it; a runtime takes that for new work, puts the task at the end
//! of its queue, and wakes another thread to share it. It is cheaper to look once more.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures::task::AtomicWaker;

/// After so many looks others have their turn.
const LOOKS_MAX: usize = 4;

const POLLED: u8 = 1;
const WOKEN: u8 = 2;

/// A future that is polled again at once if it was woken while it was polled.
pub(crate) struct Steady<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
    waker: Waker,
}

#[derive(Default)]
struct Wakes {
    state: AtomicU8,
    task: AtomicWaker,
}

impl<F: Future> Steady<F> {
    pub(crate) fn new(future: F) -> Steady<F> {
        let wakes = Arc::new(Wakes::default());
        Steady { future: Box::pin(future), waker: Waker::from(Arc::clone(&wakes)), wakes }
    }
}

impl<F: Future> Future for Steady<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Steady { future, wakes, waker } = &mut *self;
        wakes.task.register(context.waker());
        for _ in 0..LOOKS_MAX {
            wakes.state.store(POLLED, Ordering::Release);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            if wakes.state.swap(0, Ordering::AcqRel) & WOKEN == 0 {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Wakes>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Wakes>) {
        // Whoever polls sees it afterwards.
        if self.state.fetch_or(WOKEN, Ordering::AcqRel) & POLLED == 0 {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Counted>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Wakes itself so many times, one after the other, and then ends.
    fn restless(mut times: usize) -> Steady<impl Future<Output = ()>> {
        Steady::new(poll_fn(move |context| {
            if times == 0 {
                return Poll::Ready(());
            }
            times -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }))
    }

    #[test]
    fn who_wakes_itself_is_polled_again_at_once_but_not_for_ever() {
        let count = Arc::new(Counted::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut restless(LOOKS_MAX - 1)).poll(&mut context).is_ready());
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        let mut long = restless(LOOKS_MAX);
        assert!(Pin::new(&mut long).poll(&mut context).is_pending());
        assert_eq!(count.0.load(Ordering::Relaxed), 1, "others have their turn");
        assert!(Pin::new(&mut long).poll(&mut context).is_ready());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_from_elsewhere_is_lost() {
        let (send, mut receive) = tokio::sync::mpsc::channel(1);
        let receiving = tokio::spawn(Steady::new(async move {
            let mut count = 0;
            while receive.recv().await.is_some() {
                count += 1;
            }
            count
        }));
        for number in 0..50_000 {
            send.send(number).await.unwrap();
        }
        drop(send);
        let received = tokio::time::timeout(Duration::from_secs(60), receiving).await.expect("it is woken");
        assert_eq!(received.unwrap(), 50_000);
    }
}
