//! Everything that is said to Cassandra, prepared once.

use scylla::{
    client::session::Session,
    errors::{DbError, PrepareError, RequestAttemptError},
    statement::prepared::PreparedStatement,
};

use crate::{ConnectError, SchemaError};

macro_rules! message_columns {
    () => {
        "seq, n, created_at, sender, message_type, client_id, reply_to, body_text, body_type, body_opaque, metadata, thread, is_long, \
         revision, revised_at, revised_by, new_text, new_type, new_opaque, writetime(revision) AS revised"
    };
}

macro_rules! inbox_columns {
    () => {
        "conversation, tip, writetime(tip) AS tip_at, deleted, writetime(deleted) AS deleted_at, seen_n, writetime(seen_n) AS seen_at, \
         hidden_n, writetime(hidden_n) AS hidden_at, archived, writetime(archived) AS archived_at, veiled, writetime(veiled) AS veiled_at"
    };
}

macro_rules! statements {
    ($($name:ident: $text:expr;)*) => {
        pub(crate) struct Statements {
            $(pub $name: PreparedStatement,)*
        }

        impl Statements {
            pub async fn prepare(session: &Session, keyspace: &str) -> Result<Statements, ConnectError> {
                Ok(Statements { $($name: prepare(session, $text, keyspace).await?,)* })
            }
        }

        #[cfg(test)]
        const TEXTS: &[&str] = &[$($text),*];
    };
}

