//! Projects a batch of events of one partition: finds out what they need to know, judges them in order, and collects what they write.

use std::{
    collections::{BTreeMap, HashMap, HashSet, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dunlin_model::{
    BlockRow, Body, ConversationId, DedupKey, DedupRow, Event, Head, LogKey, MessageRow, Millis, Origin, Outcome, Pair, Partition,
    Position, Seq,
};
use dunlin_ports::{Batch, Checkpoint, Known, MessageStore, Parked, ParkedRow, Record, Replay, StoreError, Wanted, Write};
use foldhash::fast::RandomState;
use tracing::error;

use super::{Inputs, Rules, project};
use crate::recent::Recent;

/// How many heads and how many pairs' blocks a lane remembers.
const CACHE_ENTRIES_MAX: usize = 50_000;

/// How many events one unpark event has judged. What is left waits for the next.
const REPLAYED_MAX: usize = 10_000;

/// The events of one partition pass through one lane, those of one log key in order, so what it remembers of heads and blocks stays true for
/// as long as nobody else projects the partition. Make a new one whenever a partition is (re)assigned.
pub struct Lane {
    rules: Rules,
    memory: Mutex<Memory>,
}

struct Memory {
    heads: Recent<ConversationId, Option<Head>>,
    blocks: Recent<LogKey, Vec<BlockRow>>,
    /// Log keys of this partition of which events were set aside.
    parked: HashMap<LogKey, Aside>,
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
    aside: Vec<(LogKey, ParkedRow)>,
}

/// The newest message under each client id.
type Accepted = HashMap<DedupKey, DedupRow, RandomState>;

/// Messages that events refer to; none where there is no such message.
type Targets = HashMap<(ConversationId, Seq), Option<MessageRow>, RandomState>;

pub struct Projected {
    pub batch: Batch,
    pub outcomes: Vec<ProjectedOutcome>,
    /// Log keys that are parked from here on, and those that no longer are.
    pub parked: Vec<LogKey>,
    pub unparked: Vec<LogKey>,
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
    /// For one of so many partitions.
    pub async fn new(rules: Rules, store: &dyn MessageStore, partition: Partition, partitions: u32) -> Result<Lane, StoreError> {
        const PARKED_MAX: usize = 10_000;
        // What is parked elsewhere is unparked elsewhere: here it would be remembered for ever.
        let own = |parked: &Parked| parked.key.partition(partitions) == partition;
        let parked = store.parked(PARKED_MAX).await?.into_iter().filter(own).map(Aside::of).collect();
        let (heads, blocks) = (Recent::new(CACHE_ENTRIES_MAX), Recent::new(CACHE_ENTRIES_MAX));
        Ok(Lane { rules, memory: Mutex::new(Memory { heads, blocks, parked, behind: Behind::default() }) })
    }

    /// Log keys whose events are set aside.
    pub fn parked(&self) -> Vec<LogKey> {
        self.memory().parked.iter().filter(|(_, aside)| aside.first.is_some()).map(|(key, _)| *key).collect()
    }

    /// The outcome and the writes of the records, in order. A batch may be judged while others are still being applied: those that have no
    /// log key in common with it, or the one judged last.
    pub async fn project(&self, store: &dyn MessageStore, records: &[Record]) -> Result<Projected, StoreError> {
        let mut batch = Batch::default();
        let stored = self.stored_aside(store, records).await?;
        let Readable { events, shown_at, parked, unparked } = self.memory().readable(&self.rules, records, stored, &mut batch);
        loop {
            // Heads before all else: what a head stands for is there by the time the rest is read.
            let heads = self.memory().unknown_heads(&events);
            if !heads.is_empty() {
                let wanted = Wanted { heads, ..Wanted::default() };
                let known = store.known(&wanted).await?;
                self.memory().learn_heads(wanted.heads.into_iter().zip(known.heads));
            }
            let mut facts = Facts::default();
            let wanted = self.memory().wanted(&self.rules, &events, &mut facts);
            let known = if wanted.is_empty() { Known::default() } else { store.known(&wanted).await? };
            let mut memory = self.memory();
            memory.learn(wanted, known, &mut facts);
            // Other batches may have made it forget meanwhile.
            if memory.knows(&events) {
                let mut projected = memory.judge(&self.rules, &events, &shown_at, facts, batch);
                (projected.parked, projected.unparked) = (parked, unparked);
                return Ok(projected);
            }
        }
    }

    /// What the store holds of the events that unpark events among the records have judged.
    async fn stored_aside(&self, store: &dyn MessageStore, records: &[Record]) -> Result<Vec<(LogKey, ParkedRow)>, StoreError> {
        let mut stored = Vec::new();
        if self.memory().parked.is_empty() {
            return Ok(stored);
        }
        for record in records {
            let Ok(Event { body: Body::Unpark(key, _), .. }) = decode(record) else { continue };
            let from = self.memory().parked.get(&key).and_then(|aside| aside.due_at(record.position)).map(|due| due.from);
            if let Some(from) = from {
                let rows = store.parked_rows(&key, from, REPLAYED_MAX + 1).await?;
                stored.extend(rows.into_iter().map(|row| (key, row)));
            }
        }
        Ok(stored)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn judge(
        &mut self,
        rules: &Rules,
        events: &[(Position, Event)],
        shown_at: &HashMap<Seq, Millis, RandomState>,
        mut facts: Facts,
        mut batch: Batch,
    ) -> Projected {
        facts.behind.aside = aside_in(&batch).collect();
        let mut outcomes = Vec::with_capacity(events.len());
        let mut changed: HashMap<ConversationId, Changed, RandomState> = HashMap::default();
        for (number, (at, event)) in events.iter().enumerate() {
            let inputs = self.inputs(&facts, number, event);
            let conversation = event.body.conversation();
            let mut projection = match conversation {
                None => project(rules, &mut None, &inputs, *at, event),
                Some(conversation) => project(rules, self.heads.get(&conversation).expect("known by now"), &inputs, *at, event),
            };
            if let Some(time) = shown_at.get(&at.seq) {
                projection.writes.iter_mut().for_each(|write| show_at(write, *time));
            }
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
        Projected { batch, outcomes, parked: Vec::new(), unparked: Vec::new() }
    }

    /// The events that can be judged. One that can't be read is set aside, and so is whatever follows it under the same log key: order
    /// within a key is worth more than progress. An unpark event brings back what was set aside before it.
    fn readable(&mut self, rules: &Rules, records: &[Record], stored: Vec<(LogKey, ParkedRow)>, batch: &mut Batch) -> Readable {
        let mut readable = Readable::default();
        for record in records {
            let (seq, time, key) = (record.position.seq, record.position.time, record.key);
            match decode(record) {
                Ok(event @ Event { body: Body::Unpark(_, left_out), .. }) if event.rules <= rules.known => {
                    self.replay(rules, record.position, (key, left_out), &stored, batch, &mut readable);
                    readable.events.push((record.position, event));
                }
                Ok(event) if event.rules <= rules.known && !self.parked.get(&key).is_some_and(|aside| aside.holds(seq)) => {
                    readable.events.push((record.position, event));
                }
                set_aside => {
                    let aside = self.parked.entry(key).or_default();
                    if !aside.holds(seq) {
                        aside.first = Some(seq);
                        let reason =
                            set_aside.map_or_else(|why| why, |event| format!("rules {} are newer than {}", event.rules, rules.known));
                        error!(%seq, %key, %reason, "event can't be judged by this version; its log key is parked");
                    }
                    // Also when a batch is judged again, because the store was away the first time.
                    if aside.first.is_some() && !readable.parked.contains(&key) {
                        readable.parked.push(key);
                    }
                    batch.writes.push(Write::Parked { key, at: seq, time, bytes: record.bytes.clone() });
                }
            }
            batch.checkpoint = Some((record.position.partition, Checkpoint::at(record)));
        }
        readable
    }

    /// Adds what was set aside under a key, up to the first that can't be judged yet. Each is judged at its own place and time, as if it
    /// never had been; only feeds show it at the time of the unpark event, behind what their readers have seen.
    fn replay(
        &mut self,
        rules: &Rules,
        at: Position,
        (key, left_out): (LogKey, Option<Seq>),
        stored: &[(LogKey, ParkedRow)],
        batch: &mut Batch,
        readable: &mut Readable,
    ) {
        let Some(due) = self.parked.get(&key).and_then(|aside| aside.due_at(at)) else { return };
        // What the store may not have yet is remembered from the batch before, or stands in this one.
        let rows = stored.iter().cloned().chain(self.behind.aside.iter().cloned()).chain(aside_in(batch));
        let rows: BTreeMap<Seq, ParkedRow> =
            rows.filter(|(of, row)| *of == key && due.contains(row.at)).map(|(_, row)| (row.at, row)).collect();
        let mut replay = due;
        for (count, row) in rows.into_values().enumerate() {
            // Nobody knows what it belongs to, or what it says: the operator has seen it, and it is forgotten.
            if key.is_of_strangers() || left_out == Some(row.at) {
                continue;
            }
            let event = Event::decode(&row.bytes).ok().filter(|event| event.rules <= rules.known && count < REPLAYED_MAX);
            let Some(event) = event else {
                replay.to = row.at;
                error!(seq = %row.at, %key, "event can't be judged by this version, or too many wait; its log key stays parked from there on");
                break;
            };
            // An earlier one that this version could not read.
            if matches!(event.body, Body::Unpark(..)) {
                continue;
            }
            let position = Position { partition: at.partition, seq: row.at, offset: row.at.offset(), time: row.time };
            readable.shown_at.insert(row.at, at.time);
            readable.events.push((position, event));
        }
        batch.writes.push(Write::Unparked { key, replay });
        if self.parked.entry(key).or_default().replayed(replay) {
            readable.unparked.push(key);
        }
    }

    fn unknown_heads(&mut self, events: &[(Position, Event)]) -> Vec<ConversationId> {
        let mut unknown = HashSet::<_, RandomState>::default();
        let conversations = events.iter().filter_map(|(_, event)| event.body.conversation());
        conversations.filter(|conversation| !self.heads.contains(conversation) && unknown.insert(*conversation)).collect()
    }

    fn learn_heads(&mut self, heads: impl Iterator<Item = (ConversationId, Option<Head>)>) {
        heads.for_each(|(conversation, head)| self.heads.insert(conversation, head));
    }

    /// One question for everything else that the events need and the lane does not remember.
    fn wanted(&mut self, rules: &Rules, events: &[(Position, Event)], facts: &mut Facts) -> Wanted {
        let mut wanted = Wanted::default();
        let mut asked = HashSet::<LogKey, RandomState>::default();
        for (number, (at, event)) in events.iter().enumerate() {
            // As of each event, not of the batch's first under the key: what was judged before writes nothing here, so its row is in the
            // store only.
            let key = dedup_key(event);
            if let Some(key) = &key
                && !self.is_new(rules, key, *at)
            {
                wanted.dedup.push((key.clone(), at.seq));
                facts.asked.push(number);
            }
            facts.keys.push(key);
            if asks_for_blocks(&event.body) && !self.blocks.contains(&event.key) && asked.insert(event.key) {
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
        wanted
    }

    /// Whether it takes no look at the store to know that no row under the key could matter to the event: it was judged before, there is no
    /// conversation yet, or its head tells.
    fn is_new(&mut self, rules: &Rules, key: &DedupKey, at: Position) -> bool {
        let Some(Some(head)) = self.heads.get(&key.conversation) else { return true };
        let from = at.time.minus(rules.dedup_window_ms);
        at.seq <= head.applied || head.recent.as_ref().is_some_and(|recent| recent.rule_out(key.sender.as_ref(), &key.client_id, from))
    }

    fn learn(&mut self, wanted: Wanted, known: Known, facts: &mut Facts) {
        for ((key, _), rows) in wanted.blocks.into_iter().zip(known.blocks) {
            self.blocks.insert(key, rows);
        }
        for row in &self.behind.blocks {
            remember(&mut self.blocks, row);
        }
        facts.dedup.resize(facts.keys.len(), None);
        for (number, row) in std::mem::take(&mut facts.asked).into_iter().zip(known.dedup) {
            facts.dedup[number] = row;
        }
        facts.behind.targets.extend(wanted.messages.into_iter().zip(known.messages));
    }

    fn knows(&mut self, events: &[(Position, Event)]) -> bool {
        events.iter().all(|(_, event)| {
            let head = event.body.conversation().is_none_or(|conversation| self.heads.contains(&conversation));
            head && (!asks_for_blocks(&event.body) || self.blocks.contains(&event.key))
        })
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

/// What of a log key is, or was, set aside. What was replayed once is set aside and replayed again wherever a projector begins anew, so
/// that it always comes to the same.
#[derive(Default)]
struct Aside {
    /// The first event that waits.
    first: Option<Seq>,
    replays: Vec<Replay>,
}

impl Aside {
    fn of(parked: Parked) -> (LogKey, Aside) {
        (parked.key, Aside { first: parked.first, replays: parked.replays })
    }

    /// Whether an event is not judged when it comes by.
    fn holds(&self, seq: Seq) -> bool {
        self.first.is_some_and(|first| first <= seq) || self.replays.iter().any(|replay| replay.contains(seq))
    }

    /// What an unpark event has judged: the same as before, or what waits.
    fn due_at(&self, at: Position) -> Option<Replay> {
        let again = self.replays.iter().find(|replay| replay.at == at.seq).copied();
        let waiting = self.first.filter(|first| *first < at.seq).map(|from| Replay { at: at.seq, time: at.time, from, to: at.seq });
        again.or(waiting)
    }

    /// Whether nothing waits any more.
    fn replayed(&mut self, replay: Replay) -> bool {
        if self.replays.iter().all(|known| known.at != replay.at) {
            self.first = (replay.to < replay.at).then_some(replay.to);
            self.replays.push(replay);
        }
        self.first.is_none()
    }
}

/// The events of a batch's records that are to be judged.
#[derive(Default)]
struct Readable {
    events: Vec<(Position, Event)>,
    /// When feeds show those that were set aside before.
    shown_at: HashMap<Seq, Millis, RandomState>,
    parked: Vec<LogKey>,
    unparked: Vec<LogKey>,
}

fn decode(record: &Record) -> Result<Event, String> {
    let event = Event::decode(&record.bytes).map_err(|error| error.to_string())?;
    if record.key == event.key { Ok(event) } else { Err(format!("it belongs under {} in another partition", event.key)) }
}

fn aside_in(batch: &Batch) -> impl Iterator<Item = (LogKey, ParkedRow)> {
    batch.writes.iter().filter_map(|write| match write {
        Write::Parked { key, at, time, bytes } => Some((*key, ParkedRow { at: *at, time: *time, bytes: bytes.clone() })),
        _ => None,
    })
}

fn show_at(write: &mut Write, time: Millis) {
    if let Write::Feed { row, .. } = write {
        row.key.at = time;
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
    /// Which events' client ids the store was asked for.
    asked: Vec<usize>,
    /// Kept up with what the events write; the next batch's events find it behind them.
    behind: Behind,
}

impl Behind {
    fn absorb(&mut self, write: &Write) {
        match write {
            Write::Block(row) => self.blocks.push(row.clone()),
            Write::Dedup { key, row } => drop(self.accepted.insert(key.clone(), *row)),
            Write::Message { conversation, row } => {
                // Nearly always the last.
                let place = self.said.partition_point(|(seq, ..)| *seq < row.seq);
                self.said.insert(place, (row.seq, *conversation, Arc::clone(row)));
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
