//! Has what was set aside under a log key judged after all. For operators: no user may do this, and nobody waits for an outcome.

use dunlin_model::{Body, Event, EventId, LogKey, RULES, Seq};
use dunlin_ports::{EventLog, IdGen, StoreError};

/// Appends the event; its seq tells when it is projected. What can't be judged by the version that projects it stays parked, unless it is
/// left out: that event has then never happened.
pub async fn unpark(log: &dyn EventLog, ids: &dyn IdGen, key: LogKey, leave_out: Option<Seq>) -> Result<Seq, StoreError> {
    let event = Event { id: EventId(ids.bits128()), key, rules: RULES, origin: None, actor: None, body: Body::Unpark(key, leave_out) };
    Ok(log.append(&key, &event).await?.seq)
}
