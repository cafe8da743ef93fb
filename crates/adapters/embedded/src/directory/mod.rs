//! Users, server keys, token revocations, tasks and copies of blocks in one SQLite file, which anyone can open with the `sqlite3` shell.
//!
//! One connection writes, a few read: in WAL mode they don't wait for one another, and a read that begins after a write was committed
//! sees it.

mod blocks;
mod columns;
mod lane;
mod outbox;
mod schema;
mod server_keys;
mod tasks;
mod tokens;
mod users;

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use dunlin_model::{
    Announcement, BlockRow, Lease, Millis, NodeId, Partition, PhoneNumber, Seq, ServerKey, ServerKeyId, TaskName, User, UserChange, UserId,
};
use dunlin_ports::{Heard, StoreError};
use rusqlite::{Connection, OpenFlags};

use crate::error::{self, Attempt};
use lane::Lane;

const READERS: usize = 4;

/// How long to wait for a lock that someone else holds, such as a `sqlite3` shell.
const BUSY_MS_MAX: u64 = 5_000;

pub struct Directory {
    // Dropped first, so that the writer is the last to close and can tidy up its write-ahead log.
    readers: Arc<Lane>,
    writer: Arc<Lane>,
}

impl Directory {
    /// Opens the file, or makes it in a folder that exists. Blocks; meant for start-up.
    ///
    /// `Err(Conflict)` if a later version has written it.
    pub fn open(file: &Path) -> Result<Directory, StoreError> {
        let in_file = |error| error::sqlite(file, Attempt::Doubtful, &error);
        let mut writer = open_writer(file).map_err(in_file)?;
        schema::migrate(&mut writer, file)?;
        let readers = (0..READERS).map(|_| open_reader(file)).collect::<rusqlite::Result<_>>().map_err(in_file)?;
        let file: Arc<Path> = file.into();
        Ok(Directory {
            readers: Lane::new(Arc::clone(&file), Attempt::Clean, readers),
            writer: Lane::new(file, Attempt::Doubtful, vec![writer]),
        })
    }
}

#[async_trait]
impl dunlin_ports::Directory for Directory {
    async fn upsert_user(&self, id: &UserId, change: UserChange, at: Millis) -> Result<User, StoreError> {
        let id = id.clone();
        self.writer.run(move |connection| users::upsert(connection, &id, change, at)).await
    }

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        let id = id.clone();
        self.readers.run(move |connection| users::get(connection, &id)).await
    }

    async fn exist(&self, ids: &[UserId]) -> Result<Vec<bool>, StoreError> {
        let ids = ids.to_vec();
        self.readers.run(move |connection| users::exist(connection, &ids)).await
    }

    async fn create_server_key(&self, key: &ServerKey) -> Result<(), StoreError> {
        let wanted = key.clone();
        let stands = self.writer.run(move |connection| server_keys::create(connection, &wanted)).await?;
        if !stands.same_as(key) {
            return Err(StoreError::Conflict(format!("there is another server key {}", key.id)));
        }
        Ok(())
    }

    async fn server_key(&self, id: &ServerKeyId) -> Result<Option<ServerKey>, StoreError> {
        let id = id.clone();
        self.readers.run(move |connection| server_keys::get(connection, &id)).await
    }

    async fn server_keys(&self, after: Option<&ServerKeyId>, limit: usize) -> Result<Vec<ServerKey>, StoreError> {
        let after = after.cloned();
        self.readers.run(move |connection| server_keys::page(connection, after.as_ref(), limit)).await
    }

    async fn revoke_server_key(&self, id: &ServerKeyId, at: Millis) -> Result<Option<ServerKey>, StoreError> {
        let id = id.clone();
        self.writer.run(move |connection| server_keys::revoke(connection, &id, at)).await
    }

    async fn tokens_valid_from(&self, user: &UserId) -> Result<Option<Millis>, StoreError> {
        let user = user.clone();
        self.readers.run(move |connection| tokens::valid_from(connection, &user)).await
    }

    async fn revoke_tokens(&self, user: &UserId, issued_before: Millis) -> Result<(), StoreError> {
        let user = user.clone();
        self.writer.run(move |connection| tokens::revoke(connection, &user, issued_before)).await
    }

    async fn set_phone(&self, user: &UserId, phone: Option<&PhoneNumber>, at: Millis) -> Result<Option<User>, StoreError> {
        let (user, phone) = (user.clone(), phone.cloned());
        let set = self.writer.run(move |connection| users::set_phone(connection, &user, phone, at)).await?;
        set.map_err(|users::Taken| StoreError::Conflict("the phone number is another user's".to_owned()))
    }

    async fn user_with_phone(&self, phone: &PhoneNumber) -> Result<Option<UserId>, StoreError> {
        let phone = phone.clone();
        self.readers.run(move |connection| users::with_phone(connection, &phone)).await
    }

    async fn take_task(&self, task: &TaskName, lease: Lease, now: Millis) -> Result<Lease, StoreError> {
        let task = task.clone();
        self.writer.run(move |connection| tasks::take(connection, &task, lease, now)).await
    }

    async fn release_task(&self, task: &TaskName, holder: NodeId) -> Result<(), StoreError> {
        let task = task.clone();
        self.writer.run(move |connection| tasks::release(connection, &task, holder)).await
    }

    async fn copy_block(&self, block: &BlockRow) -> Result<(), StoreError> {
        let block = block.clone();
        self.writer.run(move |connection| blocks::copy(connection, &block)).await
    }

    async fn blocks_copied(&self, blocker: &UserId, after: Option<&UserId>, limit: usize) -> Result<Vec<BlockRow>, StoreError> {
        let (blocker, after) = (blocker.clone(), after.cloned());
        self.readers.run(move |connection| blocks::page(connection, &blocker, after.as_ref(), limit)).await
    }

    async fn announced(&self, heard: Option<&Heard>) -> Result<(Vec<Announcement>, Heard), StoreError> {
        let heard = heard.cloned();
        self.readers.run(move |connection| outbox::since(connection, heard.as_ref())).await
    }

    async fn forget_announced(&self, older_than_ms: u64) -> Result<(), StoreError> {
        self.writer.run(move |connection| outbox::forget(connection, older_than_ms)).await
    }

    async fn copied_up_to(&self, partition: Partition) -> Result<Option<Seq>, StoreError> {
        self.readers.run(move |connection| blocks::copied_up_to(connection, partition)).await
    }

    async fn set_copied_up_to(&self, partition: Partition, seq: Seq) -> Result<(), StoreError> {
        self.writer.run(move |connection| blocks::set_copied_up_to(connection, partition, seq)).await
    }
}

