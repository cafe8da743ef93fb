//! Reads at a fixed rate, on an idle engine and under load.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use dunlin_app::{App, HistoryQuery, InboxQuery};

use crate::{Lane, Latencies, People, paced, random::Random, report::Read};

/// So many that one which is held up does not hold up the next.
const READERS: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The newest 50 messages of a busy conversation.
    Page,
    /// The first 20 conversations of an inbox of 20.
    UsualInbox,
    /// The first 20 conversations of an inbox of 1,000.
    WideInbox,
}

impl What {
    pub const ALL: [What; 3] = [What::Page, What::UsualInbox, What::WideInbox];

    fn name(self, people: &People) -> String {
        match self {
            What::Page => "newest 50 messages".to_owned(),
            What::UsualInbox => format!("inbox, 20 of {}", people.usual_size),
            What::WideInbox => format!("inbox, 20 of {}", people.wide_size),
        }
    }

    /// Few enough that reading alone does not fill a core.
    fn per_s(self) -> u32 {
        match self {
            What::Page | What::UsualInbox => 500,
            What::WideInbox => 50,
        }
    }
}

pub async fn measure(app: &App, people: &Arc<People>, what: What, under_load: bool, lasting: Duration) -> Result<Read> {
    let latencies = Arc::new(Latencies::default());
    let reader = |lane: u32| {
        let (random, latencies) = (Random::new(1_000_000 + u64::from(lane)), Arc::clone(&latencies));
        Reader { app: app.clone(), people: Arc::clone(people), what, lane, random, latencies, failed: None }
    };
    let paced = paced((0..READERS).map(reader).collect(), what.per_s(), lasting).await?;
    if let Some(error) = paced.lanes.into_iter().find_map(|reader| reader.failed) {
        bail!("failed to read: {error}");
    }
    Ok(Read { what: what.name(people), per_s: what.per_s(), under_load, latency: latencies.summary() })
}

struct Reader {
    app: App,
    people: Arc<People>,
    what: What,
    lane: u32,
    random: Random,
    latencies: Arc<Latencies>,
    failed: Option<String>,
}

impl Lane for Reader {
    /// Measured from its beginning, not from when it was due: waking up takes longer than most reads. Readers are many, so a stall still
    /// meets all that come due during it.
    async fn run(&mut self, _: Instant) -> bool {
        let (user, conversation) = self.people.busy(&mut self.random);
        let inbox = InboxQuery { limit: 20, ..InboxQuery::default() };
        let begun = Instant::now();
        let read = match self.what {
            What::Page => self.app.history(&user, conversation, HistoryQuery::Newest, 50).await.map(|page| page.messages.len()),
            What::UsualInbox => {
                let user = &self.people.usual[self.random.below(self.people.usual.len())];
                self.app.inbox(user, inbox).await.map(|page| page.conversations.len())
            }
            What::WideInbox => self.app.inbox(&self.people.wide, inbox).await.map(|page| page.conversations.len()),
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
