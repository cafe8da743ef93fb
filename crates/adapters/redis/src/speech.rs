//! Whether a node that could not be understood speaks the other way: TLS where plain words were tried, or the reverse. To plain words a
//! node that speaks TLS only hangs up, and to a TLS handshake others say nothing at all: both look as if Redis were away.

use redis::ConnectionAddr;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::cluster::NODE_CONNECT_TIMEOUT;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speech {
    Plain,
    Tls,
}

/// The other way than that of the address, if that is the one.
pub async fn other(address: &ConnectionAddr) -> Option<Speech> {
    let (host, port, speech) = match address {
        ConnectionAddr::Tcp(host, port) => (host, *port, Speech::Tls),
        ConnectionAddr::TcpTls { host, port, .. } => (host, *port, Speech::Plain),
        _ => return None,
    };
    let words = match speech {
        Speech::Plain => b"PING\r\n".to_vec(),
        Speech::Tls => client_hello(host)?,
    };
    let first = timeout(NODE_CONNECT_TIMEOUT, first_byte(host, port, &words)).await.ok()?.ok()?;
    let is_it = match speech {
        Speech::Plain => matches!(first, b'+' | b'-'),
        // A handshake or an alert.
        Speech::Tls => matches!(first, 0x16 | 0x15),
    };
    is_it.then_some(speech)
}

async fn first_byte(host: &str, port: u16, words: &[u8]) -> std::io::Result<u8> {
    let mut stream = TcpStream::connect((host, port)).await?;
    stream.write_all(words).await?;
    stream.read_u8().await
}

#[cfg(feature = "tls")]
fn client_hello(host: &str) -> Option<Vec<u8>> {
    use std::sync::Arc;
    // Nobody is trusted, and nothing is said after this.
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .ok()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from(host.to_owned()).ok()?;
    let mut words = Vec::new();
    rustls::ClientConnection::new(Arc::new(config), name).ok()?.write_tls(&mut words).ok()?;
    Some(words)
}

/// Without TLS, there is nothing to be set.
#[cfg(not(feature = "tls"))]
fn client_hello(_: &str) -> Option<Vec<u8>> {
    None
}
