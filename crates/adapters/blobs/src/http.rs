//! How requests travel: hyper, with TLS by rustls, and limits on every wait. What `object_store` does not say for itself is added here.

use std::{
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, header::IF_NONE_MATCH};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect},
    rt::{TokioExecutor, TokioTimer},
};
use object_store::{
    ClientOptions, Extensions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
    },
};
use tokio::time::{Sleep, sleep, timeout};

use crate::options::Options;

/// Connections that nobody uses are kept for so long, and so many of them.
const IDLE_MAX: Duration = Duration::from_secs(20);
const IDLE_CONNECTIONS_MAX: usize = 32;

/// Makes the requests of one store.
#[derive(Clone)]
pub struct Http {
    client: legacy::Client<HttpsConnector<connect::HttpConnector>, HttpRequestBody>,
    answer_timeout: Duration,
    silence_max: Duration,
}

impl Http {
    /// The error says what is wrong with this system's certificates.
    pub fn new(options: &Options) -> io::Result<Http> {
        let mut tcp = connect::HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(options.connect_timeout));
        let connector = HttpsConnectorBuilder::new().with_native_roots()?.https_or_http().enable_http1().wrap_connector(tcp);
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(connector);
        Ok(Http { client, answer_timeout: options.answer_timeout, silence_max: options.silence_max })
    }
}

#[async_trait]
impl HttpService for Http {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if completes_an_upload(&request) {
            request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        let sent = request.extensions().get::<Sent>().cloned().unwrap_or_default();
        let answered = match timeout(self.answer_timeout, self.client.request(request)).await {
            Err(_) => Err(HttpError::new(HttpErrorKind::Timeout, TimedOut("no answer", self.answer_timeout))),
            Ok(Err(error)) if error.is_connect() => return Err(HttpError::new(HttpErrorKind::Connect, Causes::of(&error))),
            Ok(Err(error)) => Err(HttpError::new(HttpErrorKind::Interrupted, Causes::of(&error))),
            Ok(Ok(answer)) => Ok(answer),
        };
        sent.0.store(true, Ordering::Relaxed);
        Ok(answered?.map(|body| HttpResponseBody::new(Watched { body, silence_max: self.silence_max, silence: None })))
    }
}

/// `object_store` can complete an upload only by overwriting what is there. A header that is not signed can be added to a signed request.
fn completes_an_upload(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::POST && query.split('&').any(|part| part.starts_with("uploadId="))
}

impl HttpConnector for Http {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
}

/// Travels with a request and all that are made in its place: whether one of them may have reached the server.
#[derive(Clone, Default)]
pub struct Sent(Arc<AtomicBool>);

impl Sent {
    pub fn is_certain_not(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }

    pub fn extensions(&self) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(self.clone());
        extensions
    }
}

/// A body that may pause, but not forever. Only our own waiting counts: a reader may take its time between two frames.
struct Watched {
    body: Incoming,
    silence_max: Duration,
    silence: Option<Pin<Box<Sleep>>>,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.silence = None;
            let interrupted = |error: hyper::Error| HttpError::new(HttpErrorKind::Interrupted, Causes::of(&error));
            return Poll::Ready(frame.map(|frame| frame.map_err(interrupted)));
        }
        let silence = this.silence.get_or_insert_with(|| Box::pin(sleep(this.silence_max)));
        ready!(silence.as_mut().poll(cx));
        Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Timeout, TimedOut("the answer paused", this.silence_max)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0} for {1:?}")]
struct TimedOut(&'static str, Duration);

/// An error with what caused it: the client's own sentence alone says only that it failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Causes(String);

impl Causes {
    fn of(error: &dyn std::error::Error) -> Causes {
        let causes = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
        Causes(causes.collect::<Vec<_>>().join(": "))
    }
}
