//! A server on either profile, as whoever serves it sees it.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use dunlin_app::{App, Outcomes};

use crate::{
    blobs,
    cluster::ClusterNode,
    config::Config,
    engine::{Engine, EngineOptions},
};

const CAUGHT_UP_MAX: Duration = Duration::from_secs(5);

pub enum Node {
    Embedded(Box<Engine>),
    Cluster(Box<ClusterNode>),
}

impl Node {
    /// The embedded one replays its log afterwards: `Engine::caught_up` waits for that.
    pub async fn open(config: &Config) -> Result<Node> {
        blobs::check(config).await?;
        if config.is_embedded() {
            Ok(Node::Embedded(Box::new(Engine::open(&config.server.data, EngineOptions::configured(config)?)?)))
        } else {
            Ok(Node::Cluster(Box::new(ClusterNode::open(config).await?)))
        }
    }

    pub fn app(&self) -> &App {
        match self {
            Node::Embedded(engine) => &engine.app,
            Node::Cluster(node) => &node.app,
        }
    }

    /// What stands in the way of full service, in sentences for the operator.
    pub fn troubles(&self) -> Vec<String> {
        match self {
            Node::Embedded(engine) => engine.troubles(),
            Node::Cluster(node) => node.troubles(),
        }
    }

    /// Whether messages can be sent here. What other nodes would suffer from just the same is no reason to send users to them.
    pub fn is_serving(&self) -> bool {
        match self {
            Node::Embedded(engine) => engine.is_serving(),
            Node::Cluster(node) => node.is_serving(),
        }
    }

    /// Numbers for dashboards, each with what it says.
    pub fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        match self {
            Node::Embedded(engine) => engine.gauges(),
            Node::Cluster(node) => node.gauges(),
        }
    }

    /// Waits until this node must end, whoever calls it.
    pub async fn outlived(&self) {
        match self {
            Node::Embedded(_) => std::future::pending().await,
            Node::Cluster(node) => node.outlived().await,
        }
    }

    /// Leaves everything in good order.
    pub async fn stop(&self) -> Result<()> {
        match self {
            Node::Embedded(engine) => {
                // What is in the log already needs no replay at the next start; but nobody waits for a store that is in trouble.
                let _ = tokio::time::timeout(CAUGHT_UP_MAX, engine.caught_up(|_, _| {})).await;
                let folder = Arc::clone(&engine.folder);
                Ok(tokio::task::spawn_blocking(move || folder.flush()).await??)
            }
            Node::Cluster(node) => {
                node.leave().await;
                Ok(())
            }
        }
    }
}

/// Names some of the parked log keys, and what to do.
pub fn parked_trouble(outcomes: &Outcomes) -> Option<String> {
    const NAMED_MAX: usize = 3;
    let mut keys = outcomes.parked();
    keys.sort_unstable();
    let named: Vec<String> = keys.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = if keys.len() > NAMED_MAX { " and more" } else { "" };
    let list = named.join(", ");
    (!keys.is_empty()).then(|| {
        format!(
            "parked log keys: {} ({list}{more}): an event of each could not be read by this version; once it can, run `dunlin unpark` (`--leave-out` if it never will). Of \
             those that begin with s, nobody of ours wrote it, and `dunlin unpark` forgets it",
            keys.len()
        )
    })
}
