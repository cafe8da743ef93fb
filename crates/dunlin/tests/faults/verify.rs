//! Reads everything back, as each member sees it, and holds it against what was acknowledged.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use dunlin_client::{
    Client, Error,
    protocol::{Message, Outcome},
};
use serde::Serialize;

use crate::{
    ledger::Told,
    load::{Load, client_id},
    site::{Person, Site},
};

const PAGE: usize = 200;
/// How long it may take until everything that was acknowledged is visible.
const DRAIN_LIMIT: Duration = Duration::from_secs(300);
/// How many sends that were answered by 202 are asked for again.
const TOKENS_MAX: usize = 200;

/// All but the first should be 0.
#[derive(Default, Serialize)]
pub struct Verdict {
    pub messages: u64,
    pub lost: u64,
    pub doubled: u64,
    /// After a later one of the same sender, or with a number or a time that is not right beside its neighbours'.
    pub out_of_order: u64,
    pub unread_wrong: u64,
    /// Not as it was sent, or not where its sender was told.
    pub altered: u64,
    /// There, though it was refused, or though nobody sent it.
    pub not_expected: u64,
    /// Sends whose outcome, asked for by their token, is not what became of them.
    pub outcome_wrong: u64,
    pub users_lost: u64,
}

impl Verdict {
    pub fn is_right(&self) -> bool {
        let Verdict { messages: _, lost, doubled, out_of_order, unread_wrong, altered, not_expected, outcome_wrong, users_lost } = self;
        [lost, doubled, out_of_order, unread_wrong, altered, not_expected, outcome_wrong, users_lost].into_iter().all(|count| *count == 0)
    }
}