statements! {
    write_message: "UPDATE messages USING TIMESTAMP ? SET n = ?, created_at = ?, sender = ?, message_type = ?, client_id = ?, reply_to = ?, \
        body_text = ?, body_type = ?, body_opaque = ?, metadata = ? WHERE thread = ? AND seq = ?";
    write_edited: "UPDATE messages USING TIMESTAMP ? SET revision = 'edited', revised_at = ?, revised_by = '', new_text = ?, new_type = ?, \
        new_opaque = ? WHERE thread = ? AND seq = ?";
    // The body is overwritten, not deleted: a tombstone would go some day, and a late replay would bring the body back.
    write_deleted: "UPDATE messages USING TIMESTAMP ? SET revision = 'deleted', revised_at = ?, revised_by = ?, new_text = '', new_type = '', \
        new_opaque = 0x, body_text = '', body_type = '', body_opaque = 0x, metadata = {} WHERE thread = ? AND seq = ?";
    write_is_long: "UPDATE messages USING TIMESTAMP ? SET is_long = true WHERE thread = ?";
    write_edit: "UPDATE edits USING TIMESTAMP ? SET edited_at = ?, body_text = ?, body_type = ?, body_opaque = ? \
        WHERE conversation = ? AND target = ? AND at = ?";
    write_index: "UPDATE message_index USING TIMESTAMP ? SET seq = ?, at = ?, bucket = ? WHERE conversation = ? AND way = ? AND value = ? AND n = ?";
    write_deleted_number: "UPDATE deleted_numbers USING TIMESTAMP ? SET at = ? WHERE conversation = ? AND n = ?";
    write_hidden: "UPDATE hidden USING TIMESTAMP ? SET at = ? WHERE user = ? AND conversation = ? AND target = ?";
    write_reaction: "UPDATE reactions USING TIMESTAMP ? SET is_on = ? \
        WHERE conversation = ? AND bucket = ? AND target = ? AND user = ? AND emoji = ?";
    write_inbox: "UPDATE inbox USING TIMESTAMP ? SET tip = ?, deleted = ?, seen_n = ?, hidden_n = ?, archived = ?, veiled = ? \
        WHERE user = ? AND slice = ? AND conversation = ?";
    write_inbox_moves: "UPDATE inbox_moves USING TIMESTAMP ? SET moved_at = ? WHERE user = ? AND slice = ? AND conversation = ?";
    write_member: "UPDATE members USING TIMESTAMP ? SET read_n = ?, delivered_n = ? WHERE conversation = ? AND user = ?";
    write_block: "UPDATE blocks USING TIMESTAMP ? SET blocked = ?, since = ?, is_on = ? WHERE pair = ? AND at = ? AND blocker = ?";
    write_standing: "UPDATE standings USING TIMESTAMP ? SET blocked_by_me = ?, blocked_me = ? WHERE user = ? AND other = ?";
    write_feed: "UPDATE feed USING TIMESTAMP ? AND TTL ? SET what = ?, target = ? \
        WHERE user = ? AND month = ? AND at = ? AND conversation = ? AND seq = ?";
    // A row without columns needs its marker.
    write_feed_month: "INSERT INTO feed_months (user, month) VALUES (?, ?) USING TIMESTAMP ? AND TTL ?";
    write_dedup: "UPDATE dedup USING TIMESTAMP ? AND TTL ? SET n = ?, created_at = ?, body_hash = ? \
        WHERE conversation = ? AND sender = ? AND client_id = ? AND seq = ?";
    write_outcome: "UPDATE outcomes USING TIMESTAMP ? SET outcome = ? WHERE conversation = ? AND seq = ?";
    write_parked: "UPDATE parked USING TIMESTAMP ? SET time = ?, event = ? WHERE log_key = ? AND at = ?";
    // Of two under one time, Cassandra keeps the greater cell: that which came further.
    write_replay: "UPDATE replays USING TIMESTAMP ? SET time = ?, first = ?, up_to = ? WHERE log_key = ? AND at = ?";
    write_head: "UPDATE heads USING TIMESTAMP ? SET head = ?, n = ?, last_at = ? WHERE conversation = ?";
    write_checkpoint: "UPDATE checkpoints USING TIMESTAMP ? SET seq = ?, log_time = ?, event_id = ? WHERE shard = ? AND part = ?";

    head: "SELECT head FROM heads WHERE conversation = ?";
    heads: "SELECT conversation, head FROM heads LIMIT ?";
    heads_from: "SELECT conversation, head FROM heads WHERE token(conversation) >= token(?) LIMIT ?";
    message: concat!("SELECT ", message_columns!(), " FROM messages WHERE thread = ? AND seq = ?");
    messages_newest: concat!("SELECT ", message_columns!(), " FROM messages \
        WHERE thread = ? AND seq > ? AND seq < ? ORDER BY seq DESC LIMIT ?");
    messages_oldest: concat!("SELECT ", message_columns!(), " FROM messages \
        WHERE thread = ? AND seq > ? AND seq < ? ORDER BY seq ASC LIMIT ?");
    index_below: "SELECT n, seq, at, bucket FROM message_index WHERE conversation = ? AND way = ? AND value <= ? \
        ORDER BY way DESC, value DESC, n DESC LIMIT 1";
    index_from: "SELECT n, seq, at, bucket FROM message_index WHERE conversation = ? AND way = ? AND value >= ? LIMIT ?";
    deleted_above: "SELECT count(*) FROM deleted_numbers WHERE conversation = ? AND n > ?";
    hidden: "SELECT target FROM hidden WHERE user = ? AND conversation = ? AND target > ? AND target < ? LIMIT ?";
    reactions: "SELECT target, user, emoji, is_on, writetime(is_on) FROM reactions \
        WHERE conversation = ? AND bucket = ? AND target > ? AND target < ? LIMIT ?";
    edits: "SELECT at, edited_at, body_text, body_type, body_opaque FROM edits WHERE conversation = ? AND target = ? LIMIT ?";
    inbox: concat!("SELECT ", inbox_columns!(), " FROM inbox WHERE user = ? LIMIT ?");
    inbox_after: concat!("SELECT ", inbox_columns!(), " FROM inbox WHERE user = ? AND (slice, conversation) > (?, ?) LIMIT ?");
    inbox_moves: "SELECT conversation, moved_at FROM inbox_moves WHERE user = ? LIMIT ?";
    inbox_moves_after: "SELECT conversation, moved_at FROM inbox_moves WHERE user = ? AND (slice, conversation) > (?, ?) LIMIT ?";
    inbox_row: concat!("SELECT ", inbox_columns!(), " FROM inbox WHERE user = ? AND slice = ? AND conversation = ?");
    members: "SELECT user, read_n, writetime(read_n), delivered_n, writetime(delivered_n) FROM members \
        WHERE conversation = ? AND user > ? LIMIT ?";
    blocks_below: "SELECT blocker, blocked, at, since, is_on FROM blocks WHERE pair = ? AND at < ?";
    standings: "SELECT other, blocked_by_me, writetime(blocked_by_me), blocked_me, writetime(blocked_me) FROM standings \
        WHERE user = ? AND other > ? LIMIT ?";
    feed_months: "SELECT month FROM feed_months WHERE user = ? AND month >= ?";
    feed: "SELECT at, conversation, seq, what, target FROM feed \
        WHERE user = ? AND month = ? AND (at, conversation, seq) > (?, ?, ?) LIMIT ?";
    dedup: "SELECT seq, n, created_at, body_hash FROM dedup WHERE conversation = ? AND sender = ? AND client_id = ? AND seq < ? LIMIT 1";
    outcome: "SELECT outcome FROM outcomes WHERE conversation = ? AND seq = ?";
    parked: "SELECT log_key, at FROM parked PER PARTITION LIMIT 1 LIMIT ?";
    parked_rows: "SELECT at, time, event FROM parked WHERE log_key = ? AND at >= ? LIMIT ?";
    replays: "SELECT at, time, first, up_to FROM replays WHERE log_key = ?";
    checkpoint: "SELECT seq, log_time, event_id FROM checkpoints WHERE shard = ? AND part = ?";
    checkpoints: "SELECT part, log_time FROM checkpoints WHERE shard = ?";
}

