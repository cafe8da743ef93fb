//! Answers to requests that carried an idempotency key, for when they are made again.

use bytes::Bytes;
use dunlin_model::Millis;
use dunlin_ports::AnswerKey;
use tracing::debug;

use crate::App;

/// How long an answer is remembered.
const ANSWER_TTL_MS: u64 = Millis::DAY;

impl App {
    /// Forgetting is harmless: whatever can be asked twice may be done twice.
    pub async fn answer_given(&self, key: AnswerKey) -> Option<Bytes> {
        self.ephemeral.recall_answer(key).await.ok().flatten()
    }

    pub async fn remember_answer(&self, key: AnswerKey, answer: Bytes) {
        if let Err(error) = self.ephemeral.remember_answer(key, answer, ANSWER_TTL_MS).await {
            debug!(%error, "an answer was not remembered; the same request will be made again");
        }
    }
}
