//! The tables, and how an older schema becomes this one. Only forward: a schema that this version does not know is refused.

use std::{collections::BTreeMap, fmt::Display, sync::Arc, time::Duration};

use scylla::{
    client::session::Session,
    cluster::Node,
    errors::{DbError, ExecutionError, RequestAttemptError},
};
use tracing::info;

use crate::{
    ConnectError, Options,
    store::{connect, within_start_max},
};

/// What one version adds to the one before.
const MIGRATIONS: &[&[&str]] = &[V3, V4];

const V3: &[&str] = &[
    // Messages. A thread is a conversation's id, and from its second bucket on also the bucket's number: a bucket is cut at 10,000 messages or
    // 32 MiB, so a partition stays small however long a conversation gets. The first one tells whether there are more.
    "CREATE TABLE IF NOT EXISTS messages (
        thread text, seq bigint, is_long boolean static,
        n bigint, created_at timestamp, sender text, message_type text, client_id text, reply_to bigint,
        body_text text, body_type text, body_opaque blob, metadata frozen<map<text, text>>,
        revision text, revised_at timestamp, revised_by text, new_text text, new_type text, new_opaque blob,
        PRIMARY KEY (thread, seq)
    ) WITH CLUSTERING ORDER BY (seq DESC) AND compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    // Where every 500th message stands, by its seq, its number and its time.
    "CREATE TABLE IF NOT EXISTS message_index (
        conversation text, way text, value bigint, n bigint, seq bigint, at timestamp, bucket int,
        PRIMARY KEY (conversation, way, value, n)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    "CREATE TABLE IF NOT EXISTS edits (
        conversation text, target bigint, at bigint, edited_at timestamp, body_text text, body_type text, body_opaque blob,
        PRIMARY KEY ((conversation, target), at)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    "CREATE TABLE IF NOT EXISTS reactions (
        conversation text, bucket int, target bigint, user text, emoji text, is_on boolean,
        PRIMARY KEY ((conversation, bucket), target, user, emoji)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    "CREATE TABLE IF NOT EXISTS deleted_numbers (
        conversation text, n bigint, at bigint, PRIMARY KEY (conversation, n)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    "CREATE TABLE IF NOT EXISTS hidden (
        user text, conversation text, target bigint, at bigint, PRIMARY KEY ((user, conversation), target)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    // The projector's one mutable input; the columns beside the head are for people who look.
    "CREATE TABLE IF NOT EXISTS heads (
        conversation text PRIMARY KEY, head blob, n bigint, last_at timestamp
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    "CREATE TABLE IF NOT EXISTS members (
        conversation text, user text, read_n bigint, delivered_n bigint, PRIMARY KEY (conversation, user)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    // One row a conversation, updated in place. A slice holds the conversations of one ad, or the large groups; the others are in ''.
    "CREATE TABLE IF NOT EXISTS inbox (
        user text, slice text, conversation text,
        tip blob, deleted blob, seen_n bigint, hidden_n bigint, archived bigint, veiled bigint,
        PRIMARY KEY (user, slice, conversation)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    // When each of them last moved, to find the page of a large inbox: rows cost by their cells. Written with the inbox as one mutation.
    "CREATE TABLE IF NOT EXISTS inbox_moves (
        user text, slice text, conversation text, moved_at timestamp,
        PRIMARY KEY (user, slice, conversation)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    "CREATE TABLE IF NOT EXISTS blocks (
        pair blob, at bigint, blocker text, blocked text, since timestamp, is_on boolean,
        PRIMARY KEY (pair, at, blocker)
    ) WITH CLUSTERING ORDER BY (at DESC, blocker ASC) AND compaction = {'class': 'UnifiedCompactionStrategy'}
        AND gc_grace_seconds = 259200",
    // Since when; 1970 where a block was taken back.
    "CREATE TABLE IF NOT EXISTS standings (
        user text, other text, blocked_by_me timestamp, blocked_me timestamp, PRIMARY KEY (user, other)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    "CREATE TABLE IF NOT EXISTS feed (
        user text, month int, at timestamp, conversation text, seq bigint, what text, target bigint,
        PRIMARY KEY ((user, month), at, conversation, seq)
    ) WITH compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', 'compaction_window_size': 14}
        AND gc_grace_seconds = 259200",
    "CREATE TABLE IF NOT EXISTS feed_months (
        user text, month int, PRIMARY KEY (user, month)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    "CREATE TABLE IF NOT EXISTS dedup (
        conversation text, sender text, client_id text, seq bigint, n bigint, created_at timestamp, body_hash blob,
        PRIMARY KEY (conversation, sender, client_id, seq)
    ) WITH CLUSTERING ORDER BY (sender ASC, client_id ASC, seq DESC)
        AND compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', 'compaction_window_size': 1}
        AND gc_grace_seconds = 259200",
    "CREATE TABLE IF NOT EXISTS outcomes (
        conversation text, seq bigint, outcome blob, PRIMARY KEY ((conversation, seq))
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    "CREATE TABLE IF NOT EXISTS parked (
        log_key blob, at bigint, time timestamp, event blob, PRIMARY KEY (log_key, at)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    // Spread over a few partitions: every feed page asks for the lowest.
    "CREATE TABLE IF NOT EXISTS checkpoints (
        shard int, part int, seq bigint, log_time timestamp, event_id blob, PRIMARY KEY (shard, part)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
];

