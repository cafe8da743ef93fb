//! Phone numbers: each one user's at most, though users are in many databases.
//!
//! A number is kept for a user by a row in the lookup, a database of its own, and is theirs if their row in `users` says so too. Setting one
//! takes three steps, each one transaction in one database, each repeatable:
//!
//! 1. **Reserve**: the lookup keeps the number for the user, with a claim: a number that only rises.
//! 2. **Write**: the user's row gets the number and the claim, unless it knows of a later claim.
//! 3. **Tidy**: the lookup forgets what it kept for this user under earlier claims.
//!
//! Whatever breaks off after 1 leaves a number kept for someone who does not have it. Whoever else wants it, and finds that old enough, first
//! raises the claim in that user's row, so that a step 2 that is still under way somewhere can no longer happen, and then takes the number over.
//! What breaks off after 2 leaves the former number kept, which is found out and settled the same way.

use dunlin_model::{Millis, PhoneNumber, User, UserId};
use dunlin_ports::{PHONE_CLAIM_MS_MAX, StoreError};
use tokio::time::Instant;
use tokio_postgres::types::Type;
use tracing::warn;

use crate::{
    columns::{get, millis, ms, parsed},
    error::Fault,
    lookup::Lookup,
    router::Router,
    shard::Shard,
    users,
};

/// Later claims have higher numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Claim(i64);

pub struct Phones<'a> {
    pub router: &'a Router,
    pub lookup: &'a Lookup,
    pub deadline: Instant,
}

/// For whom the lookup keeps a number.
struct Kept {
    user: UserId,
    claim: Claim,
    at: Millis,
}

