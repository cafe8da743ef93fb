//! Connections: accepted, bounded, and let end when the server stops.

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

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
use tokio_io_timeout::TimeoutStream;
use tracing::{debug, warn};

use crate::{Service, steady::Steady};

/// What connections may cost.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    pub max: usize,
    /// How long a connection may wait for its next request, and a request's head may take to arrive.
    pub head_arrives_max: Duration,
    /// How long a client may read nothing of what it is answered.
    pub answer_stands_max: Duration,
    /// How long requests may go on after the signal to stop.
    pub end_max: Duration,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections {
            max: 10_000,
            head_arrives_max: Duration::from_secs(60),
            answer_stands_max: Duration::from_secs(30),
            end_max: Duration::from_secs(5),
        }
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
    let mut has_failed = false;
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
            Ok((stream, _)) => {
                has_failed = false;
                stream
            }
            Err(error) => {
                if !has_failed {
                    warn!(%error, "failed to accept connections; trying again and again");
                }
                has_failed = true;
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
    let service = service_fn(move |request: Request<Incoming>| answer(service.clone(), request));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(connections.head_arrives_max)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(bounded(stream, connections.answer_stands_max)), service)
}

/// Fails once nobody has read anything of an answer for so long: it would stay in memory for ever.
fn bounded(stream: TcpStream, answer_stands_max: Duration) -> Pin<Box<TimeoutStream<TcpStream>>> {
    // Answers are small; waiting for more to send would only delay them.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(answer_stands_max));
    Box::pin(stream)
}

async fn answer(service: Service, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    Ok(service.answer(request.map(Body::new)).await)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_read_may_take_long_and_one_that_is_not_ends_its_connection() {
        const BYTES: usize = 32 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for is_read in [true, false] {
            let mut client = TcpStream::connect(address).await.unwrap();
            let mut server = bounded(listener.accept().await.unwrap().0, Duration::from_millis(500));
            let writing = tokio::spawn(async move { server.write_all(&vec![0; BYTES]).await });
            let mut left = if is_read { BYTES } else { 0 };
            let mut buffer = vec![0; 4 << 20];
            while left > 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                left -= client.read(&mut buffer).await.unwrap();
            }
            let written = tokio::time::timeout(Duration::from_secs(60), writing).await.expect("it ends").unwrap();
            assert_eq!(written.map_err(|error| error.kind()), if is_read { Ok(()) } else { Err(ErrorKind::TimedOut) });
        }
    }
}
