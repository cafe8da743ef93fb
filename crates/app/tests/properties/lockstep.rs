//! The projector and the reading use cases beside the naive implementation: after every event, everyone sees what the naive one counts.

use std::{collections::BTreeSet, sync::Arc};

use dunlin_app::{App, AppError, HistoryQuery, InboxQuery, MessageView, PAGE_MAX, outcome_of};
use dunlin_contract::ModelStore;
use dunlin_model::{Block, Body, ConversationId, N, Opening, Outcome, Rejection, Seq, UserId};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use crate::support::{
    alice, alice_and, bob, carol, cases,
    faults::Fault,
    machine::{Ahead, Machine},
    naive::Naive,
    now,
    reading::reader,
    scenario::{Scenario, of_a_pair, of_several},
    script::{BEGINNING, Moment, Script, event},
};

proptest! {
    #![proptest_config(cases(80))]

    #[test]
    fn after_every_event_a_pair_sees_what_the_naive_implementation_counts(scenario in of_a_pair(5..=60)) {
        agrees_with_naive(&scenario, Fault::None)?;
    }

    #[test]
    fn after_every_event_several_conversations_show_what_the_naive_implementation_counts(scenario in of_several(5..=60)) {
        agrees_with_naive(&scenario, Fault::None)?;
    }
}

pub fn agrees_with_naive(scenario: &Scenario, fault: Fault) -> Result<(), TestCaseError> {
    let script = Script::of(scenario);
    let store = Arc::new(ModelStore::default());
    let (app, mut naive) = (reader(&store), Naive::new(&script.pairs));
    let mut machine = Machine::start(&store, &script.records, fault, Ahead::Never);
    for (step, moment) in script.moments.iter().enumerate() {
        match moment {
            Moment::Logged { event, position, outcome } => {
                prop_assert_eq!(naive.tell(position.seq, position.time, event), *outcome, "what became of step {}", step);
                machine.batch(&store, 1);
            }
            Moment::Delivered { user, conversation, up_to } => {
                // The use case takes the last message below for what is none; here only messages are marked.
                let is_message = now(app.message(user, *conversation, *up_to)).is_ok();
                if is_message && naive.deliver(user, *conversation, *up_to) {
                    prop_assert!(now(app.mark_delivered(user, *conversation, *up_to)).is_ok());
                }
            }
        }
        for user in [alice(), bob(), carol()] {
            let whose = format!("{user} after step {step}");
            everyone_agrees(&app, &naive, &user, &script, &whose)?;
        }
    }
    for moment in &script.moments {
        if let Moment::Logged { event, position, outcome } = moment
            && let Some(conversation) = event.body.conversation()
        {
            let found = now(outcome_of(&*store, conversation, position.seq)).expect("the model store never fails");
            prop_assert_eq!(found, Some(*outcome), "what became of {} is found again", position.seq);
        }
    }
    for user in [alice(), bob(), carol()] {
        for conversation in script.pairs.iter().map(ConversationId::direct).filter(|id| naive.conversation(&user, *id).is_some()) {
            pages_agree(&app, &user, conversation, &naive.history(&user, conversation))?;
        }
    }
    Ok(())
}

