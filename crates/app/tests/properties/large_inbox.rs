//! An inbox of more conversations than are read at a time: pages are what sorting all of it would give.

use std::{cmp::Reverse, sync::Arc};

use dunlin_app::{App, InboxQuery};
use dunlin_contract::ModelStore;
use dunlin_model::{Cell, ConversationId, Kind, Mark, Millis, N, Pair, Register, Shown, Tip, UserId};
use dunlin_ports::{Batch, MessageStore as _, Write};

use crate::support::{alice, now, reading::reader, seq};

const CONVERSATIONS: usize = 2_600;

/// What of the number moved when, and how it is shown.
fn moved(number: usize) -> (Millis, Shown) {
    let at = Millis(1_000 + (number * 7_919 % 1_300) as u64);
    let shown = match number % 10 {
        0 => Shown::Archived,
        1..=3 => Shown::Deleted,
        _ => Shown::Displayed,
    };
    (at, shown)
}

fn filled() -> (App, Vec<(Reverse<Millis>, ConversationId, Shown)>) {
    let store = Arc::new(ModelStore::default());
    let (mut writes, mut all) = (Vec::new(), Vec::new());
    for number in 0..CONVERSATIONS {
        let pair = Pair::new(alice(), UserId::parse(&format!("friend-{number}")).expect("a valid name"));
        let (user, conversation, (opened_at, shown)) = (alice(), ConversationId::direct(&pair), moved(number));
        let at = seq(number);
        let tip = Tip { born: at, opened_at, n: N::default(), last: None, kind: Kind::Direct(pair) };
        writes.push(Write::InboxTip { user: user.clone(), conversation, tip: Cell { at, value: tip }.into() });
        match shown {
            Shown::Displayed => {}
            Shown::Archived => writes.push(Write::InboxArchived { user, conversation, archived: Cell { at, value: Some(at) } }),
            Shown::Deleted => {
                let mark = Mark { n: N::default(), seq: at };
                writes.push(Write::Mark { user, conversation, register: Register::Hidden, mark });
            }
        }
        all.push((Reverse(opened_at), conversation, shown));
    }
    now(store.apply(&Batch { writes, ..Batch::default() })).expect("the model store never fails");
    all.sort_unstable_by_key(|(at, conversation, _)| (*at, *conversation));
    (reader(&store), all)
}

#[test]
fn pages_of_a_large_inbox_are_those_of_all_of_it_sorted() {
    let (app, all) = filled();
    for wanted in [None, Some(Shown::Displayed), Some(Shown::Archived)] {
        let expected = all.iter().filter(|(.., shown)| *shown != Shown::Deleted && wanted.is_none_or(|wanted| wanted == *shown));
        let expected: Vec<ConversationId> = expected.map(|(_, conversation, _)| *conversation).collect();
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = now(app.inbox(&alice(), InboxQuery { limit: 90, cursor, shown: wanted })).expect("the model store never fails");
            found.extend(page.conversations.iter().map(|view| view.conversation));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{wanted:?}");
    }
}
