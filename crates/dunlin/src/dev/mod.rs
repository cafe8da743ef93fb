//! Developers' mode: people who have been talking to each other, so that there is something to look at.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use dunlin_app::{App, AppError, Destination, InboxQuery, SendMessage, SendToken};
use dunlin_model::{
    ClientId, Content, ConversationId, Emoji, Field, MessageType, Name, Outcome, Pair, Seq, UserChange, UserId, VisibilityChange,
};
use serde::Deserialize;

const DEMO: &str = include_str!("demo.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Demo {
    users: Vec<Person>,
    conversations: Vec<Conversation>,
    blocks: Vec<Block>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Person {
    id: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Conversation {
    between: [String; 2],
    messages: Vec<Message>,
    /// The number of the message up to which each has read.
    #[serde(default)]
    read: BTreeMap<String, usize>,
    #[serde(default)]
    archived_by: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    from: String,
    text: String,
    /// The number of an earlier one.
    reply_to: Option<usize>,
    edited: Option<String>,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    reactions: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    by: String,
    whom: String,
}

/// Who can be asked for a token from the start.
pub fn names() -> Vec<String> {
    demo().users.into_iter().map(|person| person.id).collect()
}

/// Brings the demo into a folder where its first user has no conversation yet. Says how many messages it sent.
pub async fn seed(app: &App) -> Result<usize> {
    let Demo { users, conversations, blocks } = demo();
    for person in &users {
        let change = UserChange { display_name: Field::Set(Name::parse(&person.name)?), ..UserChange::default() };
        app.upsert_user(&user(&person.id)?, change).await?;
    }
    let first = users.first().context("the demo has users")?;
    let inbox = app.inbox(&user(&first.id)?, InboxQuery { limit: 1, ..InboxQuery::default() }).await?;
    if !inbox.conversations.is_empty() {
        return Ok(0);
    }
    let mut sent = 0;
    for (number, conversation) in conversations.iter().enumerate() {
        sent += talk(app, number, conversation).await.with_context(|| format!("in the demo's conversation {}", number + 1))?;
    }
    for block in &blocks {
        app.block(&user(&block.by)?, &user(&block.whom)?, true).await?;
    }
    Ok(sent)
}

async fn talk(app: &App, number: usize, conversation: &Conversation) -> Result<usize> {
    let [one, other] = &conversation.between;
    let pair = Pair::new(user(one)?, user(other)?);
    let id = ConversationId::direct(&pair);
    let mut seqs: Vec<Seq> = Vec::new();
    let at = |seqs: &[Seq], number: usize| seqs.get(number.wrapping_sub(1)).copied().context("no such message");
    for (index, message) in conversation.messages.iter().enumerate() {
        let sender = user(&message.from)?;
        let request = SendMessage {
            to: Destination::User(pair.other(&sender).clone()),
            sender: Some(sender.clone()),
            client_id: ClientId::parse(&format!("demo-{number}-{index}"))?,
            message_type: MessageType::text(),
            content: Content::text(&message.text)?,
            reply_to: message.reply_to.map(|number| at(&seqs, number)).transpose()?,
            metadata: None,
        };
        let sent = app.send(request).await?;
        let outcome = match sent.outcome {
            None => settled(app, &sender, sent.token).await?,
            outcome => outcome,
        };
        let Some(Outcome::Accepted(accepted) | Outcome::Duplicate(accepted)) = outcome else {
            anyhow::bail!("message {} came to {outcome:?}", index + 1);
        };
        seqs.push(accepted.seq);
    }
    for (message, &seq) in conversation.messages.iter().zip(&seqs) {
        let sender = user(&message.from)?;
        if let Some(text) = &message.edited {
            app.edit(&sender, id, seq, Content::text(text)?).await?;
        }
        for (who, emoji) in &message.reactions {
            app.react(&user(who)?, id, seq, Emoji::parse(emoji)?, true).await?;
        }
        if message.deleted {
            app.delete_for_everyone(&sender, id, seq).await?;
        }
    }
    for (who, &number) in conversation.read.iter().filter(|(_, number)| **number > 0) {
        ensure!(pair.contains(&user(who)?), "{who} reads what is not theirs");
        app.mark_read(&user(who)?, id, at(&seqs, number)?).await?;
    }
    for who in &conversation.archived_by {
        app.set_visibility(&user(who)?, id, VisibilityChange::Archive).await?;
    }
    Ok(seqs.len())
}

/// What became of a send that was not settled at once: a node that has just joined has no share of the log yet.
async fn settled(app: &App, sender: &UserId, token: SendToken) -> Result<Option<Outcome>> {
    const TRIES: usize = 15;
    for _ in 0..TRIES {
        match app.at_least(token).await {
            Ok(()) => return Ok(app.send_status(Some(sender), token).await?),
            Err(AppError::NotYet) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn user(id: &str) -> Result<UserId> {
    UserId::parse(id).with_context(|| format!("{id} is no user id"))
}

fn demo() -> Demo {
    toml::from_str(DEMO).expect("the demo is right, as a test sees to")
}
