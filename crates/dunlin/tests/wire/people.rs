//! People who talk: each call waits until what it did can be seen.

use std::time::{Duration, Instant};

use dunlin_client::{
    Client, Error,
    protocol::{Change, Conversation, Message, Outcome, SendStatus, Sent, TokenBody},
};

use crate::server::Server;

pub struct Person {
    pub id: String,
    pub client: Client,
}

impl Server {
    pub async fn person(&self, id: &str) -> Person {
        let token = self.host().mint_token(id, &TokenBody::default()).await.unwrap().token;
        Person { id: id.to_owned(), client: self.client(&token) }
    }

    pub async fn two(&self) -> (Person, Person) {
        (self.someone("ann").await, self.someone("bea").await)
    }

    /// With that name and a number, for a server that is shared.
    pub async fn someone(&self, name: &str) -> Person {
        self.person(&unique(name)).await
    }
}

impl Person {
    pub async fn sends(&self, to: &Person, text: &str) -> Sent {
        let client_id = format!("{text}-{}", getrandom::u64().unwrap());
        self.settled(self.client.send(&to.id, &client_id, text).await.unwrap()).await
    }

    pub async fn sends_many(&self, to: &Person, count: usize) -> Vec<Sent> {
        let mut all = Vec::new();
        for number in 1..=count {
            all.push(self.sends(to, &format!("message {number}")).await);
        }
        all
    }

    /// A 202 becomes what a 201 would have been.
    pub async fn settled(&self, sent: Sent) -> Sent {
        if sent.outcome != Outcome::Pending {
            return sent;
        }
        let status = self.status(&sent.token).await;
        Sent { outcome: status.outcome, seq: status.seq, n: status.n, created_at: status.created_at, ..sent }
    }

    /// What became of it, once that is known.
    async fn status(&self, token: &str) -> SendStatus {
        let hung = Instant::now() + Duration::from_secs(120);
        loop {
            let status = self.client.send_status(token).await.unwrap();
            if status.outcome != Outcome::Pending {
                return status;
            }
            assert!(Instant::now() < hung, "nobody ever told what became of {token}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn done(&self, change: Result<Change, Error>) -> Change {
        let change = change.unwrap();
        let outcome = match change.outcome {
            Outcome::Pending => self.status(&change.token).await.outcome,
            outcome => outcome,
        };
        assert_eq!(outcome, Outcome::Done);
        change
    }

    pub async fn inbox(&self) -> Vec<Conversation> {
        self.client.inbox().get().await.unwrap().data
    }

    pub async fn unread(&self) -> u64 {
        self.client.unread().await.unwrap().messages
    }

    /// The newest page.
    pub async fn sees(&self, conversation: &str) -> Vec<Message> {
        self.client.history(conversation).get().await.unwrap().data
    }

    pub async fn texts(&self, conversation: &str) -> Vec<Option<String>> {
        self.sees(conversation).await.into_iter().map(|message| message.text).collect()
    }
}

pub fn unique(name: &str) -> String {
    format!("{name}{:016x}", getrandom::u64().unwrap())
}

pub fn code(result: Result<impl std::fmt::Debug, Error>) -> String {
    match result {
        Err(Error::Problem(problem)) => problem.code,
        other => panic!("a problem, not {other:?}"),
    }
}