/// With the table's whole name: a statement that depends on what keyspace is in use may be prepared for another.
fn in_keyspace(text: &str, keyspace: &str) -> String {
    let before_table =
        if text.starts_with("SELECT") { " FROM " } else { ["UPDATE ", "INSERT INTO "][usize::from(text.starts_with("INSERT"))] };
    text.replacen(before_table, &format!("{before_table}{keyspace}."), 1)
}

async fn prepare(session: &Session, text: &str, keyspace: &str) -> Result<PreparedStatement, ConnectError> {
    let text = in_keyspace(text, keyspace);
    let mut statement = session.prepare(&*text).await.map_err(|error| match error {
        PrepareError::AllAttemptsFailed { first_attempt: RequestAttemptError::DbError(DbError::Invalid, why) } => {
            SchemaError::Altered { keyspace: keyspace.to_owned(), why }.into()
        }
        error => ConnectError::Statement(format!("{text}: {error}")),
    })?;
    // Every write may be made again: so the driver may, on another node.
    statement.set_is_idempotent(true);
    Ok(statement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_named_with_its_keyspace() {
        for text in TEXTS {
            let text = in_keyspace(text, "k");
            assert_eq!(text.matches(" k.").count(), 1, "{text}");
        }
    }

    #[test]
    fn every_write_names_its_time() {
        for text in TEXTS.iter().filter(|text| !text.starts_with("SELECT ")) {
            assert!(text.contains("USING TIMESTAMP ?"), "{text}");
        }
    }

    #[test]
    fn nothing_is_deleted_batched_or_compared_and_set() {
        for text in TEXTS {
            assert!(!text.starts_with("DELETE") && !text.contains("BATCH") && !text.contains(" IF "), "{text}");
        }
    }

    #[test]
    fn only_a_row_without_columns_is_inserted() {
        let inserted: Vec<_> = TEXTS.iter().filter(|text| text.starts_with("INSERT")).collect();
        assert!(inserted.iter().all(|text| text.contains("feed_months")), "{inserted:?}");
    }

    #[test]
    fn no_read_is_unbounded_or_filtered() {
        for text in TEXTS.iter().filter(|text| text.starts_with("SELECT ")) {
            assert!(!text.contains("ALLOW FILTERING"), "{text}");
        }
    }
}
