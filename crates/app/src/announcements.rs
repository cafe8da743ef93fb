//! Hears what other processes changed in the directory, and forgets what this one remembers otherwise. As long as it hears, the directory need
//! not be asked again and again.

use std::time::Duration;

use dunlin_model::{Announcement, Lease, Millis, TaskName};
use dunlin_ports::Heard;
use tracing::debug;

use crate::App;

const EVERY: Duration = Duration::from_secs(1);

/// For how long an announcement is kept. Who has heard nothing for half of that begins anew.
const KEPT_MS: u64 = 60 * 60 * 1_000;
const FORGET_EVERY_MS: u64 = 10 * 60 * 1_000;
const FORGETTING: &str = "forget-announced";

impl App {
    /// Until it is dropped.
    pub async fn hear_announcements(&self) {
        let mut heard: Option<(Heard, Millis)> = None;
        let mut forgot_at = self.clock.now();
        loop {
            let asked_at = self.clock.now();
            heard = heard.filter(|(_, at)| asked_at.minus(KEPT_MS / 2) < *at);
            match self.directory.announced(heard.as_ref().map(|(heard, _)| heard)).await {
                Ok((announced, now)) => {
                    announced.iter().for_each(|announcement| self.hear(announcement));
                    self.identities.heard(asked_at, heard.is_some());
                    heard = Some((now, asked_at));
                    if forgot_at.0 + FORGET_EVERY_MS <= asked_at.0 {
                        forgot_at = asked_at;
                        self.forget_announced(asked_at).await;
                    }
                }
                Err(error) => debug!(%error, "revocations are not heard of for the moment; the directory is asked more often"),
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    fn hear(&self, announcement: &Announcement) {
        match announcement {
            Announcement::TokensRevoked { user, issued_before } => self.identities.tokens_revoked(user, *issued_before),
            Announcement::KeyRevoked(key) => self.identities.key_revoked(key),
        }
    }

    /// One node does it.
    async fn forget_announced(&self, now: Millis) {
        let task = TaskName::parse(FORGETTING).expect("it keeps to the alphabet");
        let lease = Lease { holder: self.node, until: Millis(now.0 + FORGET_EVERY_MS) };
        let taken = self.directory.take_task(&task, lease, now).await;
        if taken.is_ok_and(|taken| taken.holder == self.node)
            && let Err(error) = self.directory.forget_announced(KEPT_MS).await
        {
            debug!(%error, "old announcements were not forgotten");
        }
    }
}
