//! Heads and the marks that members show to each other.

use dunlin_model::{ConversationId, Mark, N, Register};
use dunlin_ports::{Batch, MessageStore, Write};

use super::make::*;
use crate::ids;

pub async fn a_head_reads_back_and_an_older_one_never_replaces_it(store: &dyn MessageStore) {
    let pair = ids::pair();
    let conversation = ConversationId::direct(&pair);
    assert_eq!(store.head(conversation).await.unwrap(), None);
    for applied in [5, 9, 7] {
        store.apply(&Batch { heads: vec![(conversation, head(&pair, applied))], ..Batch::default() }).await.unwrap();
    }
    assert_eq!(store.head(conversation).await.unwrap(), Some(head(&pair, 9)));
}

/// Every conversation comes once, and pages of heads meet.
pub async fn all_heads_are_walked_once(store: &dyn MessageStore) {
    let pairs: Vec<_> = (0..25).map(|_| ids::pair()).collect();
    let heads = pairs.iter().map(|pair| (ConversationId::direct(pair), head(pair, 1))).collect();
    store.apply(&Batch { heads, ..Batch::default() }).await.unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.heads(after, 7).await.unwrap();
        assert!(page.len() <= 7);
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        seen.extend(page.into_iter().map(|(conversation, _)| conversation));
    }
    for pair in &pairs {
        assert_eq!(seen.iter().filter(|id| **id == ConversationId::direct(pair)).count(), 1);
    }
}

pub async fn marks_only_rise(store: &dyn MessageStore) {
    let (conversation, user) = (ids::conversation(), ids::user());
    let mark = |n| Mark { n: N(n), seq: seq(n) };
    let raise = |register, n| Write::Mark { user: user.clone(), conversation, register, mark: mark(n) };
    for n in [3, 8, 5] {
        apply(store, [Register::Seen, Register::Read, Register::Hidden].map(|register| raise(register, n))).await;
        store.mark_delivered(conversation, &user, mark(n)).await.unwrap();
    }
    let row = store.inbox_row(&user, conversation).await.unwrap().unwrap();
    assert_eq!((row.seen, row.hidden), (mark(8), mark(8)));
    let members = store.members(conversation, None, 9).await.unwrap();
    assert_eq!(members.len(), 1);
    assert_eq!((members[0].read, members[0].delivered), (mark(8), mark(8)));
}

/// Marks of one member in one batch merge like those of several.
pub async fn marks_of_one_batch_merge(store: &dyn MessageStore) {
    let (conversation, user) = (ids::conversation(), ids::user());
    let raise = |register, n| Write::Mark { user: user.clone(), conversation, register, mark: Mark { n: N(n), seq: seq(n) } };
    apply(store, [raise(Register::Seen, 8), raise(Register::Seen, 5), raise(Register::Read, 4), raise(Register::Read, 2)]).await;
    assert_eq!(store.inbox_row(&user, conversation).await.unwrap().unwrap().seen.n, N(8));
    assert_eq!(store.members(conversation, None, 9).await.unwrap()[0].read.n, N(4));
}

pub async fn pages_of_members_meet(store: &dyn MessageStore) {
    let conversation = ids::conversation();
    let mut users: Vec<_> = (0..5).map(|_| ids::user()).collect();
    for user in &users {
        store.mark_delivered(conversation, user, Mark { n: N(1), seq: seq(1) }).await.unwrap();
    }
    users.sort();
    let first = store.members(conversation, None, 3).await.unwrap();
    let second = store.members(conversation, Some(first[2].user.clone()), 3).await.unwrap();
    let seen: Vec<_> = first.into_iter().chain(second).map(|row| row.user).collect();
    assert_eq!(seen, users);
}
