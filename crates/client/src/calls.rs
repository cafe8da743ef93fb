//! One method an operation.

use std::fmt;

use dunlin_protocol::{
    Block, Change, Conversation, EditBody, MarkBody, Member, Message, Page, Receipts, SendBody, SendStatus, SendToBody, Sent, Token,
    TokenBody, TokensRevoked, Unread, User, UserBody,
};
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{Client, Error};

/// What may stand in a path or a query as it is.
const KEPT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(crate) fn segment(text: &str) -> impl fmt::Display {
    utf8_percent_encode(text, &KEPT)
}

const NOTHING: Option<&()> = None;

impl Client {
    /// Sends a text to a user.
    pub async fn send(&self, to: &str, client_id: &str, text: &str) -> Result<Sent, Error> {
        let body = SendToBody { to: to.into(), client_id: client_id.into(), text: Some(text.into()), ..SendToBody::default() };
        self.send_to_user(&body).await
    }

    pub async fn send_to_user(&self, body: &SendToBody) -> Result<Sent, Error> {
        self.call(Method::POST, "/v1/messages", Some(body)).await
    }

    pub async fn send_to_conversation(&self, conversation: &str, body: &SendBody) -> Result<Sent, Error> {
        self.call(Method::POST, &format!("/v1/conversations/{}/messages", segment(conversation)), Some(body)).await
    }

    pub async fn send_status(&self, token: &str) -> Result<SendStatus, Error> {
        self.call(Method::GET, &format!("/v1/sends/{}", segment(token)), NOTHING).await
    }

    /// Opens the conversation with a user, or finds it open. `at_least` of the answer's own token is implied.
    pub async fn open_direct(&self, user: &str) -> Result<Conversation, Error> {
        self.call(Method::PUT, &format!("/v1/direct/{}", segment(user)), NOTHING).await
    }

    pub async fn conversation(&self, conversation: &str) -> Result<Conversation, Error> {
        self.call(Method::GET, &format!("/v1/conversations/{}", segment(conversation)), NOTHING).await
    }

    pub async fn conversation_with_messages(&self, conversation: &str, messages: usize) -> Result<Conversation, Error> {
        self.call(Method::GET, &format!("/v1/conversations/{}?messages={messages}", segment(conversation)), NOTHING).await
    }

    pub async fn members(&self, conversation: &str) -> Result<Page<Member>, Error> {
        self.call(Method::GET, &format!("/v1/conversations/{}/members", segment(conversation)), NOTHING).await
    }

    pub async fn message(&self, conversation: &str, seq: u64) -> Result<Message, Error> {
        self.call(Method::GET, &message(conversation, seq), NOTHING).await
    }

    pub async fn edit(&self, conversation: &str, seq: u64, body: &EditBody) -> Result<Change, Error> {
        self.call(Method::PATCH, &message(conversation, seq), Some(body)).await
    }

    pub async fn delete_for_me(&self, conversation: &str, seq: u64) -> Result<Change, Error> {
        self.call(Method::DELETE, &format!("{}?for=me", message(conversation, seq)), NOTHING).await
    }

    pub async fn delete_for_everyone(&self, conversation: &str, seq: u64) -> Result<Change, Error> {
        self.call(Method::DELETE, &format!("{}?for=everyone", message(conversation, seq)), NOTHING).await
    }

    pub async fn react(&self, conversation: &str, seq: u64, emoji: &str) -> Result<Change, Error> {
        self.call(Method::PUT, &format!("{}/reactions/{}", message(conversation, seq), segment(emoji)), NOTHING).await
    }

    pub async fn unreact(&self, conversation: &str, seq: u64, emoji: &str) -> Result<Change, Error> {
        self.call(Method::DELETE, &format!("{}/reactions/{}", message(conversation, seq), segment(emoji)), NOTHING).await
    }

    pub async fn receipts(&self, conversation: &str, seq: u64) -> Result<Receipts, Error> {
        self.call(Method::GET, &format!("{}/receipts", message(conversation, seq)), NOTHING).await
    }

    pub async fn mark_read(&self, conversation: &str, up_to: u64) -> Result<Change, Error> {
        self.call(Method::POST, &format!("/v1/conversations/{}/read", segment(conversation)), Some(&MarkBody { up_to })).await
    }

    pub async fn mark_delivered(&self, conversation: &str, up_to: u64) -> Result<Change, Error> {
        self.call(Method::POST, &format!("/v1/conversations/{}/delivered", segment(conversation)), Some(&MarkBody { up_to })).await
    }

    pub async fn archive(&self, conversation: &str) -> Result<Change, Error> {
        self.call(Method::POST, &format!("/v1/conversations/{}/archive", segment(conversation)), NOTHING).await
    }

    pub async fn activate(&self, conversation: &str) -> Result<Change, Error> {
        self.call(Method::POST, &format!("/v1/conversations/{}/activate", segment(conversation)), NOTHING).await
    }

    pub async fn delete_conversation(&self, conversation: &str) -> Result<Change, Error> {
        self.call(Method::DELETE, &format!("/v1/conversations/{}", segment(conversation)), NOTHING).await
    }

    pub async fn unread(&self) -> Result<Unread, Error> {
        self.call(Method::GET, "/v1/unread", NOTHING).await
    }

    pub async fn blocks(&self) -> Result<Page<Block>, Error> {
        self.call(Method::GET, "/v1/blocks", NOTHING).await
    }

    pub async fn block(&self, user: &str) -> Result<Change, Error> {
        self.call(Method::PUT, &format!("/v1/blocks/{}", segment(user)), NOTHING).await
    }

    pub async fn unblock(&self, user: &str) -> Result<Change, Error> {
        self.call(Method::DELETE, &format!("/v1/blocks/{}", segment(user)), NOTHING).await
    }

    pub async fn me(&self) -> Result<User, Error> {
        self.call(Method::GET, "/v1/me", NOTHING).await
    }

    pub async fn change_me(&self, body: &UserBody) -> Result<User, Error> {
        self.call(Method::PATCH, "/v1/me", Some(body)).await
    }

    pub async fn user(&self, user: &str) -> Result<User, Error> {
        self.call(Method::GET, &format!("/v1/users/{}", segment(user)), NOTHING).await
    }

    pub async fn put_user(&self, user: &str, body: &UserBody) -> Result<User, Error> {
        self.call(Method::PUT, &format!("/v1/users/{}", segment(user)), Some(body)).await
    }

    pub async fn mint_token(&self, user: &str, body: &TokenBody) -> Result<Token, Error> {
        self.call(Method::POST, &format!("/v1/users/{}/tokens", segment(user)), Some(body)).await
    }

    pub async fn revoke_tokens(&self, user: &str) -> Result<TokensRevoked, Error> {
        self.call(Method::DELETE, &format!("/v1/users/{}/tokens", segment(user)), NOTHING).await
    }
}

fn message(conversation: &str, seq: u64) -> String {
    format!("/v1/conversations/{}/messages/{seq}", segment(conversation))
}
