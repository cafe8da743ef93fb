//! Senders, readers, marks and a back end, all at once, through all nodes. They do as clients do: whoever does not know what became of a
//! message sends it again, with the same client id, to the next node.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use dunlin_client::{Client, Error, protocol::Outcome};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    ledger::{Ledger, Told, is_refusal},
    site::{Person, Site},
};

/// Between two messages of a sender.
const PAUSE: Duration = Duration::from_millis(300);
/// Before a call is made again.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// Of so many senders one does not try again what was refused.
const IMPATIENT_ONE_IN: usize = 4;
const READERS: usize = 4;
/// How long callers go on trying once they are told to end.
const END_LIMIT: Duration = Duration::from_secs(90);

pub struct Load {
    pub ledger: Arc<Ledger>,
    pub senders: Vec<Sender>,
    /// Per reading member: how far it has marked, by number.
    pub marks: Arc<Mutex<HashMap<String, Marked>>>,
    /// What the back end was acknowledged, and how it fared.
    pub users: Arc<Mutex<Users>>,
    stop: Stop,
    tasks: JoinSet<()>,
}

/// Who writes to whom.
#[derive(Clone)]
pub struct Sender {
    pub from: Person,
    pub to: String,
}

#[derive(Clone, Copy, Default)]
pub struct Marked {
    pub acknowledged: u64,
    pub tried: u64,
}

#[derive(Default)]
pub struct Users {
    pub acknowledged: Vec<String>,
    pub refused: u64,
    pub longest_wait: Duration,
}

#[derive(Clone, Default)]
struct Stop(Arc<AtomicBool>, Arc<Mutex<Option<Instant>>>);

impl Stop {
    fn now(&self) {
        *self.1.lock().unwrap() = Some(Instant::now() + END_LIMIT);
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Who still tries is to give up.
    fn is_over(&self) -> bool {
        self.is_asked() && self.1.lock().unwrap().is_some_and(|until| Instant::now() > until)
    }
}

impl Load {
    pub fn start(site: &Site) -> Load {
        let (ledger, stop, mut tasks) = (Arc::new(Ledger::new()), Stop::default(), JoinSet::new());
        let (marks, users) = <(Arc<Mutex<HashMap<_, _>>>, Arc<Mutex<Users>>)>::default();
        let mut senders = Vec::new();
        for (number, [ann, bea]) in site.pairs.iter().enumerate() {
            senders.push(Sender { from: ann.clone(), to: bea.name.clone() });
            if number.is_multiple_of(2) {
                senders.push(Sender { from: bea.clone(), to: ann.name.clone() });
            } else {
                tasks.spawn(mark(bea.clone(), Arc::clone(&ledger), Arc::clone(&marks), stop.clone()));
            }
        }
        for (number, sender) in senders.iter().enumerate() {
            let (pending, watched) = watch::channel(None);
            tasks.spawn(send(number, sender.clone(), Arc::clone(&ledger), pending, stop.clone()));
            tasks.spawn(watch(number, sender.from.clone(), Arc::clone(&ledger), watched));
        }
        for reader in 0..READERS {
            let people: Vec<_> = site.pairs.iter().skip(reader).step_by(READERS).flatten().cloned().collect();
            tasks.spawn(read(people, Arc::clone(&ledger), stop.clone()));
        }
        tasks.spawn(add_users(site.hosts.clone(), Arc::clone(&users), stop.clone()));
        Load { ledger, senders, marks, users, stop, tasks }
    }

