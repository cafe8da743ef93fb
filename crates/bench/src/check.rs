//! Reads everything back and holds it against what was acknowledged.

use std::collections::HashMap;

use dunlin_model::{Content, ConversationId, Head, MessageRow, N, Seq};
use dunlin_ports::{MessageStore, Order, SeqRange, StoreError};
use serde::Serialize;

use crate::{Ledger, People, tag::Tag};

const HEADS: usize = 500;
const MESSAGES: usize = 1_000;

/// What was found. Everything below `messages` should be 0.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    pub acknowledged: u64,
    pub conversations: u64,
    pub messages: u64,
    /// Acknowledged, but not there.
    pub lost: u64,
    /// There more than once.
    pub twice: u64,
    /// Refused, yet there.
    pub refused_but_there: u64,
    /// Not as it was sent.
    pub altered: u64,
    /// After a later one of the same sender in its conversation.
    pub out_of_order: u64,
    /// Numbers that are not the one before plus one, seqs that do not rise, and heads that say something else than their messages.
    pub not_dense: u64,
    /// Sent by nobody here.
    pub strangers: u64,
}

impl Verdict {
    pub fn is_right(&self) -> bool {
        let Verdict { lost, twice, refused_but_there, altered, out_of_order, not_dense, strangers, .. } = self;
        [lost, twice, refused_but_there, altered, out_of_order, not_dense, strangers].into_iter().all(|count| *count == 0)
    }
}

/// Walks over all heads and the messages of each.
pub async fn check(store: &dyn MessageStore, people: &People, ledger: &Ledger, mut told: impl FnMut(u64)) -> Result<Verdict, StoreError> {
    let verdict = Verdict { acknowledged: ledger.acked(), ..Verdict::default() };
    let mut check = Check { people, ledger, seen: Seen::new(ledger), last_of_lane: HashMap::new(), verdict };
    let mut after = None;
    loop {
        let heads = store.heads(after, HEADS).await?;
        for (conversation, head) in &heads {
            check.conversation(store, *conversation, head).await?;
            told(check.verdict.messages);
        }
        match heads.last() {
            Some((last, _)) if heads.len() == HEADS => after = Some(*last),
            _ => break,
        }
    }
    check.verdict.lost = check.seen.lost(ledger);
    Ok(check.verdict)
}

struct Check<'a> {
    people: &'a People,
    ledger: &'a Ledger,
    seen: Seen,
    /// Of the conversation that is read.
    last_of_lane: HashMap<u32, u32>,
    verdict: Verdict,
}

impl Check<'_> {
    async fn conversation(&mut self, store: &dyn MessageStore, conversation: ConversationId, head: &Head) -> Result<(), StoreError> {
        self.verdict.conversations += 1;
        self.last_of_lane.clear();
        let (mut n, mut seq) = (N::ZERO, Seq::ZERO);
        loop {
            let rows = store.messages(conversation, SeqRange { after: seq, before: Seq::MAX }, Order::OldestFirst, MESSAGES).await?;
            for row in &rows {
                self.verdict.not_dense += u64::from(row.n != n.next() || row.seq <= seq);
                (n, seq) = (row.n, row.seq);
                self.message(row);
            }
            if rows.len() < MESSAGES {
                break;
            }
        }
        self.verdict.not_dense += u64::from(head.n != n || head.tip() != seq);
        Ok(())
    }

    /// A lane sends one message after the other, so within a conversation its messages stand in the order of their counts.
    fn message(&mut self, row: &MessageRow) {
        self.verdict.messages += 1;
        let sent =
            Tag::read(&row.client_id).filter(|tag| self.ledger.lanes().get(tag.lane as usize).is_some_and(|lane| tag.count < lane.tried));
        let Some(tag) = sent else {
            self.verdict.strangers += 1;
            return;
        };
        self.verdict.twice += u64::from(!self.seen.add(tag));
        self.verdict.refused_but_there += u64::from(self.ledger.lanes()[tag.lane as usize].refused.contains(&tag.count));
        self.verdict.altered += u64::from(!matches!(&row.content, Some(Content::Text(text)) if **text == *self.people.text(tag)));
        let before = self.last_of_lane.insert(tag.lane, tag.count);
        self.verdict.out_of_order += u64::from(before.is_some_and(|before| before >= tag.count));
    }
}

/// A bit for each send.
struct Seen(Vec<Vec<u64>>);

impl Seen {
    fn new(ledger: &Ledger) -> Seen {
        Seen(ledger.lanes().iter().map(|lane| vec![0; (lane.tried as usize).div_ceil(64)]).collect())
    }

    /// False if it was there already.
    fn add(&mut self, tag: Tag) -> bool {
        let (word, bit) = (&mut self.0[tag.lane as usize][tag.count as usize / 64], 1 << (tag.count % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn lost(&mut self, ledger: &Ledger) -> u64 {
        let mut missing = 0;
        for lane in ledger.lanes() {
            let there = |count: u32| self.0[lane.lane as usize][count as usize / 64] & (1 << (count % 64)) != 0;
            let excused = lane.refused.iter().chain(&lane.unknown).filter(|count| !there(**count)).count() as u64;
            let absent = (0..lane.tried).filter(|count| !there(*count)).count() as u64;
            missing += absent - excused;
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_and_is_not_there_is_lost_and_nothing_else_is() {
        let mut ledger = Ledger::default();
        let mut record = ledger.lane();
        (record.tried, record.refused, record.unknown) = (200, vec![3], vec![100, 101]);
        ledger.keep(record);
        let mut seen = Seen::new(&ledger);
        for count in (0..200).filter(|count| ![3, 7, 101, 199].contains(count)) {
            assert!(seen.add(Tag { lane: 0, count }));
        }
        assert!(!seen.add(Tag { lane: 0, count: 150 }), "a second time");
        assert_eq!((ledger.acked(), seen.lost(&ledger)), (197, 2), "7 and 199");
    }
}
