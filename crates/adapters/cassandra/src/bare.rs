//! The driver alone, to measure what projecting adds to it: the statements of one message, and nothing around them.

use dunlin_ports::StoreError;
use scylla::{
    statement::batch::{Batch, BatchType},
    value::{CqlTimestamp, MaybeUnset},
};

use crate::Messages;

/// Among how many conversations and users they are spread.
const CONVERSATIONS: u64 = 4_000;
const USERS: u64 = 2_000;
const TTL_S: i32 = 30 * 24 * 60 * 60;
const MONTH: i32 = 202_601;

impl Messages {
    /// What a message of a known conversation writes, said straight to the driver: tips and feeds of both users, then message, client id and
    /// head together.
    pub async fn write_bare(&self, number: u64, text: &str) -> Result<(), StoreError> {
        let (seq, at) = (i64::try_from(number).unwrap_or(i64::MAX), CqlTimestamp(0));
        let conversation = format!("bare-{:026}", number.wrapping_mul(7_919) % CONVERSATIONS);
        let users = [number % USERS, number.wrapping_mul(31) % USERS].map(|user| format!("bare-{user}"));
        let (blob, client_id) = ([7_u8; 80], format!("bare-{number}"));
        let (session, statements) = (self.session(), &self.statements);
        let unset = MaybeUnset::<i64>::Unset;
        let mut inbox = Batch::new(BatchType::Unlogged);
        [&statements.write_inbox, &statements.write_inbox_moves]
            .into_iter()
            .for_each(|statement| inbox.append_statement(statement.clone()));
        let tips = users.each_ref().map(|user| {
            let tip = (seq, &blob[..], MaybeUnset::<Vec<u8>>::Unset, seq, unset, unset, unset, user, "", &conversation);
            session.batch(&inbox, (tip, (seq, at, user, "", &conversation)))
        });
        let feeds = users.each_ref().map(|user| {
            let values = (seq, TTL_S, "message", unset, user, MONTH, at, &conversation, seq);
            session.execute_unpaged(&statements.write_feed, values)
        });
        let [tip, other_tip] = tips;
        let [feed, other_feed] = feeds;
        let failed = |error| StoreError::Unknown(format!("Cassandra: {error}"));
        futures::try_join!(tip, other_tip, feed, other_feed).map_err(failed)?;
        let mut batch = Batch::new(BatchType::Unlogged);
        [&statements.write_message, &statements.write_dedup, &statements.write_head]
            .into_iter()
            .for_each(|statement| batch.append_statement(statement.clone()));
        let (none, no_blob) = (MaybeUnset::<&str>::Unset, MaybeUnset::<Vec<u8>>::Unset);
        let no_map = MaybeUnset::<std::collections::HashMap<&str, &str>>::Unset;
        let message =
            (seq, seq, at, &users[0], "text", &client_id, unset, MaybeUnset::Set(text), none, no_blob, no_map, &conversation, seq);
        let dedup = (seq, TTL_S, seq, at, &blob[..17], &conversation, &users[0], &client_id, seq);
        let head = (seq, &blob[..], seq, at, &conversation);
        session.batch(&batch, (message, dedup, head)).await.map(drop).map_err(failed)
    }
}
