//! The embedded profile, put together: a data folder, its projector on a thread of its own, and the use cases over them.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use dunlin_app::{App, Drive, Order, Outcomes, Progress, Projector, Rules, UNPROJECTED_MAX};
use dunlin_embedded::{Ephemeral, Folder, OpenError, Options, RandomIds, SessionBus, SystemClock};
use dunlin_model::{Millis, NodeId, Offset, Partition, UserId};
use dunlin_ports::{Clock, IdGen};
use tokio::{runtime::Runtime, sync::watch};
use tracing::{error, info};

use crate::{config::Config, node};

/// How often the log is looked at for segments that may go.
const TRIM_EVERY: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub struct EngineOptions {
    pub folder: Options,
    pub rules: Rules,
    /// How many events may be in the log without being projected.
    pub unprojected_max: usize,
    /// Users who may post anywhere.
    pub robots: Vec<UserId>,
    /// How long the log keeps what the state has; none keeps everything.
    pub log_retention: Option<Duration>,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
        EngineOptions {
            folder: Options::default(),
            rules: Rules::default(),
            unprojected_max: UNPROJECTED_MAX,
            robots: Vec::new(),
            log_retention: Some(WEEK),
        }
    }
}

impl EngineOptions {
    pub fn configured(config: &Config) -> anyhow::Result<EngineOptions> {
        const HOUR_MS: u64 = 60 * 60 * 1000;
        const DAY_S: u64 = 24 * 60 * 60;
        let mut options =
            EngineOptions { robots: config.robots()?, unprojected_max: config.log.unprojected_max, ..EngineOptions::default() };
        options.log_retention = (config.log.retention_days > 0).then(|| Duration::from_secs(config.log.retention_days * DAY_S));
        options.rules.dedup_window_ms = config.messages.dedup_window_h * HOUR_MS;
        // A client id outlives its window by what the log may still hold.
        options.folder.dedup_keep_ms = options.rules.dedup_window_ms + 14 * DAY_S * 1000;
        options.folder.memtable_bytes = config.state.memtable_mib << 20;
        options.folder.cache_bytes = config.state.cache_mib << 20;
        Ok(options)
    }
}

pub struct Engine {
    pub app: App,
    pub folder: Arc<Folder>,
    progress: watch::Receiver<Progress>,
    stop: Arc<AtomicBool>,
    projector: Option<JoinHandle<()>>,
    trimmer: Option<JoinHandle<()>>,
    /// Why trimming stopped, if it did.
    alarm: Arc<Mutex<Option<String>>>,
}

impl Engine {
    /// Opens a data folder and starts projecting. What the state has not applied yet is replayed; `caught_up` waits for that.
    pub fn open(path: &Path, options: EngineOptions) -> Result<Engine, OpenError> {
        let folder = Arc::new(Folder::open(path, &options.folder)?);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ids: Arc<dyn IdGen> = Arc::new(RandomIds);
        let node = NodeId(u64::from_be_bytes(*ids.bits128().first_chunk().expect("16 bytes begin with 8")));
        let outcomes = Arc::new(Outcomes::new(node, options.unprojected_max));
        let dedup_window_ms = options.rules.dedup_window_ms;
        let projector = Projector {
            log: folder.log.clone(),
            store: folder.store.clone(),
            bus: Arc::new(SessionBus::new(node)),
            outcomes: Arc::clone(&outcomes),
            node,
            rules: options.rules,
            order: Order::OfTheLog,
            ticks: None,
        };
        let (sender, progress) = watch::channel(Progress::default());
        let stop = Arc::new(AtomicBool::new(false));
        let alarm = Arc::new(Mutex::new(None));
        let trim = |retention| trimmer(Arc::clone(&folder), retention, Arc::clone(&stop), Arc::clone(&alarm), Arc::clone(&clock));
        let trimmer = options.log_retention.map(trim);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("judge").enable_time().build();
        let runtime = runtime.expect("the system gives a process its first threads");
        // A failure is in the progress already, for whoever looks.
        let projection = async move { _ = projector.run(Partition(0), sender).await };
        let drive = Arc::new(Drive::new(projection, runtime.handle().clone()));
        let app = App {
            log: folder.log.clone(),
            store: folder.store.clone(),
            directory: folder.directory.clone(),
            ephemeral: Arc::new(Ephemeral::new(Arc::clone(&clock))),
            clock,
            ids,
            outcomes,
            drive: Some(Arc::clone(&drive)),
            known: Arc::default(),
            identities: Arc::default(),
            node,
            robots: options.robots.into(),
            dedup_window_ms,
        };
        let (outcomes, store) = (Arc::clone(&app.outcomes), Arc::clone(&app.store));
        runtime.spawn(async move { outcomes.sweep(&*store).await });
        let projector = Some(start(drive, runtime));
        Ok(Engine { app, folder, progress, stop, projector, trimmer, alarm })
    }

