//! Blocks are copied into the directory.

use std::time::Duration;

use dunlin::{cluster, config::Config};
use dunlin_client::{Client, protocol::TokenBody};
use dunlin_model::UserId;
use dunlin_ports::Directory as _;

use crate::{node::Node, profile::Place};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_a_cluster_copies_blocks_into_postgres() {
    let place = Place::of_cluster();
    let file = place.environment.iter().find(|(name, _)| name == "DUNLIN_CONFIG").unwrap().1.clone();
    let (config, _) = Config::load(Some(file.as_ref()), place.environment.iter().cloned(), &[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(&place, &dir.path().join("data"));
    let host = Client::new(node.url.parse().unwrap(), node.key.as_ref().unwrap());
    host.put_user("bea", &Default::default()).await.unwrap();
    let token = host.mint_token("ann", &TokenBody::default()).await.unwrap().token;
    Client::new(node.url.parse().unwrap(), &token).block("bea").await.unwrap();
    let directory = dunlin_postgres::Directory::open(&cluster::postgres(&config).unwrap()).await.unwrap();
    let [ann, bea] = ["ann", "bea"].map(|name| UserId::parse(name).unwrap());
    let mut tries = 0;
    while !directory.blocks_copied(&ann, None, 10).await.unwrap().iter().any(|block| block.blocked == bea && block.on) {
        tries += 1;
        assert!(tries < 300, "it is not copied");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
