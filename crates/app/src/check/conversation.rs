//! One conversation: all its messages once, oldest first, and what every other table must then hold about it.

use dunlin_model::{ConversationId, Kind, Seq};
use dunlin_ports::{Order, SeqRange, StoreError};

use super::{Conversation, PAGE, Place, Walk, dedup, deleted, feed, index, members, messages};

pub(super) async fn check(walk: &mut Walk<'_>, this: Conversation<'_>) -> Result<(), StoreError> {
    let place = Place::conversation(this.id);
    walk.report.problems(&place, wrong_identity(&this));
    let mut members = members::read(walk, this).await?;
    let mut deleted = deleted::Recount::begin(walk, this).await?;
    let mut index = index::Index::new(this);
    let mut recount = messages::Recount::default();
    let mut after = Seq::ZERO;
    loop {
        let range = SeqRange { after, before: Seq::MAX };
        let page = walk.store.messages(this.id, range, Order::OldestFirst, PAGE).await?;
        for row in &page {
            let cut = recount.add(&mut walk.report, this, row);
            index.pass(walk, row, cut).await?;
            members.iter_mut().for_each(|member| member.pass(row));
        }
        deleted.add(walk, &page).await?;
        feed::check_messages(walk, this, &page).await?;
        dedup::check_messages(walk, this, &page).await?;
        walk.tell_progress();
        if !walk.onward(&place, &mut after, page.last().map(|row| row.seq)) {
            break;
        }
    }
    index.end(walk).await?;
    let newest_deleted = deleted.end(walk);
    recount.end(&mut walk.report, this);
    members::check(walk, this, &members, &newest_deleted).await?;
    members::check_shown_marks(walk, this, &members).await
}

fn wrong_identity(this: &Conversation<'_>) -> Vec<String> {
    let Kind::Direct(pair) = &this.head.kind;
    let right = ConversationId::direct(pair);
    let mut wrong = Vec::new();
    if right != this.id {
        wrong.push(format!("head belongs to conversation {right}: that is the one of its members"));
    }
    if this.head.born > this.head.applied {
        wrong.push(format!("head was born at seq {}, beyond the last one applied, {}", this.head.born, this.head.applied));
    }
    wrong
}
