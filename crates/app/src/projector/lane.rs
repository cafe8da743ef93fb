//! Projects a batch of events of one partition: finds out what they need to know in one question, judges them in order, and collects
//! what they write.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use dunlin_model::{
    BlockRow, Body, ConversationId, DedupKey, DedupRow, Event, Head, LogKey, MessageRow, Origin, Outcome, Pair, Position, RULES, Seq,
};
use dunlin_ports::{Batch, Checkpoint, Known, MessageStore, Record, StoreError, Wanted, Write};
use foldhash::fast::RandomState;
use tracing::error;

use super::{Inputs, Rules, project};
use crate::recent::Recent;

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
    behind: Behind,
}

/// What the batch before wrote and a batch may ask for, besides heads, which are remembered. The store may not have it yet.
#[derive(Default)]
struct Behind {
    blocks: Vec<BlockRow>,
    accepted: Accepted,
    /// In the order of seqs.
    said: Vec<(Seq, ConversationId, Arc<MessageRow>)>,
    targets: Targets,
}

/// The newest message under each client id.
type Accepted = HashMap<DedupKey, DedupRow, RandomState>;

/// Messages that events refer to; none where there is no such message.
type Targets = HashMap<(ConversationId, Seq), Option<MessageRow>, RandomState>;

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
        Ok(Lane { rules, heads: Recent::new(CACHE_ENTRIES_MAX), blocks: Recent::new(CACHE_ENTRIES_MAX), parked, behind: Behind::default() })
    }

    /// Log keys whose events are set aside.
    pub fn parked(&self) -> impl Iterator<Item = LogKey> {
        self.parked.keys().copied()
    }

    /// The outcome and the writes of the records, in order. Batches must be applied in the same order, and one may be judged while the one
    /// before is still being applied; not two.
    pub async fn project(&mut self, store: &dyn MessageStore, records: &[Record]) -> Result<Projected, StoreError> {
        let mut batch = Batch::default();
        let events = self.readable(records, &mut batch)?;
        let mut facts = self.ask(store, &events).await?;
        let mut outcomes = Vec::with_capacity(events.len());
        let mut changed: HashMap<ConversationId, Changed, RandomState> = HashMap::default();
        for (number, (at, event)) in events.iter().enumerate() {
            let inputs = self.inputs(&facts, number, event);
            let conversation = event.body.conversation();
            let projection = match conversation {
                None => project(&self.rules, &mut None, &inputs, *at, event),
                Some(conversation) => project(&self.rules, self.heads.get(&conversation).expect("asked for above"), &inputs, *at, event),
            };
            for write in &projection.writes {
                if let Write::Block(row) = write {
                    remember(&mut self.blocks, row);
                }
                facts.behind.absorb(write);
            }
            match conversation {
                None => batch.writes.extend(projection.writes),
                Some(conversation) => {
                    let changed = changed.entry(conversation).or_default();
                    changed.head |= projection.outcome.is_some();
                    changed.write(projection.writes, &mut batch.writes);
                }
            }
            if let Some(origin) = event.origin {
                outcomes.push(ProjectedOutcome { origin, conversation, seq: at.seq, outcome: projection.outcome });
            }
        }
        for (conversation, _) in changed.into_iter().filter(|(_, changed)| changed.head) {
            batch.heads.extend(self.heads.get(&conversation).and_then(|head| Some((conversation, head.clone()?))));
        }
        self.heads.age();
        self.blocks.age();
        self.behind = facts.behind;
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
            let checkpoint = Checkpoint { seq, log_time: time, event_id: id };
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
            let key = dedup_key(event);
            facts.keys.push(key.clone());
            wanted.dedup.extend(key.map(|key| (key, at.seq)));
            if asks_for_blocks(&event.body) && !self.blocks.contains(&event.key) {
                self.blocks.insert(event.key, Vec::new());
                wanted.blocks.push((event.key, at.seq));
            }
            if let Some(target) = event.body.target()
                && let Entry::Vacant(place) = facts.behind.targets.entry(target)
            {
                let recent = self.behind.message(target);
                if recent.is_none() {
                    wanted.messages.push(target);
                }
                place.insert(recent);
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
        for row in &self.behind.blocks {
            remember(&mut self.blocks, row);
        }
        let mut dedup = known.dedup.into_iter();
        facts.dedup.extend(facts.keys.iter().map(|key| key.as_ref().and_then(|_| dedup.next().flatten())));
        facts.behind.targets.extend(wanted.messages.into_iter().zip(known.messages));
    }

    fn inputs(&mut self, facts: &Facts, number: usize, event: &Event) -> Inputs {
        let body = &event.body;
        let newest = |key: &DedupKey| {
            let stored = facts.dedup[number];
            [stored, self.behind.accepted.get(key).copied(), facts.behind.accepted.get(key).copied()]
                .into_iter()
                .flatten()
                .max_by_key(|row| row.seq)
        };
        Inputs {
            dedup: facts.keys[number].as_ref().and_then(newest),
            blocks: if asks_for_blocks(body) { self.blocks.get(&event.key).cloned().unwrap_or_default() } else { Vec::new() },
            target: body.target().and_then(|target| facts.behind.targets.get(&target).cloned().flatten()),
        }
    }
}