const V4: &[&str] = &[
    // Which log the state is made from; the highest epoch counts, the others tell what was.
    "CREATE TABLE IF NOT EXISTS log_lives (
        id int, epoch int, log text, begins frozen<list<bigint>>, not_before timestamp, PRIMARY KEY (id, epoch)
    ) WITH CLUSTERING ORDER BY (epoch DESC) AND compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
    // Which of the events that were set aside were judged after all: from one up to, and without, another, at an unpark event.
    "CREATE TABLE IF NOT EXISTS replays (
        log_key blob, at bigint, time timestamp, first bigint, up_to bigint, PRIMARY KEY (log_key, at)
    ) WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 259200",
];

/// Which version a keyspace has.
const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS schema_versions (id int PRIMARY KEY, version int)";

const STATEMENT_MAX: Duration = Duration::from_secs(60);

/// Versions from before the first release, whose tables had other keys.
const NOT_KNOWN_ANY_MORE: usize = 2;

pub const VERSION: usize = NOT_KNOWN_ANY_MORE + MIGRATIONS.len();

#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("there is no keyspace {0}, or it has no tables of dunlin: run `dunlin schema apply`")]
    Missing(String),
    #[error(
        "the schema of {keyspace} has version {found}, this program knows up to {VERSION}: use the program that made it, or a newer one"
    )]
    Newer { keyspace: String, found: usize },
    #[error("the schema of {keyspace} has version {found}, this program needs {VERSION}: run `dunlin schema apply`")]
    Older { keyspace: String, found: usize },
    #[error("the schema of {keyspace} has version {found}, from before the first release: make another keyspace")]
    TooOld { keyspace: String, found: usize },
    #[error(
        "{keyspace} is replicated as {found}, the configuration says {wanted}: alter the keyspace and repair it, or mend the configuration"
    )]
    Replication { keyspace: String, found: String, wanted: String },
    #[error("Cassandra has {nodes} nodes in {datacenter}, too few for the {replicas} replicas that the configuration asks for")]
    TooFewNodes { datacenter: String, nodes: usize, replicas: u32 },
    #[error("the keyspace {keyspace} is not what its schema version {VERSION} says, a table was dropped or altered: {why}")]
    Altered { keyspace: String, why: String },
}

/// Everything that `apply` would say to an empty cluster.
pub fn statements(options: &Options) -> Vec<String> {
    let tables = MIGRATIONS.iter().copied().flatten().map(|statement| outdented(statement));
    [create_keyspace(options), format!("USE {}", options.keyspace), VERSIONS.into()].into_iter().chain(tables).collect()
}

/// Makes the keyspace and its tables, or brings them to this version. Repeatable.
pub async fn apply(options: &Options) -> Result<(), ConnectError> {
    within_start_max(bring_forward(options)).await
}

async fn bring_forward(options: &Options) -> Result<(), ConnectError> {
    // Tables take their time, the more of them are made at once.
    let session = connect(&Options { request_timeout: STATEMENT_MAX, ..options.clone() }).await?;
    may_be_made(&session, options).await?;
    run(&session, &create_keyspace(options)).await?;
    session.use_keyspace(&options.keyspace, true).await.map_err(refused)?;
    run(&session, VERSIONS).await?;
    let found = version(&session, &options.keyspace).await?.unwrap_or(0);
    if found > VERSION {
        return Err(SchemaError::Newer { keyspace: options.keyspace.clone(), found }.into());
    }
    if (1..=NOT_KNOWN_ANY_MORE).contains(&found) {
        return Err(SchemaError::TooOld { keyspace: options.keyspace.clone(), found }.into());
    }
    for (number, migration) in (NOT_KNOWN_ANY_MORE + 1..).zip(MIGRATIONS).filter(|(number, _)| *number > found) {
        for statement in *migration {
            run(&session, statement).await?;
        }
        run(&session, &format!("UPDATE schema_versions USING TIMESTAMP {number} SET version = {number} WHERE id = 0")).await?;
        info!(keyspace = options.keyspace, version = number, "the schema was brought forward");
    }
    Ok(())
}

