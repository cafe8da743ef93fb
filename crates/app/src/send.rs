//! Sends a message. Checked here for a quick answer; the projector decides.

use dunlin_model::{
    Accepted, Body, ClientId, Content, ContentHash, ConversationId, DedupKey, DedupRow, Message, MessageType, Metadata, Opening, Outcome,
    Pair, Rejection, Seq, UserId,
};
use dunlin_ports::{StoreError, Wanted};
use tracing::debug;

use crate::{App, AppError, SendToken, Sent, Submitted};

#[derive(Clone, Debug)]
pub struct SendMessage {
    /// None for the system.
    pub sender: Option<UserId>,
    pub to: Destination,
    pub client_id: ClientId,
    pub message_type: MessageType,
    pub content: Content,
    pub reply_to: Option<Seq>,
    pub metadata: Option<Metadata>,
}

#[derive(Clone, Debug)]
pub enum Destination {
    /// Opens the conversation if there is none.
    User(UserId),
    Conversation(ConversationId),
}

impl App {
    /// Durable on return; what became of it, if that was known soon enough.
    pub async fn send(&self, request: SendMessage) -> Result<Sent, AppError> {
        let sender = request.sender.clone();
        let message = self.compose(request).await?;
        let key = DedupKey { conversation: message.conversation, sender: sender.clone(), client_id: message.client_id.clone() };
        let hash = message.content_hash();
        if let Some(first) = self.first_try(&key).await {
            return repeated(&key, first, hash);
        }
        if let Err(error) = self.check_reply(sender.as_ref(), &message).await {
            // Whoever tries again may meanwhile have deleted what they replied to.
            let first = self.sent_before(&key).await?.ok_or(error)?;
            return repeated(&key, first, hash);
        }
        let submitted = self.submit(sender, key.conversation, Body::Message(message)).await?;
        let sent = self.outcome(submitted).await;
        if let Some(Outcome::Accepted(Accepted { seq, n, created_at })) = sent.outcome {
            let row = DedupRow { seq, n, created_at, hash };
            if let Err(error) = self.ephemeral.remember_send(&key, row, self.dedup_window_ms).await {
                debug!(%error, "an accepted send was not remembered; a retry will ask the projector");
            }
        }
        Ok(sent)
    }

    /// Durable on return; the outcome can be waited for.
    pub async fn send_soon(&self, request: SendMessage) -> Result<Submitted, AppError> {
        let sender = request.sender.clone();
        let message = self.compose(request).await?;
        self.check_reply(sender.as_ref(), &message).await?;
        self.submit(sender, message.conversation, Body::Message(message)).await
    }

    async fn compose(&self, request: SendMessage) -> Result<Message, AppError> {
        self.check_type(&request)?;
        let SendMessage { sender, to, client_id, message_type, content, reply_to, metadata } = request;
        let (conversation, opening) = match to {
            Destination::User(to) => self.address(sender.as_ref(), to).await?,
            Destination::Conversation(conversation) => (self.existing(sender.as_ref(), conversation).await?, None),
        };
        Ok(Message { conversation, opening, client_id, message_type, content, reply_to, metadata })
    }

    /// Nobody replies to what they can't see.
    async fn check_reply(&self, sender: Option<&UserId>, message: &Message) -> Result<(), AppError> {
        match (sender, message.reply_to) {
            (Some(sender), Some(target)) if !self.robots.contains(sender) => {
                self.visible_message(sender, message.conversation, target).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// What was accepted under a client id that still counts.
    async fn sent_before(&self, key: &DedupKey) -> Result<Option<DedupRow>, AppError> {
        let wanted = Wanted { dedup: vec![(key.clone(), Seq::MAX)], ..Wanted::default() };
        let first = self.store.known(&wanted).await?.dedup.pop().flatten();
        let counts_from = self.clock.now().minus(self.dedup_window_ms);
        Ok(first.filter(|row| row.created_at >= counts_from))
    }

    /// The quick way to recognise a retry. Forgetting is harmless: the projector decides.
    async fn first_try(&self, key: &DedupKey) -> Option<DedupRow> {
        self.ephemeral.recall_send(key).await.ok().flatten()
    }

    /// A system message has no sender, and only a system message has none; a robot is a user that the configuration names.
    fn check_type(&self, request: &SendMessage) -> Result<(), AppError> {
        let robot = request.sender.as_ref().is_some_and(|sender| self.robots.contains(sender));
        match (request.message_type.as_str(), request.sender.is_some()) {
            (MessageType::SYSTEM, true) => Err(AppError::ReservedType(MessageType::SYSTEM)),
            (MessageType::ROBOT, _) if !robot => Err(AppError::ReservedType(MessageType::ROBOT)),
            (kind, false) if kind != MessageType::SYSTEM => Err(AppError::ReservedType(MessageType::SYSTEM)),
            _ => Ok(()),
        }
    }

    /// The direct conversation with a user, and how to open it. Users are looked up only when there is none yet.
    async fn address(&self, sender: Option<&UserId>, to: UserId) -> Result<(ConversationId, Option<Opening>), AppError> {
        let sender = sender.ok_or(AppError::NoConversation)?;
        let pair = Pair::new(sender.clone(), to.clone());
        let conversation = ConversationId::direct(&pair);
        if !self.known.is_member(conversation, sender) {
            match self.store.head(conversation).await {
                Ok(Some(head)) => self.known.learn(conversation, &head),
                // While the store is away, messages wait in the log, also those that open a conversation.
                Ok(None) | Err(StoreError::Unavailable(_)) => self.must_exist(&[sender.clone(), to]).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok((conversation, Some(Opening::Direct(pair))))
    }

    async fn existing(&self, sender: Option<&UserId>, conversation: ConversationId) -> Result<ConversationId, AppError> {
        if sender.is_some_and(|sender| self.known.is_member(conversation, sender)) {
            return Ok(conversation);
        }
        let head = self.store.head(conversation).await?.ok_or(AppError::NoConversation)?;
        self.known.learn(conversation, &head);
        let may = sender.is_none_or(|sender| head.is_member(sender) || self.robots.contains(sender));
        if may { Ok(conversation) } else { Err(AppError::NoConversation) }
    }

    pub(crate) async fn must_exist(&self, users: &[UserId]) -> Result<(), AppError> {
        let exist = self.directory.exist(users).await?;
        match users.iter().zip(exist).find(|(_, exists)| !exists) {
            Some((user, _)) => Err(AppError::NoUser(user.clone())),
            None => Ok(()),
        }
    }
}

fn repeated(key: &DedupKey, first: DedupRow, hash: ContentHash) -> Result<Sent, AppError> {
    if first.hash != hash {
        return Err(Rejection::ClientIdReused.into());
    }
    let accepted = Accepted { seq: first.seq, n: first.n, created_at: first.created_at };
    let token = SendToken { conversation: key.conversation, seq: first.seq };
    Ok(Sent { token, outcome: Some(Outcome::Duplicate(accepted)) })
}
