//! Two projectors over one store, in an order that is drawn: either may stop, start over, or go on long after the other has passed it.

use dunlin_contract::{ModelStore, State};
use proptest::{collection::vec, option, prelude::*};

use super::{
    faults::Fault,
    machine::{Ahead, Machine},
    script::Script,
};

#[derive(Clone, Debug)]
pub struct Schedule {
    moves: Vec<Move>,
    /// Who goes through to the end; whoever does not stays where the moves left it.
    finishes: Finishes,
}

#[derive(Clone, Debug)]
enum Move {
    Go { who: usize, steps: usize, records_max: usize },
    Restart { who: usize, from: From },
}

#[derive(Clone, Copy, Debug)]
enum Finishes {
    One(usize),
    Both,
}

/// Where a new start begins: at the checkpoint, or so many 256ths of the way to it.
type From = Option<u8>;

pub fn schedule() -> impl Strategy<Value = Schedule> {
    let moves = prop_oneof![
        4 => (0..2_usize, 1..40_usize, 1..10_usize).prop_map(|(who, steps, records_max)| Move::Go { who, steps, records_max }),
        1 => (0..2_usize, option::of(any::<u8>())).prop_map(|(who, from)| Move::Restart { who, from }),
    ];
    let finishes = prop_oneof![(0..2_usize).prop_map(Finishes::One), Just(Finishes::Both)];
    (vec(moves, 0..24), finishes).prop_map(|(moves, finishes)| Schedule { moves, finishes })
}

impl Schedule {
    /// What the store holds in the end.
    pub fn run(&self, script: &Script, fault: Fault, ahead: Ahead) -> State {
        const RECORDS_MAX: usize = 5;
        let store = ModelStore::default();
        let mut machines = [0, 1].map(|_| Machine::start(&store, &script.records, fault, ahead));
        for turn in &self.moves {
            match turn {
                Move::Go { who, steps, records_max } => {
                    for _ in 0..*steps {
                        machines[*who].step(&store, *records_max);
                        look(&store);
                    }
                }
                Move::Restart { who, from } => {
                    let latest = machines[*who].resume_at(&store);
                    let from = from.map_or(latest, |part| latest * usize::from(part) / 256);
                    machines[*who].restart(&store, from);
                }
            }
        }
        match self.finishes {
            Finishes::One(who) => machines[who].finish(&store, RECORDS_MAX),
            Finishes::Both => machines.iter_mut().for_each(|machine| machine.finish(&store, RECORDS_MAX)),
        }
        store.state().clone()
    }
}

/// Somebody may read at any moment: what is half written must not upset the count of unread messages.
fn look(store: &ModelStore) {
    for row in store.state().inbox.values() {
        row.tip.as_ref().map(|tip| row.unread(&tip.value));
    }
}
