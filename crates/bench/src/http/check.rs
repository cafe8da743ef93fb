//! Reads everything back over HTTP, as its members see it, and holds it against what was acknowledged. Unread is counted anew.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use dunlin_client::protocol::Message;
use dunlin_model::{ClientId, UserId};
use serde::Serialize;

use super::Site;
use crate::{Ledger, table::count, tag::Tag};

const PAGE: usize = 200;

/// What was found. Everything below `messages` should be 0.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    pub acknowledged: u64,
    pub conversations: u64,
    pub messages: u64,
    pub lost: u64,
    pub twice: u64,
    pub refused_but_there: u64,
    pub altered: u64,
    /// After a later one of the same connection in its conversation.
    pub out_of_order: u64,
    /// Numbers that are not the one before plus one.
    pub not_dense: u64,
    pub strangers: u64,
    /// Inboxes that say another number than counting gives.
    pub unread_wrong: u64,
}

impl Verdict {
    pub fn is_right(&self) -> bool {
        let Verdict { lost, twice, refused_but_there, altered, out_of_order, not_dense, strangers, unread_wrong, .. } = self;
        [lost, twice, refused_but_there, altered, out_of_order, not_dense, strangers, unread_wrong].into_iter().all(|count| *count == 0)
    }

    pub(crate) fn sentence(&self) -> String {
        if !self.is_right() {
            return format!("WRONG: {self:?}");
        }
        format!(
            "checked over HTTP: all {} acknowledged sends are there exactly once, as they were sent, in order, numbered without gaps, and every \
             unread count is what counting gives ({} messages in {} conversations)",
            count(self.acknowledged),
            count(self.messages),
            count(self.conversations)
        )
    }
}

pub async fn check(site: &Site, ledger: &Ledger, mut told: impl FnMut(u64)) -> Result<Verdict> {
    let mut verdict = Verdict { acknowledged: ledger.acked(), ..Verdict::default() };
    let unread = inboxes(site).await?;
    let mut seen: HashMap<(u32, u32), u32> = HashMap::new();
    for (conversation, members) in &unread {
        verdict.conversations += 1;
        let messages = history(site, &members[0].0, conversation).await?;
        let mut last_of_lane: HashMap<u32, u32> = HashMap::new();
        for (place, message) in messages.iter().enumerate() {
            verdict.messages += 1;
            verdict.not_dense += u64::from(message.n != place as u64 + 1);
            let tag = ClientId::parse(&message.client_id).ok().and_then(|id| Tag::read(&id));
            let Some(tag) = tag.filter(|tag| ledger.lanes().get(tag.lane as usize).is_some_and(|lane| tag.count < lane.tried)) else {
                verdict.strangers += 1;
                continue;
            };
            let times = seen.entry((tag.lane, tag.count)).or_default();
            *times += 1;
            verdict.twice += u64::from(*times > 1);
            verdict.refused_but_there += u64::from(ledger.lanes()[tag.lane as usize].refused.contains(&tag.count));
            verdict.altered += u64::from(message.text.as_deref() != Some(site.people.text(tag)));
            let before = last_of_lane.insert(tag.lane, tag.count);
            verdict.out_of_order += u64::from(before.is_some_and(|before| before >= tag.count));
        }
        for (member, shown) in members {
            // Nobody sets read marks here, so what is unread is what came after one's own last message.
            let counted = messages.iter().rev().take_while(|message| message.sender.as_deref() != Some(member.as_str())).count() as u64;
            verdict.unread_wrong += u64::from(counted != *shown);
        }
        told(verdict.messages);
    }
    for lane in ledger.lanes() {
        let absent = (0..lane.tried).filter(|count| !seen.contains_key(&(lane.lane, *count)));
        verdict.lost += absent.filter(|count| !lane.refused.contains(count) && !lane.unknown.contains(count)).count() as u64;
    }
    Ok(verdict)
}

/// Every conversation with its members and how much each has not seen.
async fn inboxes(site: &Site) -> Result<HashMap<String, Vec<(UserId, u64)>>> {
    let mut all: HashMap<String, Vec<(UserId, u64)>> = HashMap::new();
    for user in site.people.everyone() {
        let client = site.host.with_credentials(site.token(user));
        let mut cursor = None::<String>;
        loop {
            let query = client.inbox().limit(PAGE);
            let query = match &cursor {
                Some(cursor) => query.cursor(cursor),
                None => query,
            };
            let page = query.get().await.context("failed to read an inbox")?;
            for conversation in page.data {
                all.entry(conversation.id).or_default().push((user.clone(), conversation.unread));
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
    }
    Ok(all)
}

/// Oldest first.
async fn history(site: &Site, member: &UserId, conversation: &str) -> Result<Vec<Message>> {
    let client = site.host.with_credentials(site.token(member));
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let query = client.history(conversation).limit(PAGE);
        let query = match &cursor {
            Some(cursor) => query.cursor(cursor),
            None => query,
        };
        let page = query.get().await.context("failed to read a history")?;
        all.extend(page.data);
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    all.reverse();
    Ok(all)
}
