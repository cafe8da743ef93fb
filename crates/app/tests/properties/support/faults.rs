//! Deliberate faults: each breaks one rule that keeps the derived state true. A property that finds none of them proves nothing.

use std::collections::{BTreeMap, VecDeque};

use dunlin_contract::State;
use dunlin_model::{Cell, ConversationId, Head, Partition, Register, Seq, limits};
use dunlin_ports::{Batch, Checkpoint, Write};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    None,
    /// Inputs: the head is written before what it stands for.
    HeadFirst,
    /// Inputs: what is known of client ids is not as of the event, but the latest.
    LatestDedup,
    /// Inputs: the same for blocks.
    LatestBlocks,
    /// Inputs: the same for the message that an event refers to.
    LatestTarget,
    /// Inputs: whoever takes a partition over goes on with the heads of their last time.
    KeepsLane,
    /// Feed order: the checkpoint is written before its events are.
    CheckpointFirst,
    /// Feed order: the horizon is where the fastest partition stands.
    HorizonIsHighest,
    /// Feed order: the horizon's own millisecond counts as complete.
    HorizonIsInclusive,
    /// Dedup: an event takes its own row for an earlier message.
    OwnSeqIsDuplicate,
    /// Marks: the last one to arrive stands, not the furthest.
    LastMarkWins,
    /// Buckets: chosen by when the projector runs, not from the head.
    BucketFromClock,
    /// Buckets: no index row where one begins.
    NoIndexAtCut,
}

/// One thing that a projector makes the store do.
#[derive(Clone, Debug)]
pub enum Made {
    Write(Box<Write>),
    Head(ConversationId, Box<Head>),
    Checkpoint(Partition, Checkpoint),
}

impl Fault {
    /// What a batch makes the store do, in order. `start` counts the projector's own starts: the only clock there is.
    pub fn order(self, batch: Batch, start: u32) -> VecDeque<Made> {
        let writes = batch.writes.into_iter().filter_map(|write| self.bend(write, start)).map(|write| Made::Write(Box::new(write)));
        let heads = batch.heads.into_iter().map(|(conversation, head)| Made::Head(conversation, Box::new(head)));
        let checkpoint = batch.checkpoint.into_iter().map(|(partition, checkpoint)| Made::Checkpoint(partition, checkpoint));
        match self {
            Fault::HeadFirst => heads.chain(writes).chain(checkpoint).collect(),
            Fault::CheckpointFirst => checkpoint.chain(writes).chain(heads).collect(),
            _ => writes.chain(heads).chain(checkpoint).collect(),
        }
    }

    fn bend(self, write: Write, start: u32) -> Option<Write> {
        match (self, write) {
            (Fault::BucketFromClock, Write::Message { conversation, mut row }) => {
                std::sync::Arc::make_mut(&mut row).bucket = start;
                Some(Write::Message { conversation, row })
            }
            (Fault::NoIndexAtCut, Write::Index { row, .. }) if !(row.n.0 - 1).is_multiple_of(limits::INDEX_EVERY) => None,
            (_, write) => Some(write),
        }
    }

    pub fn make(self, state: &mut State, made: Made) {
        match made {
            Made::Write(write) => {
                state.write((*write).clone());
                if self == Fault::LastMarkWins {
                    overwrite_mark(state, *write);
                }
            }
            Made::Head(conversation, head) => state.write_head(conversation, *head),
            Made::Checkpoint(partition, mut checkpoint) => {
                checkpoint.log_time.0 += u64::from(self == Fault::HorizonIsInclusive);
                state.write_checkpoint(partition, checkpoint);
                if self == Fault::HorizonIsHighest {
                    let highest = state.checkpoints.values().map(|checkpoint| checkpoint.log_time).max().unwrap_or_default();
                    state.checkpoints.values_mut().for_each(|checkpoint| checkpoint.log_time = highest);
                }
            }
        }
    }

    /// What the projector is told in place of the store's own answers.
    pub fn misleads(self, state: &State) -> Option<State> {
        let mut told = state.clone();
        match self {
            Fault::LatestDedup => {
                let latest: BTreeMap<_, _> = state.dedup.iter().map(|((key, _), row)| ((key.clone(), Seq::ZERO), *row)).collect();
                told.dedup = latest;
            }
            Fault::OwnSeqIsDuplicate => {
                told.dedup = state.dedup.iter().map(|((key, seq), row)| ((key.clone(), seq.previous()), *row)).collect();
            }
            Fault::LatestBlocks => {
                told.blocks = state.blocks.iter().map(|((key, who, _), row)| ((*key, who.clone(), Seq::ZERO), row.clone())).collect();
            }
            Fault::LatestTarget => {
                told.messages.clear();
                for ((conversation, target), mut row) in state.messages.iter().filter_map(|(key, stored)| Some((*key, stored.row()?))) {
                    let (bucket, revision) = (row.bucket, row.revision.take());
                    told.write(Write::Message { conversation, row: row.into() });
                    if let Some(Cell { value, .. }) = revision {
                        told.write(Write::Revision { conversation, target, bucket, revision: Cell { at: Seq::ZERO, value } });
                    }
                }
            }
            _ => return None,
        }
        Some(told)
    }
}

fn overwrite_mark(state: &mut State, write: Write) {
    let Write::Mark { user, conversation, register, mark } = write else { return };
    let inbox = state.inbox.get_mut(&(user.clone(), conversation));
    match register {
        Register::Seen => inbox.into_iter().for_each(|row| row.seen = mark),
        Register::Hidden => inbox.into_iter().for_each(|row| row.hidden = mark),
        Register::Read => state.members.get_mut(&(conversation, user)).into_iter().for_each(|row| row.read = mark),
        Register::Delivered => state.members.get_mut(&(conversation, user)).into_iter().for_each(|row| row.delivered = mark),
    }
}
