//! Calls Dunlin over HTTP, with typed bodies: one method an operation.
//!
//! ```no_run
//! # async fn example() -> Result<(), dunlin_client::Error> {
//! use dunlin_client::Client;
//!
//! let alice = Client::new("http://127.0.0.1:7400".parse().expect("a URL"), "the token of alice");
//! let sent = alice.send("bob", "7b0c1e", "Is the bicycle still there?").await?;
//! let bob = alice.with_credentials("the token of bob");
//! let page = bob.history(&sent.conversation).at_least(&sent.token).get().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Writes answer once the log holds them. Whether what they changed can be read already is the `outcome`; a read that must see it takes the
//! `token` as `at_least`. A send that failed with [`Error::is_retryable`] is sent again with the same `client_id`: it is the same message.

mod calls;
mod error;
mod query;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use dunlin_protocol::Problem;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::{
    client::legacy::{Client as Pool, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::{Serialize, de::DeserializeOwned};

pub use dunlin_protocol as protocol;
pub use error::Error;
pub use query::{Feed, History, Inbox};

/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// One caller. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    pool: Pool<HttpConnector, Full<Bytes>>,
    base: Arc<str>,
    credentials: HeaderValue,
    acting_for: Option<HeaderValue>,
    timeout: Duration,
}

impl Client {
    /// For one server, with a user's token or a server key.
    ///
    /// # Panics
    /// If the credentials contain what can't stand in a header.
    pub fn new(server: Uri, credentials: &str) -> Client {
        let pool = pool();
        let base = server.to_string().trim_end_matches('/').into();
        Client { pool, base, credentials: bearer(credentials), acting_for: None, timeout: Duration::from_secs(30) }
    }

    /// Another caller at the same server.
    #[must_use]
    pub fn with_credentials(&self, credentials: &str) -> Client {
        Client { credentials: bearer(credentials), ..self.clone() }
    }

    /// The same caller, who shares no connection with this one.
    #[must_use]
    pub fn with_own_connections(&self) -> Client {
        Client { pool: pool(), ..self.clone() }
    }

    /// With a server key: in the name of a user.
    #[must_use]
    pub fn acting_for(&self, user: &str) -> Client {
        Client { acting_for: Some(HeaderValue::from_str(user).expect("a user id can stand in a header")), ..self.clone() }
    }

    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Client {
        Client { timeout, ..self }
    }

    /// Any call, for what has no method here. The path begins with `/` and is encoded already.
    pub async fn call<B: Serialize, T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<&B>) -> Result<T, Error> {
        let (_, bytes) = self.answer(self.request(method, path, body)?).await?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Answer(error.to_string()))
    }

    /// Any call of which only the status matters.
    pub async fn status<B: Serialize>(&self, method: Method, path: &str, body: Option<&B>) -> Result<u16, Error> {
        self.answer(self.request(method, path, body)?).await.map(|(status, _)| status.as_u16())
    }

    fn request<B: Serialize>(&self, method: Method, path: &str, body: Option<&B>) -> Result<Request<Full<Bytes>>, Error> {
        let uri: Uri = format!("{}{path}", self.base).parse().map_err(|error: http::uri::InvalidUri| Error::Request(error.to_string()))?;
        let mut request = Request::builder().method(method).uri(uri).header(header::AUTHORIZATION, self.credentials.clone());
        if let Some(user) = &self.acting_for {
            request = request.header(DUNLIN_USER, user.clone());
        }
        let bytes = match body {
            None => Bytes::new(),
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                serde_json::to_vec(body).map_err(|error| Error::Request(error.to_string()))?.into()
            }
        };
        request.body(Full::new(bytes)).map_err(|error| Error::Request(error.to_string()))
    }

    /// What came back, if it is no problem.
    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), Error> {
        let exchange = async {
            let answer = self.pool.request(request).await.map_err(|error| Error::transport(&error))?;
            let (parts, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| Error::Transport(error.to_string()))?;
            Ok((parts.status, body.to_bytes()))
        };
        let (status, bytes) = tokio::time::timeout(self.timeout, exchange).await.map_err(|_| Error::Timeout(self.timeout))??;
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok((status, bytes));
        }
        match serde_json::from_slice::<Problem>(&bytes) {
            Ok(problem) => Err(Error::Problem(Box::new(problem))),
            Err(_) => Err(Error::Answer(format!("status {status} without a problem"))),
        }
    }
}

const DUNLIN_USER: HeaderName = HeaderName::from_static("dunlin-user");

fn pool() -> Pool<HttpConnector, Full<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Pool::builder(TokioExecutor::new()).build(connector)
}

fn bearer(credentials: &str) -> HeaderValue {
    let mut value = HeaderValue::try_from(format!("Bearer {credentials}")).expect("credentials can stand in a header");
    value.set_sensitive(true);
    value
}
