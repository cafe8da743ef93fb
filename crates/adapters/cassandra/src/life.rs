//! The lives of the log: which log the state is made from, and under which epoch.

use dunlin_model::{Epoch, Offset};
use dunlin_ports::{Life, StoreError};
use scylla::value::CqlTimestamp;

use crate::{
    Messages,
    error::{OrCorrupt as _, corrupt, of_read, of_write},
    row::{millis, of_millis},
};

impl Messages {
    /// The life that the log is in; none before its first.
    pub async fn life(&self) -> Result<Option<Life>, StoreError> {
        let text = format!("SELECT epoch, log, begins, not_before FROM {}.log_lives WHERE id = 0 LIMIT 1", self.options.keyspace);
        let rows = self.session.query_unpaged(text, ()).await.map_err(of_read)?.into_rows_result().or_corrupt()?;
        let Some((epoch, log, begins, not_before)) =
            rows.maybe_first_row::<(i32, String, Option<Vec<i64>>, CqlTimestamp)>().or_corrupt()?
        else {
            return Ok(None);
        };
        let epoch = u16::try_from(epoch).map_err(|_| corrupt(&format!("there is no epoch {epoch}")))?;
        let begins = begins.unwrap_or_default().into_iter().map(|offset| Offset(u64::try_from(offset).unwrap_or(0))).collect();
        Ok(Some(Life { epoch: Epoch(epoch), log, begins, not_before: millis(not_before) }))
    }

    /// Begins a life. Nodes that run keep to the one they know, so there must be none.
    pub async fn begin_life(&self, life: &Life) -> Result<(), StoreError> {
        let text = format!(
            "UPDATE {}.log_lives USING TIMESTAMP {} SET log = ?, begins = ?, not_before = ? WHERE id = 0 AND epoch = ?",
            self.options.keyspace, life.epoch.0
        );
        let begins: Vec<i64> = life.begins.iter().map(|offset| i64::try_from(offset.0).unwrap_or(i64::MAX)).collect();
        let values = (&life.log, begins, of_millis(life.not_before), i32::from(life.epoch.0));
        self.session.query_unpaged(text, values).await.map(drop).map_err(of_write)
    }
}
