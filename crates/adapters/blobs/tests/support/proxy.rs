//! Stands between a store and the S3 server, writes down what passes, and does it harm when told to.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
};
use tokio::{net::TcpListener, task::AbortHandle, task::JoinSet};

/// What is done to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Harm {
    None,
    /// The server does it and nobody hears of it.
    LoseAnswer,
    /// The server never sees it.
    Answer(StatusCode),
    /// As if the bucket had gone.
    NoBucket,
    /// Nobody ever answers.
    Silence,
    /// Half of the answer's body comes.
    Half,
    /// The server does not know that it must not overwrite.
    Overwrite,
}

pub type Choose = Arc<dyn Fn(&Request<()>) -> Harm + Send + Sync>;

#[derive(Clone, Debug)]
pub struct Passed {
    pub method: Method,
    pub query: String,
    pub bytes: usize,
    pub status: StatusCode,
}

#[derive(Clone)]
struct Middle {
    server: String,
    client: Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>,
    choose: Arc<Mutex<Choose>>,
    journal: Arc<Mutex<Vec<Passed>>>,
}

pub struct Proxy {
    pub address: SocketAddr,
    middle: Middle,
    accepting: AbortHandle,
}

type Body = BoxBody<Bytes, Infallible>;

impl Proxy {
    /// Before a server that is called `http://host:port`.
    pub async fn before(server: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has one");
        let middle = Middle {
            server: server.to_owned(),
            client: Client::builder(TokioExecutor::new()).build_http(),
            choose: Arc::new(Mutex::new(Arc::new(|_| Harm::None))),
            journal: Arc::default(),
        };
        let accepting = tokio::spawn(accept(listener, middle.clone())).abort_handle();
        Proxy { address, middle, accepting }
    }

    pub fn harm(&self, choose: impl Fn(&Request<()>) -> Harm + Send + Sync + 'static) {
        *self.middle.choose.lock().unwrap() = Arc::new(choose);
    }

    /// Whoever calls is refused from now on.
    pub fn go_away(&self) {
        self.accepting.abort();
    }

    pub fn journal(&self) -> Vec<Passed> {
        self.middle.journal.lock().unwrap().clone()
    }
}

async fn accept(listener: TcpListener, middle: Middle) {
    // Connections end with it.
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let middle = middle.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| pass(middle.clone(), request));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// An error closes the connection without an answer.
async fn pass(middle: Middle, request: Request<Incoming>) -> Result<Response<Body>, &'static str> {
    let (parts, body) = request.into_parts();
    let choose = middle.choose.lock().unwrap().clone();
    let mut asked = Request::new(());
    (*asked.method_mut(), *asked.uri_mut()) = (parts.method.clone(), parts.uri.clone());
    let harm = choose(&asked);
    let body = body.collect().await.map_err(|_| "the request broke off")?.to_bytes();
    let mut passed = Passed {
        method: parts.method.clone(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        bytes: body.len(),
        status: StatusCode::OK,
    };
    let told = |status, words: &'static str| answer(status, HeaderMap::new(), Full::new(words.into()).boxed());
    match harm {
        Harm::Silence => std::future::pending().await,
        Harm::Answer(status) => return Ok(told(status, "")),
        Harm::NoBucket => return Ok(told(StatusCode::NOT_FOUND, "<Error><Code>NoSuchBucket</Code></Error>")),
        _ => {}
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut forwarded = Request::new(Full::new(body));
    *forwarded.method_mut() = parts.method;
    *forwarded.uri_mut() = format!("{}{path}", middle.server).parse().map_err(|_| "an address")?;
    // Also the host, which is signed.
    *forwarded.headers_mut() = parts.headers;
    if harm == Harm::Overwrite {
        forwarded.headers_mut().remove(header::IF_NONE_MATCH);
    }
    let (parts, body) = middle.client.request(forwarded).await.map_err(|_| "the server is away")?.into_parts();
    let body = body.collect().await.map_err(|_| "the answer broke off")?.to_bytes();
    passed.status = parts.status;
    middle.journal.lock().unwrap().push(passed);
    match harm {
        Harm::LoseAnswer => Err("lost"),
        Harm::Half => Ok(answer(parts.status, parts.headers, half(body))),
        _ => Ok(answer(parts.status, parts.headers, Full::new(body).boxed())),
    }
}

fn answer(status: StatusCode, headers: HeaderMap, body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
    answer
}

fn half(body: Bytes) -> Body {
    let first = futures::stream::iter([Ok(Frame::data(body.slice(..body.len() / 2)))]);
    let never = futures::stream::pending();
    StreamBody::new(futures::StreamExt::chain(first, never)).boxed()
}
