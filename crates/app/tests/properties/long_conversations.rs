//! What only shows in long conversations: more deletions than the head keeps, several stretches of the index, a second bucket.

use std::{collections::BTreeSet, sync::Arc};

use dunlin_app::{App, HistoryPage, HistoryQuery, PAGE_MAX};
use dunlin_contract::ModelStore;
use dunlin_model::{Body, ConversationId, Delete, Hide, Mark, Millis, N, Read, Seq, UserId, limits};

use crate::support::{
    alice, alice_and, bob,
    faults::Fault,
    machine::{Ahead, Machine},
    now,
    reading::reader,
    script::{BEGINNING, event, message},
    seq,
};

#[test]
fn more_deletions_than_the_head_keeps_are_counted_exactly() {
    const MESSAGES: usize = 700;
    let mut talk = Talk::new();
    (1..=MESSAGES).for_each(|n| talk.bob_says(n, BEGINNING));
    let (mut deleted, mut seen, mut from_rows) = (BTreeSet::new(), 0, 0);
    for turn in 0..400 {
        let n = turn * 37 % MESSAGES + 1;
        talk.tell(bob(), Body::Delete(Delete { conversation: talk.conversation, target: talk.said[n - 1].0 }));
        deleted.insert(n);
        if turn % 80 == 79 {
            seen += 50;
            let up_to = Mark { n: N(seen as u64), seq: talk.said[seen - 1].0 };
            talk.tell(alice(), Body::Read(Read { conversation: talk.conversation, up_to }));
        }
        if turn % 10 == 9 {
            talk.project();
            let unread: Vec<usize> = (seen + 1..=MESSAGES).filter(|n| !deleted.contains(n)).collect();
            let view = now(talk.app.conversation(&alice(), talk.conversation)).expect("a member's view");
            assert_eq!(view.unread, unread.len() as u64, "after {turn} deletions");
            assert_eq!(view.first_unread_at, unread.first().map(|n| talk.said[n - 1].1), "after {turn} deletions");
            assert_eq!(now(talk.app.unread(&alice(), 1)).expect("totals").totals.messages, view.unread);
            let row = talk.store.state().inbox[&(alice(), talk.conversation)].clone();
            from_rows += usize::from(row.unread(&row.tip.as_ref().expect("it has messages").value).is_none());
        }
    }
    assert!(deleted.len() > limits::DELETED_IN_HEAD_MAX && from_rows > 0, "the rows of deleted numbers were never asked");
}

#[test]
fn a_conversation_of_two_buckets_reads_the_same_by_page_by_number_and_by_time() {
    const MESSAGES: usize = 10_600;
    let mut talk = Talk::new();
    (1..=MESSAGES).for_each(|n| talk.bob_says(n, Millis(BEGINNING.0 + n as u64 / 7)));
    let hidden: BTreeSet<Seq> = (480..530).chain(9_990..10_010).step_by(3).map(|n| talk.said[n - 1].0).collect();
    hidden.iter().for_each(|target| talk.tell(alice(), Body::Hide(Hide { conversation: talk.conversation, target: *target })));
    talk.project();
    the_index_has_every_stretch(&talk, MESSAGES);
    let all: Vec<(Seq, Millis, usize)> = talk.said.iter().zip(1..).map(|((seq, at), n)| (*seq, *at, n)).collect();
    let visible: Vec<_> = all.iter().filter(|(seq, ..)| !hidden.contains(seq)).copied().collect();
    talk.walks_meet(&visible);
    let edges = [1, 2, 480, 500, 501, 502, 529, 1_000, 1_001, 5_003, 9_500, 9_999, 10_000, 10_001, 10_002, 10_501, MESSAGES];
    for (seq, at, n) in edges.map(|n| all[n - 1]) {
        let newest_first = |keep: &dyn Fn(&(Seq, Millis, usize)) -> bool| {
            visible.iter().rev().filter(|message| keep(message)).map(|(seq, ..)| *seq).collect::<Vec<_>>()
        };
        let (older, newer) = (newest_first(&|it| it.0 < seq), newest_first(&|it| it.0 > seq));
        assert_eq!(seqs(&talk.page(HistoryQuery::Before(seq), 30)), older[..older.len().min(30)], "before {n}");
        assert_eq!(seqs(&talk.page(HistoryQuery::After(seq), 30)), newer[newer.len() - newer.len().min(30)..], "after {n}");
        let around = seqs(&talk.page(HistoryQuery::Around(seq), 31));
        let middle: Vec<Seq> = newest_first(&|it| it.0 == seq);
        let from = older.len().min(31 - middle.len() - newer.len().min(15));
        let after = newer.len().min(31 - from - middle.len());
        assert_eq!(around, [&newer[newer.len() - after..], &middle, &older[..from]].concat(), "around {n}");
        for at in [at.0 - 1, at.0, at.0 + 1].map(Millis) {
            let earlier = newest_first(&|it| it.1 < at);
            assert_eq!(seqs(&talk.page(HistoryQuery::BeforeTime(at), 30)), earlier[..earlier.len().min(30)], "before the time of {n}");
        }
        for (to, limit) in [(n, 30), (n + 29, 30), (n + 700, PAGE_MAX)] {
            let mut range = newest_first(&|it| n <= it.2 && it.2 <= to);
            range.drain(..range.len().saturating_sub(limit));
            let query = HistoryQuery::Numbers { from: N(n as u64), to: N(to as u64) };
            assert_eq!(seqs(&talk.page(query, limit)), range, "from {n} to {to}");
        }
    }
}

