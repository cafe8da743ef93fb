//! A connection that breaks when it is told to.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU32, Ordering},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// When connections break, from now on.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Cut {
    Never,
    /// The server does not hear of the commit.
    BeforeCommit,
    /// The server commits, and nobody hears of it.
    AfterCommit,
    /// At once.
    Always,
    /// Connections stay, and nothing more is passed on.
    Hang,
}

#[derive(Clone)]
pub struct Proxy {
    pub port: u16,
    cut: Arc<AtomicU8>,
    /// How many more times it breaks.
    left: Arc<AtomicU32>,
}

impl Proxy {
    /// In front of the server of a URL; the second is the URL that leads through it.
    pub async fn before(url: &str) -> (Proxy, String) {
        let server = url.split_once('@').and_then(|(_, rest)| rest.split_once('/')).expect("a URL has a host and a port").0.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let proxy = Proxy { port, cut: Arc::new(AtomicU8::new(Cut::Never as u8)), left: Arc::default() };
        let through = url.replace(&server, &format!("127.0.0.1:{port}"));
        tokio::spawn(serve(proxy.clone(), listener, server));
        (proxy, through)
    }

    pub fn cut(&self, cut: Cut, times: u32) {
        self.left.store(times, Ordering::SeqCst);
        self.cut.store(cut as u8, Ordering::SeqCst);
    }

    fn cuts(&self, cut: Cut) -> bool {
        let is_meant = self.cut.load(Ordering::SeqCst) == cut as u8;
        is_meant && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

async fn serve(proxy: Proxy, listener: TcpListener, server: String) {
    while let Ok((client, _)) = listener.accept().await {
        if !proxy.cuts(Cut::Always) {
            tokio::spawn(pass(proxy.clone(), client, server.clone()));
        }
    }
}

async fn pass(proxy: Proxy, mut client: TcpStream, server: String) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let (mut up, mut down) = ([0; 65_536], [0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(1..) = read else { return };
                let bytes = &up[..read.unwrap_or(0)];
                if proxy.cuts(Cut::Hang) {
                    return std::future::pending().await;
                }
                let is_commit = bytes.windows(7).any(|word| word == b"COMMIT\0");
                if proxy.cuts(Cut::Always) || is_commit && proxy.cuts(Cut::BeforeCommit) {
                    return;
                }
                if server.write_all(bytes).await.is_err() {
                    return;
                }
                if is_commit && proxy.cuts(Cut::AfterCommit) {
                    // The answer came, so it is done.
                    let _ = server.read(&mut down).await;
                    return;
                }
            }
            read = server.read(&mut down) => {
                let Ok(1..) = read else { return };
                if client.write_all(&down[..read.unwrap_or(0)]).await.is_err() {
                    return;
                }
            }
        }
    }
}
