//! Hears what is said on one node's channel, for as long as someone reads it.
//!
//! The subscription has a connection of its own to the node that owns the channel's slot, found by following redirects. The driver could
//! subscribe on the shared connection, but is not fit for it: when a slot moves away, Redis ends the subscription by a push that nobody
//! asked for, which the driver takes for the answer to the oldest request under way (so every later answer goes to the wrong caller) and
//! for a wish not to be subscribed again. Here nothing else is under way, and such a push makes us look for the new owner.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use dunlin_model::NodeId;
use dunlin_ports::{Frame, Inbound, StoreError};
use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, aio::MultiplexedConnection};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};

use crate::{
    Cluster,
    cluster::NODE_CONNECT_TIMEOUT,
    error,
    hearing::{End, Hearing},
    wire::{self, ListenerId},
};

/// How many frames wait for the reader. What comes when that many wait is dropped, and noticed by the gap in the numbers.
pub const FRAMES_MAX: usize = 1024;

/// How long finding the owner and subscribing may take.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait before subscribing is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// How often a quiet subscription is tried.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// One is enough unless slots move at that very moment.
const REDIRECTS_MAX: usize = 4;

pub async fn listen(cluster: Cluster, node: NodeId, channel: String) -> Result<Frames, StoreError> {
    let me = ListenerId(getrandom::u64().map_err(|error| StoreError::Unavailable(format!("no random number: {error}")))?);
    let (queue, frames) = mpsc::channel(FRAMES_MAX);
    let listener = Listener { cluster, node, channel, hearing: Arc::new(Hearing::new(node, me, queue.clone())), queue };
    let mut subscription = listener.subscribe_in_time().await?;
    // Said on the channel itself, so that all who listen agree about who came last.
    let mut announcement = redis::cmd("SPUBLISH");
    announcement.arg(&listener.channel).arg(wire::take_over(me));
    announcement.exec_async(&mut subscription.connection).await.map_err(|error| error::unavailable(&error))?;
    tokio::spawn(listener.keep(subscription));
    Ok(Frames(frames))
}

pub struct Frames(mpsc::Receiver<Frame>);

#[async_trait]
impl Inbound for Frames {
    async fn next(&mut self) -> Option<Frame> {
        self.0.recv().await
    }
}

struct Listener {
    cluster: Cluster,
    node: NodeId,
    channel: String,
    hearing: Arc<Hearing>,
    /// Kept to know when the reader has gone.
    queue: mpsc::Sender<Frame>,
}

/// Ends with the connection.
struct Subscription {
    connection: MultiplexedConnection,
    end: watch::Receiver<Option<End>>,
}

impl Listener {
    /// Ends once nobody reads any more, or another listener has taken over.
    async fn keep(self, mut subscription: Subscription) {
        let node = self.node;
        loop {
            let end = tokio::select! {
                () = self.queue.closed() => return,
                end = self.until_end(&mut subscription) => end,
            };
            match end {
                End::TakenOver => return info!(%node, "another listener has taken over"),
                End::Lost => warn!(%node, "the bus was lost; subscribing again"),
            }
            // What it had still to say would only come between.
            drop(subscription);
            subscription = tokio::select! {
                () = self.queue.closed() => return,
                subscription = self.subscribe_at_last() => subscription,
            };
            info!(%node, "the bus is back");
        }
    }

    /// Subscribing again is the check: the answer is that of a living owner, or something is wrong.
    async fn until_end(&self, subscription: &mut Subscription) -> End {
        loop {
            if let Ok(end) = timeout(CHECK_EVERY, subscription.end.wait_for(Option::is_some)).await {
                return end.ok().and_then(|end| *end).unwrap_or(End::Lost);
            }
            if let Err(error) = self.ssubscribe(&mut subscription.connection).await {
                debug!(%error, "a subscription was refused");
                return End::Lost;
            }
        }
    }

    async fn subscribe_at_last(&self) -> Subscription {
        loop {
            match self.subscribe_in_time().await {
                Ok(subscription) => return subscription,
                Err(error) => debug!(%error, "failed to subscribe"),
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn subscribe_in_time(&self) -> Result<Subscription, StoreError> {
        match timeout(SUBSCRIBE_TIMEOUT, self.subscribe()).await {
            Ok(subscribed) => subscribed.map_err(|error| error::unavailable(&error)),
            Err(_) => Err(error::timed_out()),
        }
    }

    /// Any node knows the way.
    async fn subscribe(&self) -> RedisResult<Subscription> {
        let mut failure = RedisError::from((ErrorKind::ClusterConnectionNotFound, "no node is named"));
        for node in self.cluster.nodes() {
            match self.subscribe_through(node).await {
                Ok(subscription) => return Ok(subscription),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn subscribe_through(&self, node: &ConnectionInfo) -> RedisResult<Subscription> {
        let mut node = node.clone();
        for _ in 0..REDIRECTS_MAX {
            let mut subscription = self.connect(node.clone()).await?;
            match self.ssubscribe(&mut subscription.connection).await {
                Ok(()) => return Ok(subscription),
                Err(error) => node = moved(&node, &error).ok_or(error)?,
            }
        }
        Err(RedisError::from((ErrorKind::ClusterConnectionNotFound, "redirected too often")))
    }

    async fn ssubscribe(&self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        redis::cmd("SSUBSCRIBE").arg(&self.channel).exec_async(connection).await
    }

    async fn connect(&self, node: ConnectionInfo) -> RedisResult<Subscription> {
        let (ended, end) = watch::channel(None);
        let hearing = Arc::clone(&self.hearing);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(NODE_CONNECT_TIMEOUT))
            .set_response_timeout(Some(self.cluster.call_timeout()))
            .set_push_sender(move |push| {
                if let Some(end) = hearing.hear(push) {
                    // The first reason counts: whoever was taken over is disconnected too.
                    ended.send_if_modified(|known| known.is_none() && known.replace(end).is_none());
                }
                Ok::<(), ()>(())
            });
        let connection = self.cluster.client(node)?.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Subscription { connection, end })
    }
}

/// The node that a redirect names. One without a host means the host that was asked.
fn moved(asked: &ConnectionInfo, error: &RedisError) -> Option<ConnectionInfo> {
    let (address, _slot) = error.redirect_node()?;
    let (new_host, new_port) = address.rsplit_once(':')?;
    let mut owner = asked.addr().clone();
    match &mut owner {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            *port = new_port.parse().ok()?;
            if !new_host.is_empty() {
                *host = new_host.to_owned();
            }
        }
        _ => return None,
    }
    Some(asked.clone().set_addr(owner))
}