/// Brings what is remembered of a pair up to date.
fn remember(blocks: &mut Recent<LogKey, Vec<BlockRow>>, row: &BlockRow) {
    let key = Pair::new(row.blocker.clone(), row.blocked.clone()).log_key();
    if let Some(rows) = blocks.get(&key) {
        rows.retain(|other| other.blocker != row.blocker);
        rows.push(row.clone());
    }
}

/// What a batch's events know besides heads and blocks.
#[derive(Default)]
struct Facts {
    /// The client id of each event that has one, and what the store knew under it, as of that event.
    keys: Vec<Option<DedupKey>>,
    dedup: Vec<Option<DedupRow>>,
    /// Kept up with what the events write; the next batch's events find it behind them.
    behind: Behind,
}

impl Behind {
    fn absorb(&mut self, write: &Write) {
        match write {
            Write::Block(row) => self.blocks.push(row.clone()),
            Write::Dedup { key, row } => drop(self.accepted.insert(key.clone(), *row)),
            Write::Message { conversation, row } => {
                self.said.push((row.seq, *conversation, Arc::clone(row)));
                if let Some(known) = self.targets.get_mut(&(*conversation, row.seq))
                    && known.is_none()
                {
                    *known = Some((**row).clone());
                }
            }
            Write::Revision { conversation, target, revision, .. } => {
                if let Some(Some(row)) = self.targets.get_mut(&(*conversation, *target)) {
                    row.revise(revision.clone());
                }
            }
            _ => {}
        }
    }

    /// A message that was sent or referred to, as that batch left it.
    fn message(&self, (conversation, seq): (ConversationId, Seq)) -> Option<MessageRow> {
        if let Some(Some(row)) = self.targets.get(&(conversation, seq)) {
            return Some(row.clone());
        }
        let place = self.said.binary_search_by_key(&seq, |(seq, ..)| *seq).ok()?;
        let (_, of, row) = &self.said[place];
        (*of == conversation).then(|| (**row).clone())
    }
}

/// What a batch changes in a conversation. Its events share one write of the head, of each inbox's tip, and of each mark.
#[derive(Default)]
struct Changed {
    head: bool,
    /// Where those stand that a later event replaces.
    shared: Vec<usize>,
}

impl Changed {
    fn write(&mut self, writes: Vec<Write>, into: &mut Vec<Write>) {
        for write in writes {
            if !matches!(write, Write::InboxTip { .. } | Write::Mark { .. }) {
                into.push(write);
                continue;
            }
            match self.shared.iter().find_map(|place| Some((*place, replaces(&write, &into[*place])?))) {
                Some((place, true)) => into[place] = write,
                Some((_, false)) => {}
                None => {
                    self.shared.push(into.len());
                    into.push(write);
                }
            }
        }
    }
}

/// Whether a write stands instead of an earlier one of the same conversation; none if they go to different cells.
fn replaces(write: &Write, earlier: &Write) -> Option<bool> {
    match (write, earlier) {
        (Write::InboxTip { user, .. }, Write::InboxTip { user: other, .. }) if user == other => Some(true),
        (Write::Mark { user, register, mark, .. }, Write::Mark { user: other, register: same, mark: there, .. })
            if user == other && register == same =>
        {
            Some(mark.seq >= there.seq)
        }
        _ => None,
    }
}

fn dedup_key(event: &Event) -> Option<DedupKey> {
    let Body::Message(message) = &event.body else { return None };
    Some(DedupKey { conversation: message.conversation, sender: event.actor.clone(), client_id: message.client_id.clone() })
}

/// Whether a block between the two stops it, or changes it.
fn asks_for_blocks(body: &Body) -> bool {
    matches!(body, Body::Open(_) | Body::Message(_) | Body::Edit(_) | Body::React(_) | Body::Block(_))
}