    /// Returns once everyone knows what became of what they did, or has given up.
    pub async fn end(&mut self) {
        self.stop.now();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

pub fn client_id(sender: usize, number: usize) -> String {
    format!("{sender}-{number}")
}

/// A send whose outcome was not known when it was acknowledged: its number and its token.
type Pending = Option<(usize, String)>;

async fn send(sender: usize, who: Sender, ledger: Arc<Ledger>, pending: watch::Sender<Pending>, stop: Stop) {
    let mut turn = sender;
    for number in 0.. {
        if stop.is_asked() {
            return;
        }
        let (begun, id) = (Instant::now(), client_id(sender, number));
        let mut is_refused = true;
        let outcome = loop {
            match client(&who.from, turn).send(&who.to, &id, &id).await {
                Ok(sent) => break Told::by(sent),
                Err(error) => {
                    ledger.failed(&error);
                    is_refused &= is_refusal(&error);
                    turn += 1;
                }
            }
            tokio::time::sleep(RETRY_AFTER).await;
            if is_refused && (sender.is_multiple_of(IMPATIENT_ONE_IN) || stop.is_over()) {
                break Told::Refused;
            }
            if stop.is_over() {
                break Told::Nothing;
            }
        };
        let token = match &outcome {
            Told::Sent { place: None, token } => Some(token.clone()),
            _ => None,
        };
        let number = ledger.said(sender, outcome, begun);
        if let Some(token) = token {
            pending.send_replace(Some((number, token)));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Asks what became of the newest of a sender's messages that was pending.
async fn watch(sender: usize, who: Person, ledger: Arc<Ledger>, mut pending: watch::Receiver<Pending>) {
    for turn in sender.. {
        let newest = pending.borrow().clone();
        let mut is_settled = true;
        if let Some((number, token)) = newest {
            match client(&who, turn).send_status(&token).await {
                Ok(status) if status.outcome != Outcome::Pending => ledger.is_visible(sender, number),
                _ => is_settled = false,
            }
        }
        tokio::time::sleep(RETRY_AFTER).await;
        // Gone with the sender.
        if pending.has_changed().is_err() || is_settled && pending.changed().await.is_err() {
            return;
        }
    }
}

/// Reads what came, and says so.
async fn mark(who: Person, ledger: Arc<Ledger>, marks: Arc<Mutex<HashMap<String, Marked>>>, stop: Stop) {
    let mut turn = 0;
    while !stop.is_asked() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let newest = newest(client(&who, turn)).await;
        let (conversation, seq, n) = match newest {
            Ok(Some(newest)) => newest,
            Ok(None) => continue,
            Err(error) => {
                ledger.read_failed(&error);
                turn += 1;
                continue;
            }
        };
        let note = |is_acknowledged: bool| {
            let mut marks = marks.lock().unwrap_or_else(PoisonError::into_inner);
            let marked = marks.entry(who.name.clone()).or_default();
            marked.tried = n;
            if is_acknowledged {
                marked.acknowledged = n;
            }
        };
        note(false);
        while !stop.is_over() {
            match client(&who, turn).mark_read(&conversation, seq).await {
                Ok(_) => {
                    note(true);
                    break;
                }
                Err(error) => {
                    ledger.failed(&error);
                    turn += 1;
                }
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }
}

async fn newest(client: &Client) -> Result<Option<(String, u64, u64)>, Error> {
    let Some(conversation) = client.inbox().limit(1).get().await?.data.into_iter().next() else { return Ok(None) };
    let page = client.history(&conversation.id).limit(1).get().await?.data;
    Ok(page.first().map(|message| (conversation.id, message.seq, message.n)))
}

/// Reads inboxes and pages. What was once there is never gone, and a page has no gaps.
async fn read(people: Vec<Person>, ledger: Arc<Ledger>, stop: Stop) {
    let mut seen: HashMap<String, u64> = HashMap::new();
    for turn in 0.. {
        if stop.is_asked() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
        let who = &people[turn % people.len()];
        match look(client(who, turn / people.len()), &mut seen).await {
            Ok(None) => ledger.read(),
            Ok(Some(wrong)) => ledger.wrong(format!("{}: {wrong}", who.name)),
            Err(error) => ledger.read_failed(&error),
        }
    }
}

/// Gives what is wrong, if something is.
async fn look(client: &Client, seen: &mut HashMap<String, u64>) -> Result<Option<String>, Error> {
    for conversation in client.inbox().get().await?.data {
        let page = client.history(&conversation.id).limit(50).get().await?.data;
        if page.windows(2).any(|two| two[0].n != two[1].n + 1 || two[0].seq <= two[1].seq) {
            let numbers: Vec<_> = page.iter().map(|message| (message.n, message.seq)).collect();
            return Ok(Some(format!("a page has gaps: {numbers:?}")));
        }
        let newest = page.first().map_or(0, |message| message.n);
        let before = seen.insert(conversation.id, newest).unwrap_or_default();
        if newest < before {
            return Ok(Some(format!("message {before} was there, and now {newest} is the newest")));
        }
    }
    Ok(None)
}

/// A back end that adds users.
async fn add_users(hosts: Vec<Client>, users: Arc<Mutex<Users>>, stop: Stop) {
    let users = || users.lock().unwrap_or_else(PoisonError::into_inner);
    let mut turn = 0;
    for number in 0.. {
        if stop.is_asked() {
            return;
        }
        let (begun, name) = (Instant::now(), format!("new-{number}"));
        while !stop.is_over() {
            let added = hosts[turn % hosts.len()].put_user(&name, &Default::default()).await;
            if added.is_ok() {
                users().added(name, begun.elapsed());
                break;
            }
            users().refused += 1;
            turn += 1;
            tokio::time::sleep(RETRY_AFTER).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

impl Users {
    fn added(&mut self, name: String, waited: Duration) {
        self.acknowledged.push(name);
        self.longest_wait = self.longest_wait.max(waited);
    }
}

fn client(who: &Person, turn: usize) -> &Client {
    &who.clients[turn % who.clients.len()]
}
