//! Whether a database server is one to build on, and how a start reaches it.

use std::{sync::Arc, time::Duration};

use crate::{
    error::{Fault, StartError},
    options::{LOOKUP, Options},
    pool::{Loan, Pool},
    schema::{far_off, told},
    tls,
};

/// Whatever it is that does not come to an end, a start does.
pub const START_MAX: Duration = Duration::from_secs(300);

const CONTACTS_MAX: usize = 5;
const CONTACT_PAUSE: Duration = Duration::from_millis(300);

/// The oldest that still gets fixes, and the tests' needs.
const MAJOR_MIN: u32 = 14;

/// Of the databases with shards, in their order, and of the lookup.
#[cfg_attr(not(feature = "tls"), expect(clippy::clone_on_copy, reason = "what connects without TLS is Copy"))]
pub fn pools(options: &Options) -> Result<(Vec<Arc<Pool>>, Arc<Pool>), StartError> {
    let connector = tls::connector(options.trusted.as_deref())?;
    let configs = options.databases.iter().zip(options.configs()?);
    let (connections_max, wait_max, call_timeout) = (options.connections_max, options.wait_max, options.call_timeout);
    let pool = |name: &str, config| Pool::new(name, config, connector.clone(), connections_max, wait_max, call_timeout);
    let lookup = pool(LOOKUP, options.lookup_config()?);
    Ok((configs.map(|(database, config)| pool(&database.name, config)).collect(), lookup))
}

/// That it answers, is new enough, keeps every text, and loses nothing with one machine.
pub async fn check(pool: &Arc<Pool>, require_synchronous: bool) -> Result<(), StartError> {
    let loan = told(pool, first_contact(pool).await)?;
    let found = told(pool, Found::ask(&loan).await)?;
    loan.give_back();
    let database = pool.name.clone();
    if found.major < MAJOR_MIN {
        return Err(StartError::Version { database, found: found.major, wanted: MAJOR_MIN });
    }
    if found.encoding != "UTF8" {
        return Err(StartError::Encoding { database, found: found.encoding });
    }
    if let Some(why) = found.not_synchronous().filter(|_| require_synchronous) {
        return Err(StartError::NotSynchronous { database, why });
    }
    Ok(())
}

/// A start has more patience than a call: a database may be starting too. What comes later finds this connection.
async fn first_contact(pool: &Arc<Pool>) -> Result<Loan, Fault> {
    for _ in 1..CONTACTS_MAX {
        match pool.get(far_off()).await {
            Err(Fault::Passing(_)) => tokio::time::sleep(CONTACT_PAUSE).await,
            // One that is there and does not let us in won't think better of it.
            settled => return settled,
        }
    }
    pool.get(far_off()).await
}

pub async fn within_start_max<T>(start: impl Future<Output = Result<T, StartError>>) -> Result<T, StartError> {
    tokio::time::timeout(START_MAX, start).await.unwrap_or(Err(StartError::Slow(START_MAX.as_secs())))
}

struct Found {
    major: u32,
    encoding: String,
    synchronous_commit: String,
    standby_names: String,
    /// How many standbys are connected, and how many of them commits wait for. None if we may not know.
    standbys: i64,
    synchronous: Option<i64>,
}

impl Found {
    async fn ask(loan: &Loan) -> Result<Found, Fault> {
        let sql = "SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding'),
                     current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
                     (SELECT count(*) FROM pg_stat_replication),
                     (SELECT count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) FROM pg_stat_replication
                        HAVING count(*) = count(sync_state))";
        let row = loan.query(sql, &[]).await?.pop().expect("a SELECT without FROM gives one row");
        Ok(Found {
            major: row.get::<_, i32>(0).unsigned_abs(),
            encoding: row.get(1),
            synchronous_commit: row.get(2),
            standby_names: row.get(3),
            standbys: row.get(4),
            synchronous: row.get(5),
        })
    }

    fn not_synchronous(&self) -> Option<String> {
        if !["on", "remote_apply"].contains(&self.synchronous_commit.as_str()) {
            return Some(format!("synchronous_commit is {}, not on or remote_apply", self.synchronous_commit));
        }
        if self.standby_names.trim().is_empty() {
            return Some("synchronous_standby_names is empty".to_owned());
        }
        match (self.synchronous, self.standbys) {
            (None, _) => Some("this user can't see pg_stat_replication (GRANT pg_monitor)".to_owned()),
            (Some(0), 0) => Some("no standby is connected".to_owned()),
            (Some(0), _) => Some("no standby that is connected is one of synchronous_standby_names".to_owned()),
            (Some(_), _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_without_a_standby_to_wait_for_is_told_why() {
        let found = |commit: &str, names: &str, standbys, synchronous| Found {
            major: 15,
            encoding: "UTF8".to_owned(),
            synchronous_commit: commit.to_owned(),
            standby_names: names.to_owned(),
            standbys,
            synchronous,
        };
        assert_eq!(found("on", "*", 1, Some(1)).not_synchronous(), None);
        assert_eq!(found("remote_apply", "ANY 1 (a, b)", 2, Some(2)).not_synchronous(), None);
        for (found, word) in [
            (found("local", "*", 1, Some(1)), "synchronous_commit is local"),
            (found("on", "", 1, Some(0)), "synchronous_standby_names is empty"),
            (found("on", "*", 0, Some(0)), "no standby is connected"),
            (found("on", "other", 1, Some(0)), "is one of synchronous_standby_names"),
            (found("on", "*", 1, None), "pg_monitor"),
        ] {
            assert!(found.not_synchronous().unwrap().contains(word), "{word}");
        }
    }
}
