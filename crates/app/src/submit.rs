//! Appends an event and waits for what becomes of it. Every write use case goes through here.

use std::time::Duration;

use dunlin_model::{Body, ConversationId, Event, EventId, Outcome, RULES, Seq, UserId};
use tokio::sync::oneshot;

use crate::{App, AppError, SendToken, outcome_of};

/// How long an answer waits for the outcome; then it is "sent", and the outcome is told later.
const OUTCOME_WAIT: Duration = Duration::from_millis(300);

/// When the one who should tell the outcome is silent, the store is asked once.
const OUTCOME_SILENCE: Duration = Duration::from_millis(250);

/// An event that the log holds durably.
pub struct Submitted {
    pub token: SendToken,
    told: oneshot::Receiver<Outcome>,
}

/// A message that is sent: what became of it, if that is known yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    pub token: SendToken,
    pub outcome: Option<Outcome>,
}

/// A change that took effect, or (not settled yet) will be judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Changed {
    pub token: SendToken,
    pub settled: bool,
}

impl App {
    pub(crate) async fn submit(&self, actor: Option<UserId>, conversation: ConversationId, body: Body) -> Result<Submitted, AppError> {
        let key = body.log_key();
        if self.outcomes.is_parked(&key) {
            return Err(AppError::Parked);
        }
        if self.outcomes.is_overdue() {
            return Err(AppError::Overdue);
        }
        let place = self.outcomes.place().await?;
        let event = Event { id: EventId(self.ids.bits128()), key, rules: RULES, origin: Some(place.origin), actor, body };
        let appending = self.log.append(&key, &event);
        let seq: Seq = match &self.drive {
            Some(drive) => drive.append(appending, || self.outcomes.waiting_len() == 1).await?.seq,
            None => appending.await?.seq,
        };
        Ok(Submitted { token: SendToken { conversation, seq }, told: place.appended(conversation, seq) })
    }

    /// Waits a little for the outcome.
    pub async fn outcome(&self, submitted: Submitted) -> Sent {
        let Submitted { token, mut told } = submitted;
        if let Ok(outcome) = tokio::time::timeout(OUTCOME_SILENCE, &mut told).await {
            return Sent { token, outcome: outcome.ok() };
        }
        if let Ok(Some(outcome)) = outcome_of(&*self.store, token.conversation, token.seq).await {
            return Sent { token, outcome: Some(outcome) };
        }
        let outcome = tokio::time::timeout(OUTCOME_WAIT - OUTCOME_SILENCE, told).await;
        Sent { token, outcome: outcome.ok().and_then(Result::ok) }
    }

    /// Appends a change that is no message, and waits a little for it to take effect.
    pub(crate) async fn change(&self, actor: &UserId, conversation: ConversationId, body: Body) -> Result<Changed, AppError> {
        let submitted = self.submit(Some(actor.clone()), conversation, body).await?;
        let sent = self.outcome(submitted).await;
        match sent.outcome {
            Some(Outcome::Rejected(rejection)) => Err(rejection.into()),
            outcome => Ok(Changed { token: sent.token, settled: outcome.is_some() }),
        }
    }
}
