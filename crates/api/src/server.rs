//! Connections: accepted, bounded, and let end when the server stops.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{body::Body, http::Response};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tracing::{debug, warn};

use crate::{Service, steady::Steady};

/// What connections may cost.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    pub max: usize,
    /// How long a connection may wait for its next request, and a request's head may take to arrive.
    pub head_arrives_max: Duration,
    /// How long requests may go on after the signal to stop.
    pub end_max: Duration,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections { max: 10_000, head_arrives_max: Duration::from_secs(60), end_max: Duration::from_secs(5) }
    }
}

const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// After a failure to accept (no descriptors left), others may end meanwhile.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Serves until `stop`, then lets requests end.
pub async fn serve(listener: TcpListener, service: Service, connections: Connections, stop: impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(connections.max));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = async {
            // Whoever finds no place waits in the system's queue.
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            }
        };
        let connection = Steady::new(graceful.watch(connection(stream, service.clone(), connections)));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "a connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(connections.end_max, graceful.shutdown()).await.is_err() {
        warn!("requests did not end in time; they are cut off");
    }
}

fn connection(
    stream: TcpStream,
    service: Service,
    connections: Connections,
) -> impl hyper_util::server::graceful::GracefulConnection<Error = hyper::Error> {
    // Answers are small; waiting for more to send would only delay them.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| answer(service.clone(), request));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(connections.head_arrives_max)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
}

async fn answer(service: Service, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    Ok(service.answer(request.map(Body::new)).await)
}