fn the_index_has_every_stretch(talk: &Talk, messages: usize) {
    let expected: Vec<(u64, u32)> = (0..messages as u64).step_by(500).map(|n| (n + 1, u32::from(n >= 10_000))).collect();
    let state = talk.store.state();
    let rows: Vec<(u64, u32)> = state.index.values().map(|row| (row.n.0, row.bucket)).collect();
    assert_eq!(rows, expected);
    for row in state.index.values() {
        assert_eq!((row.seq, row.at), talk.said[row.n.0 as usize - 1], "an index row names its first message");
    }
}

/// Bob talks, Alice reads.
struct Talk {
    store: Arc<ModelStore>,
    app: App,
    conversation: ConversationId,
    records: Vec<dunlin_ports::Record>,
    projected: usize,
    said: Vec<(Seq, Millis)>,
}

impl Talk {
    fn new() -> Talk {
        let store = Arc::new(ModelStore::default());
        let (app, conversation) = (reader(&store), ConversationId::direct(&alice_and(bob())));
        Talk { store, app, conversation, records: Vec::new(), projected: 0, said: Vec::new() }
    }

    fn bob_says(&mut self, n: usize, at: Millis) {
        self.said.push((seq(self.records.len()), at));
        self.records.push(event(self.records.len(), at, Some(bob()), message(&alice_and(bob()), &format!("c{n}"), "hi")).1);
    }

    fn tell(&mut self, actor: UserId, body: Body) {
        let at = self.said.last().expect("messages come first").1;
        self.records.push(event(self.records.len(), at, Some(actor), body).1);
    }

    fn project(&mut self) {
        Machine::start(&self.store, &self.records[self.projected..], Fault::None, Ahead::Never).finish(&self.store, 500);
        self.projected = self.records.len();
    }

    fn page(&self, query: HistoryQuery, limit: usize) -> HistoryPage {
        now(self.app.history(&alice(), self.conversation, query, limit)).expect("a member's history")
    }

    /// Page by page, back to the beginning and forth to the end: everything once, in order.
    fn walks_meet(&self, visible: &[(Seq, Millis, usize)]) {
        let (mut back, mut query) = (Vec::new(), HistoryQuery::Newest);
        loop {
            let page = self.page(query, PAGE_MAX);
            back.extend(seqs(&page));
            let Some(older) = page.older else { break };
            query = HistoryQuery::Before(older);
        }
        let (mut forth, mut query) = (Vec::new(), HistoryQuery::After(Seq::ZERO));
        loop {
            let page = self.page(query, 150);
            forth.extend(seqs(&page).into_iter().rev());
            let Some(newer) = page.newer else { break };
            query = HistoryQuery::After(newer);
        }
        back.reverse();
        assert!(visible.iter().map(|(seq, ..)| *seq).eq(back), "backwards");
        assert!(visible.iter().map(|(seq, ..)| *seq).eq(forth), "forwards");
    }
}

fn seqs(page: &HistoryPage) -> Vec<Seq> {
    page.messages.iter().map(|view| view.message.seq).collect()
}