impl Phones<'_> {
    pub async fn set(&self, user: &UserId, phone: Option<&PhoneNumber>, at: Millis) -> Result<Option<User>, Fault> {
        // Users stay, so it still exists when its row is written.
        if users::read(self.router, user, self.deadline).await?.is_none() {
            return Ok(None);
        }
        let claim = match phone {
            Some(phone) => self.reserve(user, phone, at).await?,
            None => self.claim().await?,
        };
        let set = self.write(user, phone, claim, at).await?;
        // Twice, for a connection may break: what stays kept is refused to others for a while.
        let mut tidied = self.tidy(user, phone, claim).await;
        if tidied.is_err() {
            tidied = self.tidy(user, phone, claim).await;
        }
        if let Err(fault) = tidied {
            warn!(why = fault.why(), "a number that was given up stays kept until someone wants it");
        }
        Ok(Some(set))
    }

    pub async fn owner(&self, phone: &PhoneNumber) -> Result<Option<UserId>, Fault> {
        let Some(kept) = self.kept(phone).await? else { return Ok(None) };
        let user = users::read(self.router, &kept.user, self.deadline).await?;
        Ok(user.filter(|user| user.phone.as_ref() == Some(phone)).map(|user| user.id))
    }

    /// Step 1.
    pub async fn reserve(&self, user: &UserId, phone: &PhoneNumber, at: Millis) -> Result<Claim, Fault> {
        match self.kept(phone).await? {
            Some(kept) if kept.user != *user => self.take_over(user, phone, kept, at).await,
            _ => self.keep(user, phone, at).await,
        }
    }

    /// Step 2.
    pub async fn write(&self, user: &UserId, phone: Option<&PhoneNumber>, claim: Claim, at: Millis) -> Result<User, Fault> {
        let work = self.router.begin(Shard::of(user.as_str()), self.deadline).await?;
        let Some(before) = users::locked(&work, user).await? else { return Err(overtaken()) };
        let sql = "UPDATE users SET phone_claim = $2 WHERE id = $1 AND phone_claim < $2 RETURNING id";
        if work.query(sql, &[(&user.as_str(), Type::TEXT), (&claim.0, Type::INT8)]).await?.is_empty() {
            return Err(overtaken());
        }
        let after = before.with_phone(phone.cloned(), at);
        users::commit_changed(work, &before, &after).await?;
        Ok(after)
    }

    /// Step 3. Earlier claims of this user set nothing any more, for the row has this one.
    pub async fn tidy(&self, user: &UserId, phone: Option<&PhoneNumber>, claim: Claim) -> Result<(), Fault> {
        let sql = "DELETE FROM dunlin_lookup.phones WHERE user_id = $1 AND claim < $2 AND phone IS DISTINCT FROM $3";
        let given = [(&user.as_str() as _, Type::TEXT), (&claim.0 as _, Type::INT8), (&phone.map(PhoneNumber::as_str) as _, Type::TEXT)];
        let work = self.lookup.begin(self.deadline).await?;
        work.query(sql, &given).await?;
        work.commit().await
    }

    async fn kept(&self, phone: &PhoneNumber) -> Result<Option<Kept>, Fault> {
        let sql = "SELECT user_id, claim, claimed_at FROM dunlin_lookup.phones WHERE phone = $1";
        let rows = self.lookup.read(sql, &[(&phone.as_str(), Type::TEXT)], self.deadline).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let user = parsed("user_id", UserId::parse(get(row, "user_id")?))?;
        Ok(Some(Kept { user, claim: Claim(get(row, "claim")?), at: millis(row, "claimed_at")? }))
    }

    /// Keeps a number for a user, unless someone else was faster.
    async fn keep(&self, user: &UserId, phone: &PhoneNumber, at: Millis) -> Result<Claim, Fault> {
        // The second claim is drawn under the row's lock, so that those of one row only rise.
        let sql = "INSERT INTO dunlin_lookup.phones AS kept (phone, user_id, claim, claimed_at)
                     VALUES ($1, $2, nextval('dunlin_lookup.claims'), $3)
                   ON CONFLICT (phone) DO UPDATE SET claim = nextval('dunlin_lookup.claims'), claimed_at = $3 WHERE kept.user_id = $2
                   RETURNING claim";
        let given = [(&phone.as_str() as _, Type::TEXT), (&user.as_str() as _, Type::TEXT), (&ms(at) as _, Type::INT8)];
        let work = self.lookup.begin(self.deadline).await?;
        let rows = work.query(sql, &given).await?;
        let Some(row) = rows.first() else { return Err(taken()) };
        let claim = Claim(get(row, "claim")?);
        work.commit().await?;
        Ok(claim)
    }

    /// A number that is kept for another user is free if that user does not have it, and has had the time to get it.
    async fn take_over(&self, user: &UserId, phone: &PhoneNumber, kept: Kept, at: Millis) -> Result<Claim, Fault> {
        if at.0.saturating_sub(kept.at.0) < PHONE_CLAIM_MS_MAX || !self.fence(&kept, phone).await? {
            return Err(taken());
        }
        let sql = "UPDATE dunlin_lookup.phones SET user_id = $2, claim = nextval('dunlin_lookup.claims'), claimed_at = $3
                   WHERE phone = $1 AND claim = $4 RETURNING claim";
        let given = [
            (&phone.as_str() as _, Type::TEXT),
            (&user.as_str() as _, Type::TEXT),
            (&ms(at) as _, Type::INT8),
            (&kept.claim.0 as _, Type::INT8),
        ];
        let work = self.lookup.begin(self.deadline).await?;
        let rows = work.query(sql, &given).await?;
        let Some(row) = rows.first() else { return Err(overtaken()) };
        let claim = Claim(get(row, "claim")?);
        work.commit().await?;
        Ok(claim)
    }

    /// Makes sure that a claim sets nothing any more; false if it has.
    async fn fence(&self, kept: &Kept, phone: &PhoneNumber) -> Result<bool, Fault> {
        let work = self.router.begin(Shard::of(kept.user.as_str()), self.deadline).await?;
        let holder = users::locked(&work, &kept.user).await?;
        let has_it = holder.is_some_and(|holder| holder.phone.as_ref() == Some(phone));
        if !has_it {
            let sql = "UPDATE users SET phone_claim = greatest(phone_claim, $2) WHERE id = $1";
            work.query(sql, &[(&kept.user.as_str(), Type::TEXT), (&kept.claim.0, Type::INT8)]).await?;
        }
        work.commit().await?;
        Ok(!has_it)
    }

    async fn claim(&self) -> Result<Claim, Fault> {
        let work = self.lookup.begin(self.deadline).await?;
        let rows = work.query("SELECT nextval('dunlin_lookup.claims') AS claim", &[]).await?;
        let claim = Claim(get(rows.first().expect("a SELECT without FROM gives one row"), "claim")?);
        work.commit().await?;
        Ok(claim)
    }
}

fn taken() -> Fault {
    Fault::Final(StoreError::Conflict("the phone number is another user's".to_owned()))
}

/// All steps are to be made again.
fn overtaken() -> Fault {
    Fault::Passing("another change of the phone number was faster".to_owned())
}

#[cfg(all(test, feature = "engines"))]
mod tests {
    use dunlin_contract::ids;
    use dunlin_model::UserChange;
    use dunlin_ports::Directory as _;

    use super::*;
    use crate::{Directory, schema::far_off, support};

    const NOW: Millis = Millis(1_000_000);
    const LATER: Millis = Millis(NOW.0 + PHONE_CLAIM_MS_MAX);

    /// Ann, whose calls break off, and Bea, who wants the same.
    struct Two {
        directory: Directory,
        ann: UserId,
        bea: UserId,
    }

