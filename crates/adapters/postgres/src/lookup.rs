//! The database that finds users by what is unique over all shards.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_postgres::Row;

use crate::{
    error::Fault,
    pool::{Given, Loan, Pool},
};

pub struct Lookup(pub Arc<Pool>);

impl Lookup {
    pub async fn begin(&self, deadline: Instant) -> Result<Loan, Fault> {
        let loan = self.0.get_to_write(deadline).await?;
        loan.run("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        Ok(loan)
    }

    pub async fn read(&self, sql: &str, given: &[Given<'_>], deadline: Instant) -> Result<Vec<Row>, Fault> {
        let loan = self.0.get(deadline).await?;
        let rows = loan.query(sql, given).await?;
        loan.give_back();
        Ok(rows)
    }
}