fn everyone_agrees(app: &App, naive: &Naive, user: &UserId, script: &Script, whose: &str) -> Result<(), TestCaseError> {
    let inbox = now(app.inbox(user, InboxQuery { limit: PAGE_MAX, ..InboxQuery::default() })).expect("an inbox");
    prop_assert_eq!(inbox.conversations, naive.inbox(user), "inbox of {}", whose);
    prop_assert_eq!(now(app.unread(user, PAGE_MAX)).expect("totals").totals, naive.unread(user), "unread of {}", whose);
    let feed = now(app.feed(user, None, PAGE_MAX)).expect("a feed");
    prop_assert_eq!(feed.rows, naive.feed(user), "feed of {}", whose);
    for conversation in script.pairs.iter().map(ConversationId::direct) {
        let view = match now(app.conversation(user, conversation)) {
            Ok(view) => Some(view),
            Err(AppError::NoConversation) => None,
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        let expected = naive.conversation(user, conversation);
        prop_assert_eq!(&view, &expected, "conversation of {}", whose);
        if expected.is_none() {
            let hidden = now(app.history(user, conversation, HistoryQuery::Newest, PAGE_MAX));
            prop_assert!(matches!(hidden, Err(AppError::NoConversation)), "history of {}", whose);
            continue;
        }
        let history = now(app.history(user, conversation, HistoryQuery::Newest, PAGE_MAX)).expect("a member's history");
        let expected = naive.history(user, conversation);
        prop_assert_eq!(sorted(history.messages), expected.clone(), "history of {}", whose);
        for view in &expected {
            let receipts = now(app.receipts(user, conversation, view.message.seq)).expect("of a visible message");
            prop_assert_eq!(receipts, naive.receipts(conversation, &view.message), "receipts of {}", whose);
        }
    }
    Ok(())
}

/// Every way to ask for a page gives a stretch of the whole history, and says rightly where there is more.
fn pages_agree(app: &App, user: &UserId, conversation: ConversationId, all: &[MessageView]) -> Result<(), TestCaseError> {
    let page = |query, limit| now(app.history(user, conversation, query, limit)).expect("a member's history");
    let seqs = |views: &[MessageView]| views.iter().map(|view| view.message.seq).collect::<Vec<_>>();
    let whole = seqs(all);
    for limit in [1, 2, 3, 7] {
        let (mut walked, mut query) = (Vec::new(), HistoryQuery::Newest);
        loop {
            let page = page(query, limit);
            walked.extend(seqs(&page.messages));
            let Some(older) = page.older else { break };
            query = HistoryQuery::Before(older);
        }
        prop_assert_eq!(&walked, &whole, "backwards, {} at a time", limit);
        let (mut walked, mut query) = (Vec::new(), HistoryQuery::After(Seq::ZERO));
        loop {
            let page = page(query, limit);
            walked.splice(0..0, seqs(&page.messages));
            let Some(newer) = page.newer else { break };
            query = HistoryQuery::After(newer);
        }
        prop_assert_eq!(&walked, &whole, "forwards, {} at a time", limit);
        for view in all {
            let (seq, n, at) = (view.message.seq, view.message.n, view.message.created_at);
            let around = page(HistoryQuery::Around(seq), limit);
            let found = seqs(&around.messages);
            prop_assert_eq!(found.len(), limit.min(whole.len()), "around {} by {} is full", seq, limit);
            prop_assert!(found.contains(&seq) && whole.windows(found.len()).any(|part| part == found), "around {}", seq);
            prop_assert_eq!(around.older.is_some(), found.last() != whole.last(), "older than around {} by {}", seq, limit);
            prop_assert_eq!(around.newer.is_some(), found.first() != whole.first(), "newer than around {} by {}", seq, limit);
            let earlier: Vec<Seq> = all.iter().filter(|view| view.message.created_at < at).map(|view| view.message.seq).collect();
            let before_time = page(HistoryQuery::BeforeTime(at), limit);
            prop_assert_eq!(seqs(&before_time.messages), first(&earlier, limit));
            for page in [&before_time, &page(HistoryQuery::Before(seq), limit), &page(HistoryQuery::After(seq), limit)] {
                let found = seqs(&page.messages);
                prop_assert_eq!(page.older.is_some(), !found.is_empty() && found.last() != whole.last(), "older than {:?}", found);
                prop_assert_eq!(page.newer.is_some(), !found.is_empty() && found.first() != whole.first(), "newer than {:?}", found);
            }
            let to = N(n.0 + 4);
            let mut range: Vec<Seq> =
                all.iter().filter(|view| n <= view.message.n && view.message.n <= to).map(|v| v.message.seq).collect();
            range.drain(..range.len().saturating_sub(limit));
            prop_assert_eq!(seqs(&page(HistoryQuery::Numbers { from: n, to }, limit).messages), range);
        }
    }
    Ok(())
}

fn first(seqs: &[Seq], limit: usize) -> Vec<Seq> {
    seqs.iter().take(limit).copied().collect()
}

#[test]
fn a_stranger_never_learns_of_a_block() {
    let (pair, store) = (alice_and(bob()), Arc::new(ModelStore::default()));
    let block = Body::Block(Block { pair: pair.clone(), on: true });
    let opens = Body::Open(Opening::Direct(pair.clone()));
    let log = [event(0, BEGINNING, Some(alice()), block).1, event(1, BEGINNING, Some(carol()), opens).1];
    Machine::start(&store, &log, Fault::None, Ahead::Never).finish(&store, 1);
    let outcome = now(outcome_of(&*store, ConversationId::direct(&pair), log[1].position.seq)).expect("the model store never fails");
    assert_eq!(outcome, Some(Outcome::Rejected(Rejection::NoConversation)));
}

#[test]
fn what_became_of_a_block_is_found_again() {
    let (pair, store) = (alice_and(bob()), Arc::new(ModelStore::default()));
    let log = [event(0, BEGINNING, Some(alice()), Body::Block(Block { pair: pair.clone(), on: true })).1];
    Machine::start(&store, &log, Fault::None, Ahead::Never).finish(&store, 1);
    let outcome = now(outcome_of(&*store, ConversationId::direct(&pair), log[0].position.seq)).expect("the model store never fails");
    assert_eq!(outcome, Some(Outcome::Done(log[0].position.seq)));
}

/// The scenarios are worth something only if everything happens in them.
#[test]
fn every_kind_of_event_meets_every_end_that_it_can() {
    let (mut ends, mut runner) = (BTreeSet::new(), TestRunner::deterministic());
    for _ in 0..300 {
        let scenario = of_several(5..=60).new_tree(&mut runner).expect("a scenario").current();
        for moment in Script::of(&scenario).moments {
            if let Moment::Logged { event, outcome, .. } = moment {
                let word = |debug: String| debug.split(|letter: char| !letter.is_alphabetic()).next().map(str::to_owned);
                let end = match outcome {
                    Outcome::Rejected(rejection) => format!("{rejection:?}"),
                    outcome => format!("{outcome:?}"),
                };
                ends.insert((word(format!("{:?}", event.body)), word(end)));
            }
        }
    }
    let mut missing = Vec::new();
    for (kind, kind_ends) in ENDS {
        missing.extend(
            kind_ends.split(' ').filter(|end| !ends.contains(&(Some((*kind).to_owned()), Some((*end).to_owned())))).map(|end| (kind, end)),
        );
    }
    assert!(missing.is_empty(), "never met: {missing:?}");
    assert_eq!(ends.len(), ENDS.iter().map(|(_, ends)| ends.split(' ').count()).sum::<usize>(), "met, but not listed: {ends:?}");
}

const ENDS: &[(&str, &str)] = &[
    ("Open", "Done Blocked NoConversation"),
    ("Message", "Accepted Duplicate ClientIdReused NoConversation Mismatch Blocked NoMessage"),
    ("Edit", "Done NoConversation NoMessage MessageDeleted NotSender Blocked"),
    ("Delete", "Done NoConversation NoMessage NotSender"),
    ("Hide", "Done NoConversation NoMessage"),
    ("React", "Done NoConversation NoMessage MessageDeleted Blocked"),
    ("Read", "Done NoConversation NoMessage BeyondHead"),
    ("Visibility", "Done NoConversation"),
    ("Block", "Done NoConversation Mismatch"),
];

/// Reactions in the order of the naive implementation: none is promised.
fn sorted(mut messages: Vec<MessageView>) -> Vec<MessageView> {
    for message in &mut messages {
        message.reactions.sort_by(|one, other| one.emoji.cmp(&other.emoji));
        message.reactions.iter_mut().for_each(|reaction| reaction.users.sort());
    }
    messages
}
