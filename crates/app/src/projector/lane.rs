//! Projects a batch of events of one partition: finds out what they need to know in one question, judges them in order, and collects
//! what they write.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use dunlin_model::{
    BlockRow, Body, ConversationId, DedupKey, DedupRow, Event, Head, LogKey, MessageRow, Origin, Outcome, Pair, Position, RULES, Seq,
    UserId,
};
use dunlin_ports::{Batch, Checkpoint, Known, MessageStore, Record, StoreError, Wanted, Write};
use tracing::error;

use super::{Inputs, Rules, project};

/// How many heads and how many pairs' blocks a lane remembers.
const CACHE_ENTRIES_MAX: usize = 50_000;

/// The events of one partition pass through one lane in order, so what it remembers of heads and blocks stays true for as long as nobody
/// else projects the partition. Make a new one whenever a partition is (re)assigned.
pub struct Lane {
    rules: Rules,
    heads: Recent<ConversationId, Option<Head>>,
    blocks: Recent<LogKey, Vec<BlockRow>>,
    /// Log keys whose events are set aside from a seq on.
    parked: HashMap<LogKey, Seq>,
}

pub struct Projected {
    pub batch: Batch,
    pub outcomes: Vec<ProjectedOutcome>,
}

/// What became of one event, for whoever waits for it.
pub struct ProjectedOutcome {
    pub origin: Origin,
    pub conversation: Option<ConversationId>,
    pub seq: Seq,
    /// None if the event was judged before: the store knows.
    pub outcome: Option<Outcome>,
}

impl Lane {
    pub async fn new(rules: Rules, store: &dyn MessageStore) -> Result<Lane, StoreError> {
        const PARKED_MAX: usize = 10_000;
        let parked = store.parked(PARKED_MAX).await?.into_iter().collect();
        Ok(Lane { rules, heads: Recent::new(), blocks: Recent::new(), parked })
    }

    /// Log keys whose events are set aside.
    pub fn parked(&self) -> impl Iterator<Item = LogKey> {
        self.parked.keys().copied()
    }

    /// The outcome and the writes of the records, in order. The batch must be applied before the lane's next one is.
    pub async fn project(&mut self, store: &dyn MessageStore, records: &[Record]) -> Result<Projected, StoreError> {
        let mut batch = Batch::default();
        let events = self.readable(records, &mut batch)?;
        let mut facts = self.ask(store, &events).await?;
        let mut outcomes = Vec::with_capacity(events.len());
        let mut collected = Collected::default();
        for (at, event) in &events {
            let inputs = facts.inputs(&self.blocks, *at, event);
            let projection = match event.body.conversation() {
                None => project(&self.rules, &mut None, &inputs, *at, event),
                Some(conversation) => {
                    let head = self.heads.get_mut(&conversation).expect("asked for above");
                    let projection = project(&self.rules, head, &inputs, *at, event);
                    if projection.outcome.is_some() && head.is_some() {
                        collected.changed.insert(conversation);
                    }
                    projection
                }
            };
            for write in projection.writes {
                facts.absorb(&write);
                self.absorb(&write);
                collected.push(write);
            }
            if let Some(origin) = event.origin {
                outcomes.push(ProjectedOutcome {
                    origin,
                    conversation: event.body.conversation(),
                    seq: at.seq,
                    outcome: projection.outcome,
                });
            }
        }
        batch.writes.append(&mut collected.writes);
        let head = |conversation| Some((conversation, self.heads.get(&conversation)?.clone()?));
        batch.heads = collected.changed.into_iter().filter_map(head).collect();
        self.heads.age();
        self.blocks.age();
        Ok(Projected { batch, outcomes })
    }

    /// The events that can be judged. One that can't be read is set aside, and so is whatever follows it under the same log key: order
    /// within a key is worth more than progress.
    fn readable(&mut self, records: &[Record], batch: &mut Batch) -> Result<Vec<(Position, Event)>, StoreError> {
        let mut events = Vec::with_capacity(records.len());
        for record in records {
            let (seq, time) = (record.position.seq, record.position.time);
            let id = match Event::decode(&record.bytes) {
                Ok(event) if event.rules <= RULES && self.parked.get(&event.key).is_none_or(|first| seq < *first) => {
                    let id = event.id;
                    events.push((record.position, event));
                    id
                }
                set_aside => {
                    let (key, id) =
                        Event::decode_key(&record.bytes).map_err(|error| StoreError::Corrupt(format!("event {seq}: {error}")))?;
                    let reason =
                        set_aside.map_or_else(|error| error.to_string(), |event| format!("rules {} are newer than {RULES}", event.rules));
                    if self.parked.get(&key).is_none_or(|first| seq < *first) {
                        self.parked.insert(key, seq);
                        error!(%seq, %reason, "event can't be judged by this version; its log key is parked");
                    }
                    batch.writes.push(Write::Parked { key, at: seq, time, bytes: record.bytes.clone() });
                    id
                }
            };
            let checkpoint = Checkpoint { offset: record.position.offset, log_time: time, event_id: id };
            batch.checkpoint = Some((record.position.partition, checkpoint));
        }
        Ok(events)
    }

