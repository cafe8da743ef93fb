//! Reads everything back, as each member sees it, and holds it against what was acknowledged.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use dunlin_client::{
    Client, Error,
    protocol::{Message, Outcome},
};
use serde::Serialize;

use crate::{
    ledger::{Said, Told},
    load::{Load, Marked, client_id},
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
            verdict.sender(*sender, &load.senders[*sender].from.name, &load.ledger.record(*sender), &messages);
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

    fn sender(&mut self, sender: usize, name: &str, record: &[Said], messages: &[Message]) {
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
        let marked = load.marks.lock().unwrap().get(&person.name).copied().unwrap_or_default();
        let right = unread(messages, &person.name, marked);
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

/// From, to: the same number twice, unless a mark was never acknowledged.
fn unread(messages: &[Message], member: &str, marked: Marked) -> RangeInclusive<u64> {
    let own = messages.iter().rev().find(|message| message.sender.as_deref() == Some(member)).map_or(0, |message| message.n);
    let above = |n: u64| messages.iter().filter(|message| message.n > n.max(own)).count() as u64;
    above(marked.tried)..=above(marked.acknowledged)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sender: &str, client_id: &str, n: u64) -> Message {
        serde_json::from_value(serde_json::json!({
            "conversation": "d", "seq": n * 10, "n": n, "created_at": "2026-01-01T00:00:00.000Z", "sender": sender, "type": "text",
            "client_id": client_id, "text": client_id, "opaque": null, "reply_to": null, "metadata": {}, "edited_at": null,
            "deleted_at": null, "deleted_by": null, "reactions": [], "status": "sent",
        }))
        .unwrap()
    }

    fn said(outcome: Told) -> Said {
        let now = Instant::now();
        Said { outcome, begun: now, ended: now, visible: None }
    }

    fn sent(place: Option<(u64, u64)>) -> Said {
        said(Told::Sent { place, token: "d.1".to_owned() })
    }

    /// What is found of a sender who was told this, where these client ids are there in this order.
    fn found(record: &[Said], there: &[&str]) -> Verdict {
        let messages: Vec<_> = (1..).zip(there).map(|(n, id)| message("ann", id, n)).collect();
        let mut verdict = Verdict::default();
        verdict.neighbours(&messages);
        verdict.sender(0, "ann", record, &messages);
        verdict
    }

    #[test]
    fn everything_once_and_in_order_is_right() {
        let record = [sent(Some((10, 1))), sent(None), said(Told::Refused), said(Told::Nothing)];
        assert!(found(&record, &["0-0", "0-1"]).is_right());
        assert!(found(&record, &["0-0", "0-1", "0-3"]).is_right(), "what nobody was told of may be there");
    }

    #[test]
    fn each_wrong_is_counted_as_what_it_is() {
        let record = [sent(Some((10, 1))), sent(None), said(Told::Refused)];
        assert_eq!(found(&record, &["0-0"]).lost, 1);
        assert_eq!(found(&record, &["0-0", "0-1", "0-1"]).doubled, 1);
        assert_eq!(found(&[sent(None), sent(None)], &["0-1", "0-0"]).out_of_order, 1);
        assert_eq!(found(&record, &["0-0", "0-1", "0-2"]).not_expected, 1, "it was refused");
        assert_eq!(found(&record, &["0-0", "0-1", "7-0"]).not_expected, 1, "nobody sent it");
        assert_eq!(found(&[sent(Some((20, 2)))], &["0-0"]).altered, 1, "it is not where it was said to be");
    }

    #[test]
    fn a_gap_in_the_numbers_is_out_of_order() {
        let mut verdict = Verdict::default();
        verdict.neighbours(&[message("ann", "0-0", 1), message("ann", "0-1", 3)]);
        assert_eq!(verdict.out_of_order, 1);
    }

    #[test]
    fn unread_is_what_came_after_the_own_last_message_and_the_last_mark() {
        let messages = ["ann", "bea", "ann", "ann"].into_iter().zip(1..).map(|(sender, n)| message(sender, "x", n)).collect::<Vec<_>>();
        assert_eq!(unread(&messages, "bea", Marked::default()), 2..=2);
        assert_eq!(unread(&messages, "bea", Marked { acknowledged: 3, tried: 3 }), 1..=1);
        assert_eq!(unread(&messages, "bea", Marked { acknowledged: 3, tried: 4 }), 0..=1);
        assert_eq!(unread(&messages, "ann", Marked::default()), 0..=0);
    }
}
