//! One connection: sends, or reads.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use dunlin_client::{
    Client, Error,
    protocol::{Code, Outcome, SendToBody},
};
use dunlin_model::UserId;

use super::{Read, Site};
use crate::{Lane, LaneRecord, Latencies, paced, random::Random, tag::Tag};

/// Of so many sends one is looked for by its recipient.
const LOOK_AT_ONE_IN: u32 = 32;
const READERS: u32 = 32;

#[derive(Default)]
pub(super) struct Measured {
    pub(super) ack: Latencies,
    pub(super) visible: Latencies,
}

/// A sender with a connection of its own.
pub struct Connection {
    site: Arc<Site>,
    client: Client,
    random: Random,
    pub record: LaneRecord,
    /// Acknowledged, but not visible when the answer came (202).
    pub pending: u64,
    measured: Arc<Measured>,
    /// These, from the last to the first; else anyone.
    pairs: Option<Vec<(UserId, UserId)>>,
}

impl Connection {
    pub(super) fn new(site: &Arc<Site>, record: LaneRecord, measured: &Arc<Measured>, pairs: Option<Vec<(UserId, UserId)>>) -> Connection {
        Connection {
            client: site.host.with_own_connections(),
            site: Arc::clone(site),
            random: Random::new(record.lane.into()),
            record,
            pending: 0,
            measured: Arc::clone(measured),
            pairs,
        }
    }
}

impl Lane for Connection {
    async fn run(&mut self, due: Instant) -> bool {
        let (from, to) = match &mut self.pairs {
            None => self.site.people.pair(&mut self.random),
            Some(pairs) => match pairs.pop() {
                Some(pair) => pair,
                None => return false,
            },
        };
        let tag = Tag { lane: self.record.lane, count: self.record.tried };
        let Ok(client_id) = tag.client_id() else { return false };
        self.record.tried += 1;
        let body = SendToBody {
            to: to.to_string(),
            client_id: client_id.to_string(),
            text: Some(self.site.people.text(tag).to_owned()),
            ..SendToBody::default()
        };
        let sent = self.client.with_credentials(self.site.token(&from)).send_to_user(&body).await;
        self.measured.ack.record(self.record.lane, due.elapsed());
        match sent {
            Ok(sent) => {
                self.pending += u64::from(sent.outcome == Outcome::Pending);
                if tag.count.is_multiple_of(LOOK_AT_ONE_IN) {
                    let page = self.client.with_credentials(self.site.token(&to));
                    let page = page.history(&sent.conversation).limit(1).at_least(&sent.token).get().await;
                    if page.is_ok() {
                        self.measured.visible.record(self.record.lane, due.elapsed());
                    }
                }
            }
            Err(error) => self.failed(tag, &error).await,
        }
        true
    }
}

impl Connection {
    /// What the server refused is not there; of anything else that is not known.
    async fn failed(&mut self, tag: Tag, error: &Error) {
        const BREAK: Duration = Duration::from_millis(10);
        match error.code() {
            Some(code) if code != Code::OutcomeUnknown && code != Code::Internal => self.record.refused.push(tag.count),
            _ => self.record.unknown.push(tag.count),
        }
        tokio::time::sleep(BREAK).await;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The newest 50 messages of a busy conversation.
    Page,
    /// The first 20 conversations of an inbox of 1,000.
    WideInbox,
    /// The first 20 conversations of an inbox of 20.
    UsualInbox,
}

impl What {
    pub const ALL: [What; 3] = [What::Page, What::UsualInbox, What::WideInbox];

    fn per_s(self) -> u32 {
        match self {
            What::Page | What::UsualInbox => 200,
            What::WideInbox => 50,
        }
    }
}

pub(super) async fn reads(site: &Arc<Site>, what: What, while_per_s: u32, lasting: Duration) -> Result<Read> {
    let latencies = Arc::new(Latencies::default());
    let reader = |lane: u32| Reader {
        site: Arc::clone(site),
        client: site.host.with_own_connections(),
        what,
        lane,
        random: Random::new(2_000_000 + u64::from(lane)),
        latencies: Arc::clone(&latencies),
        failed: None,
    };
    let paced = paced((0..READERS).map(reader).collect(), what.per_s(), lasting).await?;
    if let Some(error) = paced.lanes.into_iter().find_map(|reader| reader.failed) {
        bail!("failed to read: {error}");
    }
    let name = match what {
        What::Page => "newest 50 messages".to_owned(),
        What::UsualInbox => format!("inbox, 20 of {}", site.people.usual_size),
        What::WideInbox => format!("inbox, 20 of {}", site.people.wide_size),
    };
    Ok(Read { what: name, per_s: what.per_s(), while_per_s, latency: latencies.summary() })
}

struct Reader {
    site: Arc<Site>,
    client: Client,
    what: What,
    lane: u32,
    random: Random,
    latencies: Arc<Latencies>,
    failed: Option<String>,
}

impl Lane for Reader {
    async fn run(&mut self, _: Instant) -> bool {
        let people = &self.site.people;
        let (user, conversation) = people.busy(&mut self.random);
        let user = match self.what {
            What::Page => &user,
            What::UsualInbox => &people.usual[self.random.below(people.usual.len())],
            What::WideInbox => &people.wide,
        };
        let client = self.client.with_credentials(self.site.token(user));
        let begun = Instant::now();
        let read = match self.what {
            What::Page => client.history(&conversation.to_string()).limit(50).get().await.map(|page| page.data.len()),
            What::UsualInbox | What::WideInbox => client.inbox().limit(20).get().await.map(|page| page.data.len()),
        };
        self.latencies.record(self.lane, begun.elapsed());
        match read {
            Ok(0) => self.failed = Some("nothing was there".to_owned()),
            Ok(_) => {}
            Err(error) => self.failed = Some(error.to_string()),
        }
        true
    }
}
