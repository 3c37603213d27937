//! Three nodes of a cluster in one process: a program of yours would run one of them on each of
//! three machines. Rows that are answered are on two disks, and survive the end of any node.
//!
//! ```sh
//! cargo run -p everleaf-raft --example three_nodes
//! ```

use std::error::Error;
use std::path::Path;

use everleaf_raft::{Client, Keys, Node, NodeOptions, PoolOptions, Secret, init, prepare_to_join};

const ADDRESSES: [&str; 3] = ["127.0.0.1:7411", "127.0.0.1:7412", "127.0.0.1:7413"];

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("three-nodes-{}", std::process::id()));
    let ended = run(&folder).await;
    std::fs::remove_dir_all(&folder)?;
    ended
}

async fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let path = |node: usize| folder.join(format!("node-{node}"));
    let pools = PoolOptions::default();

    // The first node makes the cluster and its secret; the others ask it to let them in.
    let secret = init(&path(0), ADDRESSES[0], &pools).await?;
    let keys = Keys { secret: Secret::read(&secret)?, tls: None };
    let mut nodes = vec![Node::start(&path(0), NodeOptions::default()).await?];
    for (number, address) in ADDRESSES.into_iter().enumerate().skip(1) {
        prepare_to_join(&path(number), address, ADDRESSES[0], &keys, None, &pools).await?;
        let node = Node::start(&path(number), NodeOptions::default()).await?;
        node.joined().await;
        println!("node {} has joined at {address}", node.number());
        nodes.push(node);
    }

    // A client knows some addresses, and finds the leader by itself.
    let mut client = Client::new(ADDRESSES.map(String::from).to_vec(), keys);
    client.put(vec![(b"oak".to_vec(), Some(b"Quercus robur".to_vec()))]).await?;

    // The leader ends; another node leads, and has what was answered.
    let leader = client.status_of_leader().await?.node;
    let at = nodes.iter().position(|node| node.number() == leader).ok_or("no leader")?;
    nodes.remove(at).stop().await;
    let value = client.get("oak").await?.unwrap_or_default();
    println!("oak is {} without node {leader}", String::from_utf8_lossy(&value));

    for node in nodes {
        node.stop().await;
    }
    Ok(())
}