/// A keyspace that is there must have the replicas that are asked for; a new one must have nodes for them, or it could not be written to.
async fn may_be_made(session: &Session, options: &Options) -> Result<(), ConnectError> {
    if let Some(found) = replication(session, &options.keyspace).await? {
        return has_replication(options, found);
    }
    let cluster = session.get_cluster_state();
    for (datacenter, replicas) in &options.replication {
        let is_there = |node: &&Arc<Node>| node.datacenter.as_deref() == Some(datacenter);
        let nodes = cluster.get_nodes_info().iter().filter(is_there).count();
        if nodes < usize::try_from(*replicas).unwrap_or(usize::MAX) {
            return Err(SchemaError::TooFewNodes { datacenter: datacenter.clone(), nodes, replicas: *replicas }.into());
        }
    }
    Ok(())
}

fn has_replication(options: &Options, found: String) -> Result<(), ConnectError> {
    let (keyspace, wanted) = (options.keyspace.clone(), replication_of(options));
    if found == wanted { Ok(()) } else { Err(SchemaError::Replication { keyspace, found, wanted }.into()) }
}

/// Deletes the keyspace with all that is in it.
pub async fn delete(options: &Options) -> Result<(), ConnectError> {
    let session = connect(&Options { request_timeout: STATEMENT_MAX, ..options.clone() }).await?;
    run(&session, &format!("DROP KEYSPACE IF EXISTS {}", options.keyspace)).await
}

/// Whether the keyspace is one that this program can use.
pub(crate) async fn check(session: &Session, options: &Options) -> Result<(), ConnectError> {
    let keyspace = options.keyspace.clone();
    let Some(found) = replication(session, &keyspace).await? else { return Err(SchemaError::Missing(keyspace).into()) };
    has_replication(options, found)?;
    match version(session, &keyspace).await? {
        None => Err(SchemaError::Missing(keyspace).into()),
        Some(found @ 1..=NOT_KNOWN_ANY_MORE) => Err(SchemaError::TooOld { keyspace, found }.into()),
        Some(found) if found > VERSION => Err(SchemaError::Newer { keyspace, found }.into()),
        Some(found) if found < VERSION => Err(SchemaError::Older { keyspace, found }.into()),
        Some(_) => Ok(()),
    }
}

/// None if there is nothing of ours.
pub(crate) async fn version(session: &Session, keyspace: &str) -> Result<Option<usize>, ConnectError> {
    let result = session.query_unpaged(format!("SELECT version FROM {keyspace}.schema_versions WHERE id = 0"), ()).await;
    let result = match result {
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Invalid, _))) => return Ok(None),
        result => result.map_err(refused)?,
    };
    let row = result.into_rows_result().map_err(refused)?.maybe_first_row::<(i32,)>().map_err(refused)?;
    Ok(row.map(|(version,)| usize::try_from(version).unwrap_or(0)))
}

async fn replication(session: &Session, keyspace: &str) -> Result<Option<String>, ConnectError> {
    let text = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let rows = session.query_unpaged(text, (keyspace,)).await.map_err(refused)?.into_rows_result().map_err(refused)?;
    let row = rows.maybe_first_row::<(BTreeMap<String, String>,)>().map_err(refused)?;
    Ok(row.map(|(mut replicas,)| {
        replicas.remove("class");
        listed(&replicas)
    }))
}

fn replication_of(options: &Options) -> String {
    listed(&options.replication)
}

fn listed<T: Display>(replicas: &BTreeMap<String, T>) -> String {
    replicas.iter().map(|(datacenter, replicas)| format!("{datacenter}: {replicas}")).collect::<Vec<_>>().join(", ")
}

fn create_keyspace(options: &Options) -> String {
    let replicas: String = options.replication.iter().map(|(datacenter, replicas)| format!(", '{datacenter}': {replicas}")).collect();
    let keyspace = &options.keyspace;
    format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy'{replicas}}}")
}

async fn run(session: &Session, statement: &str) -> Result<(), ConnectError> {
    session.query_unpaged(statement, ()).await.map(drop).map_err(refused)
}

fn refused(error: impl Display) -> ConnectError {
    ConnectError::Statement(error.to_string())
}

/// As it reads well outside of this file.
fn outdented(statement: &str) -> String {
    statement.replace("\n    ", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_says_how_it_is_compacted_and_for_how_long_tombstones_stay() {
        for statement in MIGRATIONS.iter().copied().flatten() {
            assert!(statement.contains("compaction = {'class'") && statement.contains("gc_grace_seconds = 259200"), "{statement}");
        }
    }

    #[test]
    fn no_column_is_a_counter_or_a_collection_that_is_not_frozen() {
        for statement in MIGRATIONS.iter().copied().flatten() {
            let without_frozen = statement.replace("frozen<map<text, text>>", "").replace("frozen<list<bigint>>", "");
            assert!(!["counter", "map<", "list<", "set<"].iter().any(|kind| without_frozen.contains(kind)), "{statement}");
        }
    }
}
