//! Where each shard is, as the databases themselves tell.

use crate::{
    error::{Fault, corrupt},
    pool::Loan,
    schema::SchemaError,
    shard::{SHARDS, Shard, ShardSet},
};

/// What becomes of a shard in one database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Active,
    /// It moves away, and can only be read.
    Frozen,
    /// A copy of what is active or frozen in another database, without the latest changes.
    Behind,
    /// A whole copy of what is frozen in another database. It counts once that one says that the shard has moved, and can only be read.
    Ready,
    /// It has moved away.
    Moved,
}

impl Phase {
    const ALL: [Phase; 5] = [Phase::Active, Phase::Frozen, Phase::Behind, Phase::Ready, Phase::Moved];

    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Active => "active",
            Phase::Frozen => "frozen",
            Phase::Behind => "behind",
            Phase::Ready => "ready",
            Phase::Moved => "moved",
        }
    }

    pub fn parse(text: &str) -> Result<Phase, Fault> {
        let found = Phase::ALL.into_iter().find(|phase| phase.as_str() == text);
        found.ok_or_else(|| corrupt("no shard can be", &text))
    }

    /// Whether what is read here is what was last written.
    pub fn can_be_read(self) -> bool {
        matches!(self, Phase::Active | Phase::Frozen | Phase::Ready)
    }
}

/// A row of `dunlin.shards`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stay {
    pub shard: Shard,
    /// Of its tables.
    pub version: usize,
    pub phase: Phase,
    /// The other database of a move.
    pub peer: Option<String>,
}

/// All that one database tells.
pub async fn stays(loan: &Loan) -> Result<Vec<Stay>, Fault> {
    let rows = loan.query("SELECT shard, version, phase, peer FROM dunlin.shards ORDER BY shard", &[]).await?;
    let mut stays = Vec::new();
    for row in rows {
        let number: i32 = row.get(0);
        let shard = u8::try_from(number).ok().and_then(Shard::numbered).ok_or_else(|| corrupt("there can't be a shard", &number))?;
        let version: i32 = row.get(1);
        let phase = Phase::parse(row.get(2))?;
        stays.push(Stay { shard, version: usize::try_from(version).unwrap_or(0), phase, peer: row.get(3) });
    }
    Ok(stays)
}

/// Which database to ask for each shard, by its place in the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map([usize; SHARDS as usize]);

impl Map {
    /// From what each database tells. Refuses what would lose or double something.
    pub fn of(told: &[(&str, &[Stay])]) -> Result<Map, SchemaError> {
        let mut map = Map([0; SHARDS as usize]);
        let mut missing = ShardSet::default();
        for shard in Shard::all() {
            let here = |phase| {
                let is_it = move |stay: &Stay| stay.shard == shard && stay.phase == phase;
                told.iter().enumerate().filter(move |(_, (_, stays))| stays.iter().any(is_it)).map(|(index, _)| index)
            };
            let mut holders = here(Phase::Active).chain(here(Phase::Frozen));
            match (holders.next(), holders.next()) {
                (Some(one), Some(other)) => {
                    return Err(SchemaError::Doubled { shard, one: told[one].0.to_owned(), other: told[other].0.to_owned() });
                }
                (Some(holder), None) => map.0[shard.index()] = holder,
                // Between the last two steps of a move.
                (None, _) => match here(Phase::Ready).next() {
                    Some(heir) => map.0[shard.index()] = heir,
                    None => missing.insert(shard),
                },
            }
        }
        if missing.is_empty() { Ok(map) } else { Err(SchemaError::Nowhere(missing)) }
    }

    pub fn place(&self, shard: Shard) -> usize {
        self.0[shard.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stay(shard: Shard, phase: Phase) -> Stay {
        Stay { shard, version: 1, phase, peer: None }
    }

    fn all(phase: Phase) -> Vec<Stay> {
        Shard::all().map(|shard| stay(shard, phase)).collect()
    }

    #[test]
    fn a_moving_shard_is_read_where_it_was_last_written() {
        use Phase::{Active, Behind, Frozen, Moved, Ready};
        let steps = [
            (vec![Active], vec![], 0),
            (vec![Active], vec![Behind], 0),
            (vec![Active], vec![Ready], 0),
            (vec![Frozen], vec![Behind], 0),
            (vec![Frozen], vec![Ready], 0),
            (vec![Moved], vec![Ready], 1),
            (vec![Moved], vec![Active], 1),
            (vec![], vec![Active], 1),
        ];
        let seven = Shard::numbered(7).unwrap();
        for (old, new, place) in steps {
            let others = all(Active).into_iter().filter(|stay| stay.shard != seven);
            let old: Vec<Stay> = others.chain(old.into_iter().map(|phase| stay(seven, phase))).collect();
            let new: Vec<Stay> = new.into_iter().map(|phase| stay(seven, phase)).collect();
            assert_eq!(Map::of(&[("a", &old), ("b", &new)]).unwrap().place(seven), place, "{new:?}");
        }
    }

    #[test]
    fn a_shard_that_is_nowhere_or_twice_is_refused() {
        let some: Vec<Stay> = all(Phase::Active).into_iter().skip(2).collect();
        let gone = [stay(Shard::numbered(1).unwrap(), Phase::Moved)];
        let why = Map::of(&[("a", &some), ("b", &gone)]).unwrap_err().to_string();
        assert!(why.contains("0-1"), "{why}");
        let why = Map::of(&[("a", &all(Phase::Active)), ("b", &some)]).unwrap_err().to_string();
        assert!(why.contains("shard 2 is in two databases, a and b"), "{why}");
    }
}
