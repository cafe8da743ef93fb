//! From when on users' tokens count.

use dunlin_model::{Millis, UserId};
use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::{
    columns::{millis, ms},
    error::Fault,
    pool::Loan,
    router::Router,
    shard::Shard,
};

pub async fn valid_from(router: &Router, user: &UserId, deadline: Instant) -> Result<Option<Millis>, Fault> {
    let given = [(&user.as_str() as _, Type::TEXT)];
    let rest = "token_revocations WHERE user_id = $1";
    let rows = router.read(Shard::of(user.as_str()), deadline, "issued_before", rest, &given).await?;
    rows.first().map(|row| millis(row, "issued_before")).transpose()
}

pub async fn revoke(work: &Loan, user: &UserId, issued_before: Millis) -> Result<(), Fault> {
    let sql = "INSERT INTO token_revocations (user_id, issued_before) VALUES ($1, $2)
               ON CONFLICT (user_id) DO UPDATE SET issued_before = greatest(token_revocations.issued_before, excluded.issued_before)";
    work.query(sql, &[(&user.as_str(), Type::TEXT), (&ms(issued_before), Type::INT8)]).await.map(drop)
}
