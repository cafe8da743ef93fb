//! Reads that can be asked for in several ways.

use dunlin_protocol::{Conversation, Feed as FeedPage, Message, Page, Time, Visibility};
use http::Method;

use crate::{Client, Error, calls::segment};

/// Names and values of a query.
#[derive(Clone, Default)]
struct Parameters(Vec<(&'static str, String)>);

impl Parameters {
    fn with(mut self, name: &'static str, value: impl ToString) -> Parameters {
        self.0.push((name, value.to_string()));
        self
    }

    fn after(&self, path: &str) -> String {
        let mut all = path.to_owned();
        for (index, (name, value)) in self.0.iter().enumerate() {
            let mark = if index == 0 { '?' } else { '&' };
            all.push_str(&format!("{mark}{name}={}", segment(value)));
        }
        all
    }
}

macro_rules! parameters {
    ($query:ident: $($(#[$doc:meta])* $name:ident($value:ty));* $(;)?) => {
        impl $query<'_> {
            $($(#[$doc])* #[must_use]
            pub fn $name(mut self, value: $value) -> Self {
                self.parameters = self.parameters.with(stringify!($name), value);
                self
            })*
        }
    };
}

/// A conversation's messages; the newest page unless told otherwise.
pub struct History<'c> {
    client: &'c Client,
    path: String,
    parameters: Parameters,
}

parameters! { History:
    limit(usize);
    cursor(&str);
    before(u64);
    after(u64);
    around(u64);
    before_time(Time);
    from_n(u64);
    to_n(u64);
    /// Waits until what a token names can be seen.
    at_least(&str);
}

impl History<'_> {
    pub async fn get(self) -> Result<Page<Message>, Error> {
        self.client.call(Method::GET, &self.parameters.after(&self.path), None::<&()>).await
    }
}

/// The caller's conversations, most recent first.
pub struct Inbox<'c> {
    client: &'c Client,
    parameters: Parameters,
}

parameters! { Inbox:
    limit(usize);
    cursor(&str);
    /// Waits until what a token names can be seen.
    at_least(&str);
}

impl Inbox<'_> {
    #[must_use]
    pub fn visibility(mut self, visibility: Visibility) -> Self {
        let value = match visibility {
            Visibility::Displayed => "displayed",
            Visibility::Archived => "archived",
            Visibility::Deleted => "deleted",
        };
        self.parameters = self.parameters.with("visibility", value);
        self
    }

    pub async fn get(self) -> Result<Page<Conversation>, Error> {
        self.client.call(Method::GET, &self.parameters.after("/v1/conversations"), None::<&()>).await
    }
}

/// What happened to the caller.
pub struct Feed<'c> {
    client: &'c Client,
    parameters: Parameters,
}

parameters! { Feed:
    limit(usize);
    cursor(&str);
    /// `now` begins at the end: nothing that has happened, everything that will.
    from(&str);
    /// Waits until what a token names can be seen.
    at_least(&str);
}

impl Feed<'_> {
    pub async fn get(self) -> Result<FeedPage, Error> {
        self.client.call(Method::GET, &self.parameters.after("/v1/feed"), None::<&()>).await
    }
}

impl Client {
    pub fn history(&self, conversation: &str) -> History<'_> {
        let path = format!("/v1/conversations/{}/messages", segment(conversation));
        History { client: self, path, parameters: Parameters::default() }
    }

    pub fn inbox(&self) -> Inbox<'_> {
        Inbox { client: self, parameters: Parameters::default() }
    }

    pub fn feed(&self) -> Feed<'_> {
        Feed { client: self, parameters: Parameters::default() }
    }
}
