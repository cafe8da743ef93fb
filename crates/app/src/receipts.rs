//! Who has a message, and who has read it.

use dunlin_model::{ConversationId, Seq, UserId};

use crate::{App, AppError, Status, history::status};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipts {
    pub status: Status,
    /// Members other than the sender, each in one list: who has read it, who only has it.
    pub read_by: Vec<UserId>,
    pub delivered_to: Vec<UserId>,
}

impl App {
    pub async fn receipts(&self, caller: &UserId, conversation: ConversationId, seq: Seq) -> Result<Receipts, AppError> {
        let (message, members) = tokio::try_join!(self.visible_message(caller, conversation, seq), self.members(caller, conversation))?;
        let mut receipts = Receipts { status: status(&message, &members), read_by: Vec::new(), delivered_to: Vec::new() };
        for member in members.into_iter().filter(|member| Some(&member.user) != message.sender.as_ref()) {
            match () {
                () if member.read.seq >= seq => receipts.read_by.push(member.user),
                () if member.delivered.seq >= seq => receipts.delivered_to.push(member.user),
                () => {}
            }
        }
        Ok(receipts)
    }
}