    /// One question for everything that the events need and the lane does not remember.
    async fn ask(&mut self, store: &dyn MessageStore, events: &[(Position, Event)]) -> Result<Facts, StoreError> {
        let mut wanted = Wanted::default();
        let mut facts = Facts::default();
        for (at, event) in events {
            if let Some(conversation) = event.body.conversation()
                && !self.heads.contains(&conversation)
            {
                self.heads.insert(conversation, None);
                wanted.heads.push(conversation);
            }
            // As of each event, not of the batch's first under the key: what was judged before writes nothing here, so its row is in the
            // store only.
            wanted.dedup.extend(dedup_key(event).map(|key| (key, at.seq)));
            if reaches_others(&event.body) && !self.blocks.contains(&event.key) {
                self.blocks.insert(event.key, Vec::new());
                wanted.blocks.push((event.key, at.seq));
            }
            if let Some(target) = event.body.target()
                && let Entry::Vacant(entry) = facts.messages.entry(target)
            {
                wanted.messages.push(target);
                entry.insert(None);
            }
        }
        let known = match store.known(&wanted).await {
            Ok(known) => known,
            Err(error) => {
                // What was entered above as a place holder is not known after all.
                wanted.heads.iter().for_each(|conversation| self.heads.remove(conversation));
                wanted.blocks.iter().for_each(|(key, _)| self.blocks.remove(key));
                return Err(error);
            }
        };
        self.learn(wanted, known, &mut facts);
        Ok(facts)
    }

    fn learn(&mut self, wanted: Wanted, known: Known, facts: &mut Facts) {
        for (conversation, head) in wanted.heads.into_iter().zip(known.heads) {
            self.heads.insert(conversation, head);
        }
        for ((key, _), rows) in wanted.blocks.into_iter().zip(known.blocks) {
            self.blocks.insert(key, rows);
        }
        facts.dedup.extend(wanted.dedup.into_iter().zip(known.dedup));
        facts.messages.extend(wanted.messages.into_iter().zip(known.messages));
    }

    fn absorb(&mut self, write: &Write) {
        let Write::Block(row) = write else { return };
        let key = Pair::new(row.blocker.clone(), row.blocked.clone()).log_key();
        if self.blocks.contains(&key)
            && let Some(rows) = self.blocks.get_mut(&key)
        {
            rows.retain(|other| other.blocker != row.blocker);
            rows.push(row.clone());
        }
    }
}

/// What a batch's events know besides heads and blocks, kept up with what they write.
#[derive(Default)]
struct Facts {
    /// As of each event that asks.
    dedup: HashMap<(DedupKey, Seq), Option<DedupRow>>,
    /// The newest message of the batch itself under each client id.
    accepted: HashMap<DedupKey, DedupRow>,
    messages: HashMap<(ConversationId, Seq), Option<MessageRow>>,
}

impl Facts {
    fn inputs(&self, blocks: &Recent<LogKey, Vec<BlockRow>>, at: Position, event: &Event) -> Inputs {
        let body = &event.body;
        let newest = |key: DedupKey| {
            let accepted = self.accepted.get(&key).copied();
            self.dedup.get(&(key, at.seq)).copied().flatten().into_iter().chain(accepted).max_by_key(|row| row.seq)
        };
        Inputs {
            dedup: dedup_key(event).and_then(newest),
            blocks: if reaches_others(body) { blocks.get(&event.key).cloned().unwrap_or_default() } else { Vec::new() },
            target: body.target().and_then(|target| self.messages.get(&target).cloned().flatten()),
        }
    }

    fn absorb(&mut self, write: &Write) {
        match write {
            Write::Dedup { key, row } => drop(self.accepted.insert(key.clone(), *row)),
            Write::Message { conversation, row } => {
                // Only what a later event of the batch refers to was asked for.
                if let Some(known) = self.messages.get_mut(&(*conversation, row.seq))
                    && known.is_none()
                {
                    *known = Some((**row).clone());
                }
            }
            Write::Revision { conversation, target, revision, .. } => {
                if let Some(Some(row)) = self.messages.get_mut(&(*conversation, *target)) {
                    row.revise(revision.clone());
                }
            }
            _ => {}
        }
    }
}

/// The writes of a batch, with only the last of an inbox's tips: a conversation's events share one write of it, as they share its head.
#[derive(Default)]
struct Collected {
    writes: Vec<Write>,
    tips: HashMap<(UserId, ConversationId), usize>,
    changed: HashSet<ConversationId>,
}

impl Collected {
    fn push(&mut self, write: Write) {
        if let Write::InboxTip { user, conversation, .. } = &write {
            match self.tips.entry((user.clone(), *conversation)) {
                Entry::Occupied(place) => {
                    self.writes[*place.get()] = write;
                    return;
                }
                Entry::Vacant(place) => drop(place.insert(self.writes.len())),
            }
        }
        self.writes.push(write);
    }
}

fn dedup_key(event: &Event) -> Option<DedupKey> {
    let Body::Message(message) = &event.body else { return None };
    Some(DedupKey { conversation: message.conversation, sender: event.actor.clone(), client_id: message.client_id.clone() })
}

/// Whether a block between the two stops it.
fn reaches_others(body: &Body) -> bool {
    matches!(body, Body::Open(_) | Body::Message(_) | Body::Edit(_) | Body::React(_))
}

/// A map that forgets what was not used for a while: two generations, the older one dropped when the younger is full.
struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: std::hash::Hash + Eq + Copy, V> Recent<K, V> {
    fn new() -> Recent<K, V> {
        Recent { young: HashMap::new(), old: HashMap::new() }
    }

    /// Moves what is found to the young generation, so that it stays for the whole batch.
    fn contains(&mut self, key: &K) -> bool {
        if self.young.contains_key(key) {
            return true;
        }
        let Some(value) = self.old.remove(key) else { return false };
        self.young.insert(*key, value);
        true
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key)
    }

    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.young.get_mut(key)
    }

    fn insert(&mut self, key: K, value: V) {
        self.young.insert(key, value);
    }

    fn remove(&mut self, key: &K) {
        self.young.remove(key);
    }

    /// Called between batches only, so that nothing asked for is dropped within one.
    fn age(&mut self) {
        if self.young.len() > CACHE_ENTRIES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
    }
}
