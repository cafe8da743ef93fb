//! The driver alone, to measure what this crate adds to it; and a database for that, beside those that are in use.

use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::{Client, Statement};

use crate::{
    error::{StartError, reason},
    options::{Database, Options},
    schema,
    shard::{Shard, ShardSet},
    tls,
};

/// A new database on the server of the first one, with all shards, and how to reach it.
pub async fn make_scratch(options: &Options, name: &str) -> Result<Options, StartError> {
    let first = options.databases.first().ok_or(crate::InvalidOptions::NoDatabases)?;
    connected(options).await?.batch_execute(&format!("CREATE DATABASE {name}")).await.map_err(refused)?;
    let url = in_database(&first.url, name);
    let mut all = ShardSet::default();
    Shard::all().for_each(|shard| all.insert(shard));
    let databases = vec![Database { name: "scratch".to_owned(), url: url.clone(), shards: all }];
    let scratch = Options { databases, lookup: url, ..options.clone() };
    schema::apply(&scratch).await?;
    Ok(scratch)
}

pub async fn drop_scratch(options: &Options, name: &str) -> Result<(), StartError> {
    connected(options).await?.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.map_err(refused)
}

/// Users in a plain table, as someone would write it by hand: prepared statements, one call at a time on each connection; what depends on
/// what is there already is read and written in one transaction.
pub struct Bare {
    connections: Vec<Mutex<Connection>>,
}

struct Connection {
    client: Client,
    lock: Statement,
    write: Statement,
    read: Statement,
}

impl Bare {
    pub async fn open(options: &Options) -> Result<Bare, StartError> {
        const TABLE: &str = "CREATE TABLE IF NOT EXISTS bare (id text PRIMARY KEY, display_name text, at bigint)";
        const WRITE: &str = "INSERT INTO bare VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET display_name = $2, at = $3";
        const LOCK: &str = "SELECT display_name, at FROM bare WHERE id = $1 FOR UPDATE";
        const READ: &str = "SELECT id, display_name, at FROM bare WHERE id = $1";
        let mut connections = Vec::new();
        for _ in 0..options.connections_max {
            let client = connected(options).await?;
            client.batch_execute(TABLE).await.map_err(refused)?;
            let lock = client.prepare(LOCK).await.map_err(refused)?;
            let write = client.prepare(WRITE).await.map_err(refused)?;
            let read = client.prepare(READ).await.map_err(refused)?;
            connections.push(Mutex::new(Connection { client, lock, write, read }));
        }
        Ok(Bare { connections })
    }

    pub async fn write(&self, number: u64) -> Result<(), StartError> {
        let mut connection = self.connection(number).await;
        let Connection { client, lock, write, .. } = &mut *connection;
        let (id, name, at) = (name(number), "Somebody", number as i64);
        let work = client.transaction().await.map_err(refused)?;
        work.query_opt(&*lock, &[&id]).await.map_err(refused)?;
        work.execute(&*write, &[&id, &name, &at]).await.map_err(refused)?;
        work.commit().await.map_err(refused)
    }

    pub async fn read(&self, number: u64) -> Result<bool, StartError> {
        let connection = self.connection(number).await;
        Ok(connection.client.query_opt(&connection.read, &[&name(number)]).await.map_err(refused)?.is_some())
    }

    async fn connection(&self, number: u64) -> MutexGuard<'_, Connection> {
        self.connections[number as usize % self.connections.len()].lock().await
    }
}

fn name(number: u64) -> String {
    format!("user-{number}")
}

async fn connected(options: &Options) -> Result<Client, StartError> {
    let config = options.configs()?.remove(0);
    let (client, connection) = config.connect(tls::connector(options.trusted.as_deref())?).await.map_err(refused)?;
    // Ends with its client.
    tokio::spawn(connection);
    Ok(client)
}

fn refused(error: tokio_postgres::Error) -> StartError {
    StartError::Unreachable { database: "that the bench has for itself".to_owned(), why: reason(&error) }
}

/// The same server, another database.
fn in_database(url: &str, name: &str) -> String {
    let begin = url.find("://").map_or(0, |scheme| scheme + 3);
    let query = url.find('?').unwrap_or(url.len());
    let path = url[begin..query].find('/').map_or(query, |path| begin + path);
    format!("{}/{name}{}", &url[..path], &url[query..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_is_another() {
        assert_eq!(in_database("postgres://a@h:1,i:2/main?sslmode=require", "x"), "postgres://a@h:1,i:2/x?sslmode=require");
        assert_eq!(in_database("postgres://a@h/main", "x"), "postgres://a@h/x");
        assert_eq!(in_database("postgres://a@h", "x"), "postgres://a@h/x");
    }
}
