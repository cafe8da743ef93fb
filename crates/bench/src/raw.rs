//! The log alone: what appends cost before anyone judges them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use dunlin_model::{Body, ConversationId, Event, EventId, Message, MessageType, Opening, Pair, RULES};
use dunlin_ports::EventLog;

use crate::{Lane, Latencies, People, closed, random::Random, report::Raw, tag::Tag};

/// Each sender appends these in turn: the log does not look into them, and making them would cost as much as appending.
const EVENTS_PER_SENDER: u32 = 8;

pub async fn measure(log: Arc<dyn EventLog>, people: &People, senders: usize, lasting: Duration) -> Result<Raw> {
    let latencies = Arc::new(Latencies::default());
    let lane = |lane: usize| {
        let events = (0..EVENTS_PER_SENDER).map(|count| event(people, Tag { lane: lane as u32, count })).collect::<Result<_>>()?;
        Ok(Appender { log: Arc::clone(&log), events, lane: lane as u32, appended: 0, failed: 0, latencies: Arc::clone(&latencies) })
    };
    let driven = closed((0..senders).map(lane).collect::<Result<Vec<_>>>()?, Some(lasting)).await?;
    let failed = driven.lanes.iter().map(|lane| lane.failed).sum();
    let appended: usize = driven.lanes.iter().map(|lane| lane.appended).sum();
    Ok(Raw { senders, per_s: appended as f64 / driven.elapsed.as_secs_f64(), failed, ack: latencies.summary() })
}

struct Appender {
    log: Arc<dyn EventLog>,
    events: Vec<Event>,
    lane: u32,
    appended: usize,
    failed: u64,
    latencies: Arc<Latencies>,
}

impl Lane for Appender {
    async fn run(&mut self, due: Instant) -> bool {
        let event = &self.events[self.appended % self.events.len()];
        match self.log.append(&event.key, event).await {
            Ok(_) => {
                self.appended += 1;
                self.latencies.record(self.lane, due.elapsed());
                true
            }
            Err(_) => {
                self.failed += 1;
                false
            }
        }
    }
}

/// As the use case would make it.
fn event(people: &People, tag: Tag) -> Result<Event> {
    let (from, to) = people.pair(&mut Random::new(tag.noise()));
    let sent = people.message(tag, (from.clone(), to.clone()))?;
    let pair = Pair::new(from.clone(), to);
    let body = Body::Message(Message {
        conversation: ConversationId::direct(&pair),
        opening: Some(Opening::Direct(pair)),
        client_id: sent.client_id,
        message_type: MessageType::text(),
        content: sent.content,
        reply_to: None,
        metadata: None,
    });
    let mut id = [0; 16];
    id[..8].copy_from_slice(&tag.noise().to_be_bytes());
    Ok(Event { id: EventId(id), key: body.log_key(), rules: RULES, origin: None, actor: Some(from), body })
}