/// Waits until everything that was acknowledged can be seen; how long that took.
pub async fn drain(load: &Load) -> Option<Duration> {
    let begun = Instant::now();
    for (sender, who) in load.senders.iter().enumerate() {
        let record = load.ledger.record(sender);
        let last = record.iter().rev().find_map(|said| match &said.outcome {
            Told::Sent { token, .. } => Some(token.clone()),
            _ => None,
        });
        let Some(token) = last else { continue };
        let conversation = token.rsplit_once('.')?.0.to_owned();
        while who.from.clients[0].history(&conversation).limit(1).at_least(&token).get().await.is_err() {
            if begun.elapsed() > DRAIN_LIMIT {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    Some(begun.elapsed())
}

pub async fn verify(site: &Site, load: &Load) -> Verdict {
    let mut verdict = Verdict::default();
    let mut of_pair: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (sender, who) in load.senders.iter().enumerate() {
        let pair = site.pairs.iter().position(|pair| pair.iter().any(|person| person.name == who.from.name)).unwrap();
        of_pair.entry(pair).or_default().push(sender);
    }
    for (pair, senders) in of_pair {
        let people = &site.pairs[pair];
        let (conversation, messages) = history(&people[0]).await;
        verdict.messages += messages.len() as u64;
        verdict.neighbours(&messages);
        for sender in &senders {
            verdict.sender(load, *sender, &messages);
        }
        let ours: HashSet<&str> = senders.iter().map(|sender| load.senders[*sender].from.name.as_str()).collect();
        verdict.not_expected +=
            messages.iter().filter(|message| !ours.contains(message.sender.as_deref().unwrap_or_default())).count() as u64;
        for person in people {
            verdict.unread(load, person, &conversation, &messages).await;
        }
    }
    verdict.tokens(load).await;
    let users = std::mem::take(&mut load.users.lock().unwrap().acknowledged);
    for user in &users {
        verdict.users_lost += u64::from(patiently(|| site.hosts[0].user(user)).await.is_err());
    }
    load.users.lock().unwrap().acknowledged = users;
    verdict
}

impl Verdict {
    /// Numbers without gaps, seqs and times that rise.
    fn neighbours(&mut self, messages: &[Message]) {
        self.out_of_order += messages.iter().zip(1..).filter(|(message, n)| message.n != *n).count() as u64;
        let is_wrong = |two: &[Message]| two[0].seq >= two[1].seq || two[0].created_at > two[1].created_at;
        self.out_of_order += messages.windows(2).filter(|two| is_wrong(two)).count() as u64;
    }

    fn sender(&mut self, load: &Load, sender: usize, messages: &[Message]) {
        let name = load.senders[sender].from.name.as_str();
        let record = load.ledger.record(sender);
        let numbers: HashMap<String, usize> = (0..record.len()).map(|number| (client_id(sender, number), number)).collect();
        let (mut found, mut last) = (HashMap::new(), None);
        for message in messages.iter().filter(|message| message.sender.as_deref() == Some(name)) {
            let Some(&number) = numbers.get(&message.client_id) else {
                self.not_expected += 1;
                continue;
            };
            if found.insert(number, message).is_some() {
                self.doubled += 1;
                continue;
            }
            self.out_of_order += u64::from(last.is_some_and(|last| last > number));
            last = Some(number);
            self.altered += u64::from(message.text.as_deref() != Some(message.client_id.as_str()));
            match &record[number].outcome {
                Told::Sent { place: Some(place), .. } => self.altered += u64::from(*place != (message.seq, message.n)),
                Told::Refused => self.not_expected += 1,
                Told::Sent { place: None, .. } | Told::Nothing => {}
            }
        }
        self.lost += (0..record.len()).filter(|number| record[*number].outcome.is_sent() && !found.contains_key(number)).count() as u64;
    }

    /// In the inbox and in the total: what came after the last own message and the last mark.
    async fn unread(&mut self, load: &Load, person: &Person, conversation: &str, messages: &[Message]) {
        let own =
            messages.iter().rev().find(|message| message.sender.as_deref() == Some(person.name.as_str())).map_or(0, |message| message.n);
        let marked = load.marks.lock().unwrap().get(&person.name).copied().unwrap_or_default();
        let above = |n: u64| messages.iter().filter(|message| message.n > n.max(own)).count() as u64;
        // The same number twice, unless a mark was never acknowledged.
        let right = above(marked.tried)..=above(marked.acknowledged);
        let client = &person.clients[0];
        let inbox = patiently(|| client.conversation(conversation)).await.unwrap().unread;
        let total = patiently(|| client.unread()).await.unwrap().messages;
        self.unread_wrong += u64::from(!right.contains(&inbox) || inbox != total);
    }

    /// A send that was answered by 202 has an outcome by now, and it is not a refusal.
    async fn tokens(&mut self, load: &Load) {
        for (sender, who) in load.senders.iter().enumerate() {
            let record = load.ledger.record(sender);
            let pending = record.iter().filter_map(|said| match &said.outcome {
                Told::Sent { place: None, token } => Some(token),
                _ => None,
            });
            for token in pending.take(TOKENS_MAX / load.senders.len()) {
                let status = patiently(|| who.from.clients[0].send_status(token)).await;
                let is_right = status.is_ok_and(|status| matches!(status.outcome, Outcome::Accepted | Outcome::Duplicate));
                self.outcome_wrong += u64::from(!is_right);
            }
        }
    }
}

/// All of the one conversation, oldest first.
async fn history(member: &Person) -> (String, Vec<Message>) {
    let client: &Client = &member.clients[0];
    let inbox = patiently(|| client.inbox().get()).await.unwrap();
    let conversation = inbox.data.first().expect("they have talked").id.clone();
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = patiently(|| {
            let query = client.history(&conversation).limit(PAGE);
            match &cursor {
                Some(cursor) => query.cursor(cursor).get(),
                None => query.get(),
            }
        });
        let page = page.await.unwrap();
        all.extend(page.data);
        cursor = page.next;
        if cursor.is_none() {
            all.reverse();
            return (conversation, all);
        }
    }
}

/// The engines are busy with what they missed: a read that failed is made again.
async fn patiently<T, F: Future<Output = Result<T, Error>>>(call: impl Fn() -> F) -> Result<T, Error> {
    const TRIES: u32 = 30;
    for _ in 1..TRIES {
        match call().await {
            Err(error) if error.is_retryable() => tokio::time::sleep(Duration::from_millis(500)).await,
            answer => return answer,
        }
    }
    call().await
}