    impl Two {
        async fn new() -> Two {
            let directory = support::open(&support::applied().await).await;
            let (ann, bea) = (ids::user(), ids::user());
            for id in [&ann, &bea] {
                directory.upsert_user(id, UserChange::default(), Millis(1)).await.expect("upsert");
            }
            Two { directory, ann, bea }
        }

        fn steps(&self) -> Phones<'_> {
            self.directory.phones(far_off())
        }

        async fn set(&self, user: &UserId, phone: &PhoneNumber, at: Millis) -> Result<(), StoreError> {
            self.directory.set_phone(user, Some(phone), at).await.map(drop)
        }

        /// Whom the lookup finds; and that nobody else believes to have it.
        async fn owner(&self, phone: &PhoneNumber) -> Option<&UserId> {
            let mut owners = Vec::new();
            for id in [&self.ann, &self.bea] {
                if self.directory.user(id).await.expect("read the user").expect("it exists").phone.as_ref() == Some(phone) {
                    owners.push(id);
                }
            }
            assert!(owners.len() <= 1, "one number, two users");
            let found = self.directory.user_with_phone(phone).await.expect("look the number up");
            assert_eq!(found.as_ref(), owners.first().copied());
            owners.pop()
        }
    }

    fn is_conflict(result: &Result<(), StoreError>) -> bool {
        matches!(result, Err(StoreError::Conflict(_)))
    }

    #[tokio::test]
    async fn a_number_that_was_only_reserved_is_free_after_a_time_and_a_late_write_is_void() {
        let (two, phone) = (Two::new().await, ids::phone());
        let claim = two.steps().reserve(&two.ann, &phone, NOW).await.unwrap();
        assert_eq!(two.owner(&phone).await, None);
        assert!(is_conflict(&two.set(&two.bea, &phone, Millis(LATER.0 - 1)).await), "ann may still be at it");
        two.set(&two.bea, &phone, LATER).await.unwrap();
        let late = two.steps().write(&two.ann, Some(&phone), claim, LATER).await;
        assert!(matches!(late, Err(Fault::Passing(_))), "{late:?}");
        assert_eq!(two.owner(&phone).await, Some(&two.bea));
        assert!(is_conflict(&two.set(&two.ann, &phone, Millis(LATER.0 * 2)).await));
    }

    #[tokio::test]
    async fn whoever_reserved_a_number_may_try_again_at_once() {
        let (two, phone) = (Two::new().await, ids::phone());
        let first = two.steps().reserve(&two.ann, &phone, NOW).await.unwrap();
        two.set(&two.ann, &phone, NOW).await.unwrap();
        assert_eq!(two.owner(&phone).await, Some(&two.ann));
        two.directory.set_phone(&two.ann, None, NOW).await.unwrap();
        assert!(two.steps().write(&two.ann, Some(&phone), first, NOW).await.is_err(), "the first attempt comes late");
        assert_eq!(two.owner(&phone).await, None);
    }

    #[tokio::test]
    async fn what_was_written_stands_though_nothing_was_tidied() {
        let (two, first, second) = (Two::new().await, ids::phone(), ids::phone());
        two.set(&two.ann, &first, NOW).await.unwrap();
        let claim = two.steps().reserve(&two.ann, &second, LATER).await.unwrap();
        two.steps().write(&two.ann, Some(&second), claim, LATER).await.unwrap();
        assert_eq!((two.owner(&first).await, two.owner(&second).await), (None, Some(&two.ann)));
        assert!(is_conflict(&two.set(&two.bea, &second, Millis(LATER.0 * 9)).await), "it is ann's at any time");
        two.set(&two.bea, &first, LATER).await.unwrap();
        assert_eq!((two.owner(&first).await, two.owner(&second).await), (Some(&two.bea), Some(&two.ann)));
        two.steps().tidy(&two.ann, Some(&second), claim).await.unwrap();
        assert_eq!((two.owner(&first).await, two.owner(&second).await), (Some(&two.bea), Some(&two.ann)), "what is tidied late");
    }

    #[tokio::test]
    async fn a_take_over_that_broke_off_leaves_the_number_to_either() {
        for ann_is_first in [true, false] {
            let (two, phone) = (Two::new().await, ids::phone());
            two.steps().reserve(&two.ann, &phone, NOW).await.unwrap();
            let kept = two.steps().kept(&phone).await.unwrap().unwrap();
            assert!(two.steps().fence(&kept, &phone).await.unwrap());
            let winner = if ann_is_first { &two.ann } else { &two.bea };
            two.set(winner, &phone, LATER).await.unwrap();
            let stale = two.steps().take_over(&two.bea, &phone, kept, LATER).await;
            assert!(stale.is_err(), "the number has changed hands since");
            assert_eq!(two.owner(&phone).await, Some(winner));
        }
    }
}