    /// Waits until everything that the log held when this was called is projected. Tells how far it has come, as (done, of).
    pub async fn caught_up(&self, mut told: impl FnMut(u64, u64)) -> Result<(), String> {
        let until = Offset(self.folder.durable());
        let mut progress = self.progress.clone();
        loop {
            let now = progress.borrow_and_update().clone();
            told(now.next.0.min(until.0), until.0);
            if now.next >= until {
                return Ok(());
            }
            let Ok(()) = progress.changed().await else {
                return Err(now.trouble.unwrap_or_else(|| "projection ended".into()));
            };
        }
    }

    pub fn progress(&self) -> Progress {
        let mut progress = self.progress.borrow().clone();
        // Its sender is gone: a panic has ended it.
        if progress.trouble.is_none() && self.progress.has_changed().is_err() {
            progress.trouble = Some("projection has ended: restart this server, and look into its log for the reason".into());
        }
        progress
    }

    /// What stands in the way of full service, in sentences for the operator.
    pub fn troubles(&self) -> Vec<String> {
        let alarm = self.alarm.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let parked = node::parked_trouble(&self.app.outcomes);
        [self.progress().trouble, self.folder.trouble(), self.folder.log.trouble(), alarm, parked].into_iter().flatten().collect()
    }

    /// Whether messages can be sent, and become visible.
    pub fn is_serving(&self) -> bool {
        self.progress().trouble.is_none() && self.folder.trouble().is_none() && self.folder.log.trouble().is_none()
    }

    /// Numbers for dashboards, each with what it says.
    pub fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let (sizes, stats, progress) = (self.folder.sizes(), self.folder.state_stats(), self.progress());
        let durable = self.folder.durable();
        vec![
            ("log_events", "Events in the log since its beginning", durable as f64),
            ("log_bytes", "Bytes of the log's segments", sizes.log_bytes as f64),
            ("unprojected_events", "Events that are durable but not visible yet", durable.saturating_sub(progress.next.0) as f64),
            ("state_bytes", "Bytes of the state's tables", sizes.state_bytes as f64),
            ("state_memtable_bytes", "Bytes of the state that only the log would bring back", sizes.memtable_bytes as f64),
            ("state_level0_runs", "Runs that wait for compaction", stats.l0_runs as f64),
            ("state_is_compacting", "Whether compaction has something to do", f64::from(u8::from(stats.is_compacting))),
            ("parked_log_keys", "Log keys that wait for the operator", self.app.outcomes.parked_len() as f64),
            ("troubles", "What stands in the way of full service", self.troubles().len() as f64),
        ]
    }

    /// Stops projecting, and puts the state into files so that the next start has nothing to replay. Blocks.
    pub fn close(mut self) -> Result<(), OpenError> {
        self.end();
        self.folder.flush()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The projector ends when nobody wants to know its progress.
        self.progress = watch::channel(Progress::default()).1;
        for thread in [self.projector.take(), self.trimmer.take()].into_iter().flatten() {
            thread.thread().unpark();
            if thread.join().is_err() {
                error!("a background thread panicked");
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}

/// One applier in log order, on a thread of its own, with a second one for batches that are judged while the one before is applied: they compute
/// more than they wait.
fn start(drive: Arc<Drive>, runtime: Runtime) -> JoinHandle<()> {
    let run = move || {
        drive.run();
        drop(runtime);
    };
    thread::Builder::new().name("projector".into()).spawn(run).expect("the system gives a process its first threads")
}

fn trimmer(
    folder: Arc<Folder>,
    retention: Duration,
    stop: Arc<AtomicBool>,
    alarm: Arc<Mutex<Option<String>>>,
    clock: Arc<dyn Clock>,
) -> JoinHandle<()> {
    let retention_ms = u64::try_from(retention.as_millis()).unwrap_or(u64::MAX);
    let run = move || {
        while !stop.load(Ordering::Relaxed) {
            let Millis(before) = clock.now().minus(retention_ms);
            let trouble = match folder.trim(before) {
                Ok(Ok(trimmed)) if trimmed.segments == 0 => None,
                Ok(Ok(trimmed)) => {
                    info!(segments = trimmed.segments, read_back = trimmed.read_back, "old log segments were read back and deleted");
                    None
                }
                Ok(Err(missing)) => Some(missing.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(trouble) = &trouble {
                error!(%trouble, "the log is not trimmed");
            }
            *alarm.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
            thread::park_timeout(TRIM_EVERY);
        }
    };
    thread::Builder::new().name("trimmer".into()).spawn(run).expect("the system gives a process its first threads")
}
