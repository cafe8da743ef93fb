//! Two ways to drive load: as fast as answers come, or at a fixed rate whatever happens.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::sync::mpsc;

use crate::{Latencies, Summary};

/// One sender or reader: does one thing after the other.
pub trait Lane: Send + 'static {
    /// Does the thing that was due at a time. False if there is nothing more to do.
    fn run(&mut self, due: Instant) -> impl Future<Output = bool> + Send;
}

pub struct Driven<L> {
    pub lanes: Vec<L>,
    pub elapsed: Duration,
}

/// Each lane goes on as soon as it has its answer, until the time is over or it has nothing more to do.
pub async fn closed<L: Lane>(lanes: Vec<L>, lasting: Option<Duration>) -> Result<Driven<L>> {
    let start = Instant::now();
    let until = lasting.map(|lasting| start + lasting);
    let tasks: Vec<_> = lanes
        .into_iter()
        .map(|mut lane| {
            tokio::spawn(async move {
                loop {
                    let now = Instant::now();
                    if until.is_some_and(|until| now >= until) || !lane.run(now).await {
                        return lane;
                    }
                }
            })
        })
        .collect();
    let mut lanes = Vec::with_capacity(tasks.len());
    for task in tasks {
        lanes.push(task.await?);
    }
    Ok(Driven { lanes, elapsed: start.elapsed() })
}

pub struct Paced<L> {
    pub lanes: Vec<L>,
    pub elapsed: Duration,
    /// How long after its time each thing was begun: the generator's own delay, and the wait for a lane that was still busy.
    pub late: Summary,
    /// Due, but not begun when the time for it was over.
    pub undone: u64,
}

/// Things come due at even distances, on one lane after the other. A lane that is held up does late what came due meanwhile, and its latency
/// counts from when it was due: a stall shows in everything that it held up.
pub async fn paced<L: Lane>(lanes: Vec<L>, per_s: u32, lasting: Duration) -> Result<Paced<L>> {
    /// How long after the end what came due is still done.
    const GRACE: Duration = Duration::from_secs(5);
    let start = Instant::now();
    let until = start + lasting + GRACE;
    let late = Arc::new(Latencies::default());
    let (mut due, mut tasks) = (Vec::new(), Vec::new());
    for (number, mut lane) in lanes.into_iter().enumerate() {
        // Unbounded by itself; the pacer puts in no more than the rate times the duration.
        let (sender, mut coming) = mpsc::unbounded_channel::<Instant>();
        due.push(sender);
        let late = Arc::clone(&late);
        tasks.push(tokio::spawn(async move {
            let mut undone = 0;
            while let Some(due) = coming.recv().await {
                if Instant::now() >= until {
                    undone += 1;
                    continue;
                }
                late.record(number as u32, due.elapsed());
                lane.run(due).await;
            }
            (lane, undone)
        }));
    }
    // A thread of its own: the runtime's timers are a millisecond coarse.
    let pacer = tokio::task::spawn_blocking(move || pace(&due, start, per_s, lasting));
    pacer.await?;
    let (mut lanes, mut undone) = (Vec::with_capacity(tasks.len()), 0);
    for task in tasks {
        let (lane, not_begun) = task.await?;
        lanes.push(lane);
        undone += not_begun;
    }
    Ok(Paced { lanes, elapsed: start.elapsed(), late: late.summary(), undone })
}

fn pace(lanes: &[mpsc::UnboundedSender<Instant>], start: Instant, per_s: u32, lasting: Duration) {
    let count = (f64::from(per_s) * lasting.as_secs_f64()) as u64;
    for number in 0..count {
        let due = start + Duration::from_secs_f64(number as f64 / f64::from(per_s));
        let early = due.saturating_duration_since(Instant::now());
        if !early.is_zero() {
            thread::sleep(early);
        }
        // A lane ends only when this does.
        let _ = lanes[number as usize % lanes.len()].send(due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting {
        done: u64,
        stall: Duration,
    }

    impl Lane for Counting {
        async fn run(&mut self, _: Instant) -> bool {
            self.done += 1;
            let stall = std::mem::take(&mut self.stall);
            if !stall.is_zero() {
                tokio::time::sleep(stall).await;
            }
            self.done < 40
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_stall_shows_in_everything_that_came_due_meanwhile() {
        let lanes = vec![Counting { done: 0, stall: Duration::from_millis(100) }];
        let paced = paced(lanes, 1_000, Duration::from_millis(200)).await.unwrap();
        assert_eq!((paced.lanes[0].done, paced.undone), (200, 0));
        assert!(paced.late.p50_us < 100_000.0 && paced.late.p99_us > 50_000.0, "{:?}", paced.late);
    }

    #[tokio::test]
    async fn a_closed_loop_ends_when_its_lanes_have_nothing_more_to_do() {
        let lanes = (0..3).map(|_| Counting { done: 0, stall: Duration::ZERO }).collect();
        let driven = closed(lanes, None).await.unwrap();
        assert!(driven.lanes.iter().all(|lane| lane.done == 40));
    }
}