fn open_writer(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // Each commit is on the disk before it returns, whatever default the library was built with.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

fn open_reader(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use dunlin_contract::ids;
    use dunlin_ports::Directory as _;
    use tempfile::TempDir;

    use super::*;

    fn folder() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("directory.sqlite");
        (folder, file)
    }

    fn refusal(file: &Path) -> StoreError {
        Directory::open(file).err().expect("the file is refused")
    }

    #[tokio::test]
    async fn what_was_written_is_there_after_a_restart() {
        let (_folder, file) = folder();
        let id = ids::user();
        let user = Directory::open(&file).unwrap().upsert_user(&id, UserChange::default(), Millis(5)).await.unwrap();
        let again = Directory::open(&file).unwrap();
        assert_eq!(again.user(&id).await.unwrap(), Some(user));
    }

    #[tokio::test]
    async fn a_commit_is_synced_to_a_write_ahead_log() {
        let (_folder, file) = folder();
        let directory = Directory::open(&file).unwrap();
        let settings = directory.writer.run(|connection| {
            let text = |name| connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
            Ok([text("journal_mode")?, text("synchronous")?, text("foreign_keys")?])
        });
        assert_eq!(settings.await.unwrap(), ["wal".to_string().into(), 2.into(), 1.into()]);
    }

    #[test]
    fn a_file_of_a_later_version_is_refused_with_advice_and_left_alone() {
        let (_folder, file) = folder();
        drop(Directory::open(&file).unwrap());
        Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
        let StoreError::Conflict(why) = refusal(&file) else { panic!("a conflict") };
        assert!(why.contains(file.to_str().unwrap()) && why.contains("99") && why.contains("restore a backup"), "{why}");
        let version: u32 = Connection::open(&file).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, 99);
    }

    #[test]
    fn a_file_that_is_no_database_is_named() {
        let (_folder, file) = folder();
        fs::write(&file, "this is not a database".repeat(100)).unwrap();
        let StoreError::Corrupt(why) = refusal(&file) else { panic!("corrupt") };
        assert!(why.contains(file.to_str().unwrap()), "{why}");
    }

    #[tokio::test]
    async fn a_damaged_page_is_corrupt_and_names_the_file() {
        let (_folder, file) = folder();
        drop(Directory::open(&file).unwrap());
        let mut bytes = fs::read(&file).unwrap();
        bytes[4096..].fill(0xff);
        fs::write(&file, bytes).unwrap();
        let directory = Directory::open(&file).unwrap();
        let Err(StoreError::Corrupt(why)) = directory.user(&ids::user()).await else { panic!("corrupt") };
        assert!(why.contains(file.to_str().unwrap()), "{why}");
    }

    #[tokio::test]
    async fn a_value_that_can_not_be_is_corrupt() {
        let (_folder, file) = folder();
        let directory = Directory::open(&file).unwrap();
        Connection::open(&file).unwrap().execute("INSERT INTO users VALUES ('ann', '', -1, 0, NULL, NULL)", []).unwrap();
        let ann = UserId::parse("ann").unwrap();
        assert!(matches!(directory.user(&ann).await, Err(StoreError::Corrupt(_))));
        assert!(matches!(directory.upsert_user(&ann, UserChange::default(), Millis(1)).await, Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let (_folder, file) = folder();
        let missing = file.join("missing");
        let StoreError::Unavailable(why) = refusal(&missing) else { panic!("unavailable") };
        assert!(why.contains(missing.to_str().unwrap()), "{why}");
    }
}
