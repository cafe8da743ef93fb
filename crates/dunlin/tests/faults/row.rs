//! One failure from its beginning to its end: load, failure, healing, everything read back.

use std::{
    env,
    time::{Duration, Instant},
};

use crate::{
    load::Load,
    report::{Report, folder},
    site::Site,
    verify::{drain, verify},
};

/// How long it may take until everyone is served, before the failure and after it.
const SERVED_LIMIT: Duration = Duration::from_secs(180);
/// The load before the failure, and after everyone is served again.
const CALM: Duration = Duration::from_secs(3);

pub struct Row {
    pub name: &'static str,
    /// For a table.
    pub what: &'static str,
    pub lasting: Duration,
    pub meanwhile: Meanwhile,
}

/// What goes on while it lasts.
#[derive(Clone, Copy, PartialEq)]
pub enum Meanwhile {
    /// Everything, after a while: recovery is counted from the failure.
    Everything,
    /// Sends are acknowledged, and seen later: recovery is counted from the end of the failure.
    Sends,
    /// No send is acknowledged. Likewise.
    Nothing,
}

/// What the row learnt on the way.
#[derive(Default)]
pub struct Notes(pub Vec<String>);

impl Row {
    pub async fn run(self, fail: impl AsyncFnOnce(&mut Site, &mut Notes), heal: impl AsyncFnOnce(&mut Site, &mut Notes)) {
        let lasting = env::var("DUNLIN_FAULTS_SECONDS").ok().map_or(self.lasting, |s| Duration::from_secs(s.parse().unwrap()));
        let begun = Instant::now();
        let logs = folder().join(self.name);
        let mut site = Site::start(&logs).await;
        println!("    {}: three nodes are up after {:.0?}", self.name, begun.elapsed());
        let mut load = Load::start(&site);
        let ready = Instant::now();
        served(&load, ready).await.expect("everyone is served before the failure");
        tokio::time::sleep(CALM).await;

        let (mut notes, failed_at) = (Notes::default(), Instant::now());
        let tell = |load: &Load, what: &str| {
            println!("    {}: {what} after {:.0?}, {} acknowledged", self.name, begun.elapsed(), load.ledger.sums().acknowledged);
        };
        tell(&load, "fails");
        fail(&mut site, &mut notes).await;
        tokio::time::sleep(lasting.saturating_sub(failed_at.elapsed())).await;
        let healing_at = Instant::now();
        heal(&mut site, &mut notes).await;
        let healed_at = Instant::now();
        tell(&load, "is healed");
        let went_on = load.ledger.all_acknowledged(load.senders.len(), failed_at, healing_at);
        let since = if self.meanwhile == Meanwhile::Everything { failed_at } else { healed_at };
        let recovered = served(&load, since).await.and(served(&load, healed_at).await);
        let recovered = recovered.and_then(|_| load.ledger.all_served(load.senders.len(), since)).map(|at| at - since);
        tokio::time::sleep(CALM).await;
        tell(&load, "everyone is served again");
        load.end().await;
        tell(&load, "the load has ended");

        let drained = drain(&load).await;
        tell(&load, "everything is visible");
        let found = verify(&site, &load).await;
        tell(&load, "everything is read back");
        let checked = site.leave_and_check();
        if let Err(said) = &checked {
            notes.0.push(said.clone());
        }
        let sums = load.ledger.sums();
        notes.0.extend(sums.wrong.iter().take(5).cloned());
        if went_on == (self.meanwhile == Meanwhile::Nothing) {
            notes.0.push(format!("that every sender was acknowledged something meanwhile is {went_on}"));
        }
        let as_promised = went_on == (self.meanwhile != Meanwhile::Nothing) && sums.refused.keys().all(|answer| is_usual(answer));
        let users = load.users.lock().unwrap();
        let passed =
            as_promised && found.is_right() && checked.is_ok() && sums.wrong.is_empty() && recovered.is_some() && drained.is_some();
        let report = Report {
            row: self.name,
            what: self.what,
            lasting_s: (healed_at - failed_at).as_secs_f64(),
            went_on,
            acknowledged: sums.acknowledged,
            pending: sums.pending,
            unknown: sums.unknown,
            never_told: sums.never_told,
            given_up: sums.given_up,
            refused: sums.refused,
            reads: sums.reads,
            reads_refused: sums.reads_refused,
            reads_wrong: sums.wrong.len() as u64,
            longest_pause_s: sums.longest_pause.as_secs_f64(),
            longest_wait_s: sums.longest_wait.as_secs_f64(),
            recovered_s: recovered.map(|duration| duration.as_secs_f64()),
            drained_s: drained.map(|duration| duration.as_secs_f64()),
            users: users.acknowledged.len() as u64,
            users_refused: users.refused,
            users_longest_wait_s: users.longest_wait.as_secs_f64(),
            found,
            check_is_clean: checked.is_ok(),
            notes: notes.0,
            passed,
        };
        report.tell();
        assert!(report.passed, "{}: something is wrong, see above; the nodes' logs are in {}", self.name, logs.display());
    }
}

/// What a client must be ready for. Anything else that a send or a mark is answered with is wrong.
fn is_usual(answer: &str) -> bool {
    ["503 ", "429 ", "no "].iter().any(|usual| answer.starts_with(usual))
}

/// Waits until every sender is served a message that it began after `since`.
async fn served(load: &Load, since: Instant) -> Option<Instant> {
    let until = Instant::now() + SERVED_LIMIT;
    while Instant::now() < until {
        if let Some(at) = load.ledger.all_served(load.senders.len(), since) {
            return Some(at);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    None
}
