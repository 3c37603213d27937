//! Three nodes in one process, over the loopback: what an operator does, and what goes wrong.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everleaf_raft::{
    Client, Keys, Node, NodeOptions, Origin, PeerError, PoolOptions, Proposer, Reply, Request, Row,
    Secret, Vote, init, prepare_to_join, recover, verify,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

type Tested = Result<(), Box<dyn Error>>;

/// Folders and addresses of nodes, and those that run.
struct Cluster {
    folder: tempfile::TempDir,
    addresses: Vec<String>,
    nodes: Vec<Option<Arc<Node>>>,
    keys: Keys,
    options: NodeOptions,
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

impl Cluster {
    /// So many nodes, which all vote.
    async fn of(nodes: usize) -> Result<Self, Box<dyn Error>> {
        Self::with(nodes, NodeOptions::default()).await
    }

    async fn with(nodes: usize, options: NodeOptions) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let address = free_address();
        let first = folder.path().join("0");
        let secret = Secret::read(&init(&first, &address, &PoolOptions::default()).await?)?;
        let keys = Keys { secret, tls: options.tls.clone() };
        let (addresses, nodes_run) = (vec![address], vec![None]);
        let mut cluster = Self { folder, addresses, nodes: nodes_run, keys, options };
        cluster.start(0).await?;
        for _ in 1..nodes {
            cluster.join(None).await?;
        }
        Ok(cluster)
    }

    fn path(&self, at: usize) -> PathBuf {
        self.folder.path().join(at.to_string())
    }

    fn node(&self, at: usize) -> &Arc<Node> {
        self.nodes[at].as_ref().unwrap()
    }

    async fn start(&mut self, at: usize) -> Tested {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match Node::start(&self.path(at), self.options.clone()).await {
                Ok(node) => {
                    self.nodes[at] = Some(node);
                    return Ok(());
                }
                // What ran before may still close its pools.
                Err(error) if Instant::now() > deadline => return Err(error.into()),
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn stop(&mut self, at: usize) {
        self.nodes[at].take().unwrap().stop().await;
    }

    /// One more node, which votes on return.
    async fn join(&mut self, replaces: Option<u64>) -> Tested {
        let (at, address) = (self.nodes.len(), free_address());
        let via = self.addresses[self.nodes.iter().position(Option::is_some).unwrap()].clone();
        let (path, pools) = (self.path(at), PoolOptions::default());
        prepare_to_join(&path, &address, &via, &self.keys, replaces, &pools).await?;
        self.addresses.push(address);
        self.nodes.push(None);
        self.start(at).await?;
        timeout(Duration::from_secs(60), self.node(at).joined()).await?;
        Ok(())
    }

    fn client(&self) -> Client {
        Client::new(self.addresses.clone(), self.keys.clone())
    }

    /// Where the leader is.
    async fn leader(&self) -> Result<usize, Box<dyn Error>> {
        let leader = within(20, || async {
            self.running_client().status_of_leader().await.ok().map(|status| status.node)
        });
        let leader = leader.await.ok_or("no leader")?;
        let leads =
            |node: &Option<Arc<Node>>| node.as_ref().is_some_and(|it| it.number() == leader);
        self.nodes.iter().position(leads).ok_or_else(|| "an unknown leader".into())
    }

    /// How many rows all three have, once they have applied the same entries: until then, what
    /// differs is left out of the count.
    async fn rows_of_all(&self) -> Option<u64> {
        let caught_up = within(20, || async {
            let verified = verify(&mut self.running_client()).await.ok()?;
            assert!(verified.is_equal(), "{verified:?}");
            (verified.left_out == 0 && verified.sums.len() == 3).then_some(verified.sums[0].2)
        });
        caught_up.await
    }

    /// A client that is given the nodes that run.
    fn running_client(&self) -> Client {
        let runs = self.addresses.iter().zip(&self.nodes).filter(|(_, node)| node.is_some());
        Client::new(runs.map(|(address, _)| address.clone()).collect(), self.keys.clone())
    }
}

/// Asks until there is an answer.
async fn within<T, F: Future<Output = Option<T>>>(seconds: u64, ask: impl Fn() -> F) -> Option<T> {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        match ask().await {
            Some(answer) => return Some(answer),
            None if Instant::now() > deadline => return None,
            None => sleep(Duration::from_millis(100)).await,
        }
    }
}

fn row(key: &str, value: &str) -> Vec<Row> {
    vec![(key.into(), Some(value.into()))]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_outlives_its_leader_and_changes_its_members() -> Tested {
    let mut cluster = Cluster::of(3).await?;
    let mut client = cluster.client();
    client.put(row("oak", "Quercus robur")).await?;
    client.put(vec![(b"ash".into(), Some(b"Fraxinus".into())), (b"elm".into(), None)]).await?;
    assert_eq!(client.get("oak").await?.as_deref(), Some(&b"Quercus robur"[..]));
    assert_eq!(client.get("elm").await?, None);
    let keys: Vec<Vec<u8>> = client.scan("", 10).await?.into_iter().map(|row| row.0).collect();
    assert_eq!(keys, [b"ash", b"oak"]);
    assert_eq!(cluster.rows_of_all().await, Some(2));

    // Another one leads when it is told to.
    let leader = cluster.leader().await?;
    let next = (leader + 1) % 3;
    client.transfer(cluster.node(next).number()).await?;
    assert_eq!(cluster.leader().await?, next);
    let none = client.transfer(7).await;
    assert!(matches!(none, Err(PeerError::Refused(_))), "{none:?}");

    // It ends; what it had answered is there, and it comes back.
    cluster.stop(next).await;
    assert_eq!(client.get("ash").await?.as_deref(), Some(&b"Fraxinus"[..]));
    client.put(row("fir", "Abies")).await?;
    cluster.start(next).await?;
    assert_eq!(cluster.rows_of_all().await, Some(3));

    // One is removed; the last two go on, and it is told when it comes back.
    let removed = cluster.node(next).number();
    cluster.stop(next).await;
    client.remove(removed).await?;
    client.put(row("yew", "Taxus")).await?;
    let status = client.status_of_leader().await?;
    assert_eq!(status.members.len(), 2, "{status:?}");
    cluster.start(next).await?;
    let told = within(20, || async {
        let status = cluster.node(next).status().ok()?;
        let mut sentences = status.members.into_iter().filter_map(|member| member.trouble);
        sentences.find(|sentence| sentence.contains("was removed from this cluster"))
    });
    assert!(told.await.is_some(), "{:?}", cluster.node(next).status());
    client.put(row("yew", "Taxus baccata")).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_is_lost_is_replaced_and_a_majority_that_is_lost_given_up() -> Tested {
    let mut cluster = Cluster::of(3).await?;
    let mut client = cluster.client();
    client.put(row("oak", "Quercus")).await?;
    let lost = (cluster.leader().await? + 1) % 3;
    let number = cluster.node(lost).number();
    cluster.stop(lost).await;
    std::fs::remove_dir_all(cluster.path(lost))?;
    cluster.join(Some(number)).await?;
    let members = client.status_of_leader().await?.members;
    assert_eq!(members.iter().filter(|member| member.voter).count(), 3);
    assert!(members.iter().all(|member| member.node != number), "{members:?}");

    // Two of three are gone.
    let keep = cluster.nodes.iter().position(Option::is_some).unwrap();
    let (mut others, mut old) = (Vec::new(), 0);
    for at in 0..cluster.nodes.len() {
        if cluster.nodes[at].is_some() {
            (old, _) = (at, others.push(at));
            cluster.stop(at).await;
        }
    }
    sleep(Duration::from_millis(300)).await;
    let recovered = recover(&cluster.path(keep)).await?;
    assert!(recovered.last_log.is_some());
    cluster.start(keep).await?;
    let mut client = cluster.running_client();
    assert_eq!(client.get("oak").await?.as_deref(), Some(&b"Quercus"[..]));
    client.put(row("ash", "Fraxinus")).await?;
    assert_eq!(client.status_of_leader().await?.cluster, recovered.cluster);

    // Another one of those comes back: it is of another cluster.
    cluster.start(old).await?;
    let told = within(20, || async {
        let status = cluster.node(old).status().ok()?;
        let mut sentences = status.members.into_iter().filter_map(|member| member.trouble);
        sentences.find(|sentence| sentence.contains("another cluster"))
    });
    assert!(told.await.is_some(), "{:?}", cluster.node(old).status());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_snapshot_arrives_whole_while_others_write() -> Tested {
    let snapshot_rate = Some(8 << 20);
    let options = NodeOptions { snapshot_rate, ..NodeOptions::default() };
    let mut cluster = Cluster::with(1, options).await?;
    let mut client = cluster.client();
    let value = vec![b'v'; 4000];
    for batch in 0..40 {
        let of = |number| (format!("key {batch} {number}").into_bytes(), Some(value.clone()));
        client.put((0..50).map(of).collect()).await?;
    }
    // The log goes, so that the next node needs a snapshot.
    let raft = cluster.node(0).raft().clone();
    raft.trigger().snapshot().await?;
    let purged = within(20, || async {
        let status = cluster.node(0).status().ok()?;
        raft.trigger().purge_log(status.applied?).await.ok()?;
        status.purged.filter(|purged| *purged > 30)
    });
    assert!(purged.await.is_some());
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (stop, mut client) = (Arc::clone(&stop), cluster.client());
        async move {
            let mut written = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                client
                    .put(row(&format!("new {}", written % 100), &written.to_string()))
                    .await
                    .unwrap();
                written += 1;
            }
            written
        }
    });
    let begin = Instant::now();
    cluster.join(None).await?;
    assert!(begin.elapsed() > Duration::from_millis(800), "8 MB came in {:?}", begin.elapsed());
    let received = cluster.node(1).status()?.counters;
    let received = received.iter().find(|counter| counter.0 == "snapshots_received");
    assert!(received.is_some_and(|counter| counter.2 > 0), "{received:?}");
    // Also while they write.
    let verified = verify(&mut client).await?;
    assert!(verified.is_equal() && verified.sums.len() == 2, "{verified:?}");
    stop.store(true, Ordering::Relaxed);
    assert!(writer.await? > 0);
    let verified = verify(&mut client).await?;
    assert!(verified.is_equal() && verified.sums[0].2 >= 2000, "{verified:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_does_not_belong_is_told_why() -> Tested {
    let mut cluster = Cluster::of(1).await?;
    let address = cluster.addresses[0].clone();
    let other = Keys { secret: Secret::random(), tls: None };
    let refused = Client::new(vec![address.clone()], other.clone()).get("oak").await;
    assert!(matches!(refused, Err(PeerError::Secret)), "{refused:?}");

    // A client of HTTP, and one of Redis.
    let answer = |request: &'static str| {
        let address = address.clone();
        move || {
            let mut stream = std::net::TcpStream::connect(address)?;
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        }
    };
    let answered = tokio::task::spawn_blocking(answer("GET / HTTP/1.1\r\n\r\n")).await??;
    assert!(answered.starts_with("HTTP/1.1 400 ") && answered.contains("peer port"), "{answered}");
    // It is closed at once, by a reset if it had said more.
    let answered = tokio::task::spawn_blocking(answer("PING\r\n")).await?;
    assert!(answered.as_ref().map_or(true, String::is_empty), "{answered:?}");

    // What is no peer port.
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let elsewhere = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(&[b'-'; 100]));
        }
    });
    let refused = Client::new(vec![elsewhere.clone()], cluster.keys.clone()).get("oak").await;
    assert!(matches!(refused, Err(PeerError::NotAPeer)), "{refused:?}");

    // An address that is taken, a number that is not there, an address that is none.
    let (path, pools) = (cluster.path(9), PoolOptions::default());
    for (raft, replaces, says) in [
        (&address, None, "has the address"),
        (&elsewhere, Some(9), "no node 9"),
        (&"nonsense".to_owned(), None, "HOST:PORT"),
    ] {
        let made = prepare_to_join(&path, raft, &address, &cluster.keys, replaces, &pools).await;
        let sentence = made.unwrap_err().to_string();
        assert!(sentence.contains(says) && !path.exists(), "{sentence}");
    }

    // Two processes with one folder, and two with a folder and its copy.
    let again = Node::start(&cluster.path(0), NodeOptions::default()).await;
    assert!(again.is_err());
    let only = cluster.node(0).number();
    let removed = cluster.client().remove(only).await;
    assert!(
        matches!(&removed, Err(PeerError::Refused(why)) if why.contains("last")),
        "{removed:?}"
    );

    // Half a snapshot, of a sender that is no leader and goes.
    let mut link = cluster.client().connect(&address, None).await?;
    let snapshot = Request::Snapshot { vote: Vote::new_committed(1, 9) };
    assert!(timeout(Duration::from_millis(300), link.ask(&snapshot)).await.is_err());
    assert!(cluster.path(0).join("state.2.pool").exists());
    drop(link);
    let gone = within(10, || async {
        let is_left = cluster.path(0).join("state.2.pool").exists();
        (!is_left).then_some(())
    });
    assert!(gone.await.is_some());
    cluster.client().put(row("oak", "Quercus")).await?;

    // A pool that is damaged.
    cluster.stop(0).await;
    let (damaged, pool) = (cluster.folder.path().join("damaged"), "raft.pool");
    let whole = within(10, || async { copy_folder(&cluster.path(0), &damaged).ok() }).await;
    whole.ok_or("not copied")?;
    std::fs::remove_dir_all(cluster.path(0))?;
    let mut bytes = std::fs::read(damaged.join(pool))?;
    bytes[..4096].fill(0xa5);
    std::fs::write(damaged.join(pool), bytes)?;
    let refused = Node::start(&damaged, NodeOptions::default()).await.unwrap_err().to_string();
    assert!(refused.contains("replace the node"), "{refused}");
    let refused = recover(&cluster.path(7)).await.unwrap_err().to_string();
    assert!(refused.contains("no folder of a node"), "{refused}");

    // A node of another cluster at an address of this one.
    let path = cluster.path(1);
    init(&path, &address, &PoolOptions::default()).await?;
    cluster.nodes.push(None);
    cluster.start(1).await?;
    let refused = Client::new(vec![address], cluster.keys.clone()).get("oak").await;
    assert!(matches!(refused, Err(PeerError::Secret)), "{refused:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_folder_restored_from_a_copy_is_named_and_no_leader_panics() -> Tested {
    let mut cluster = Cluster::of(3).await?;
    let mut client = cluster.client();
    client.put(row("oak", "1")).await?;
    let leader = cluster.leader().await?;
    let old = (leader + 1) % 3;
    let number = cluster.node(old).number();
    cluster.stop(old).await;
    let (path, copy) = (cluster.path(old), cluster.folder.path().join("copy"));
    copy_folder(&path, &copy)?;
    cluster.start(old).await?;
    for number in 0..50 {
        client.put(row("oak", &number.to_string())).await?;
    }
    let behind = within(20, || async {
        let members = cluster.node(leader).status().ok()?.members;
        let lag = members.iter().find(|member| member.node == number)?.lag_entries;
        (lag == Some(0)).then_some(())
    });
    assert!(behind.await.is_some());
    cluster.stop(old).await;
    std::fs::remove_dir_all(&path)?;
    std::fs::rename(&copy, &path)?;
    cluster.start(old).await?;
    let sentence = format!("node {number} has lost its log: replace it");
    let told = within(20, || async {
        let members = cluster.node(leader).status().ok()?.members;
        members.into_iter().find(|member| member.trouble.as_ref() == Some(&sentence))
    });
    assert!(told.await.is_some(), "{:?}", cluster.node(leader).status());
    // The leader is the same, and goes on with the other one.
    client.put(row("oak", "last")).await?;
    assert_eq!(cluster.leader().await?, leader);
    cluster.stop(old).await;
    cluster.join(Some(number)).await?;
    let verified = verify(&mut client).await?;
    assert!(verified.is_equal() && verified.sums.len() == 3, "{verified:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_other_node_can_lead_while_a_lease_holds() -> Tested {
    let mut cluster = Cluster::of(3).await?;
    let at = cluster.leader().await?;
    let node = Arc::clone(cluster.node(at));
    let reign = leased(&node).await?;
    // Another one leads before it would have ended by itself.
    let next = cluster.node((at + 1) % 3).number();
    cluster.client().transfer(next).await?;
    assert!(!reign.lease().holds());
    assert!(reign.confirm(node.raft(), true).await.is_err() && !reign.lease().holds());

    // Who has forgotten that it follows a leader gives its vote to nobody for as long.
    let again = (0..3).find(|it| *it != at && cluster.node(*it).number() != next).unwrap();
    cluster.stop(again).await;
    let begun = Instant::now();
    cluster.start(again).await?;
    let mut link = cluster.client().connect(&cluster.addresses[again], None).await?;
    let (vote, last) = (Vote::new(1, 9), None);
    let asked = link.ask(&Request::Vote { vote, last, transfer: false, pre: true }).await?;
    assert!(matches!(asked, Reply::Vote { .. }) && begun.elapsed() >= Duration::from_millis(500));

    // A leader that is replaced, and one that has given its vote.
    let node = Arc::clone(cluster.node(cluster.leader().await?));
    let reign = leased(&node).await?;
    cluster.join(Some(node.number())).await?;
    assert!(!reign.lease().holds());
    let at = cluster.leader().await?;
    let node = Arc::clone(cluster.node(at));
    let reign = leased(&node).await?;
    let mut link = cluster.client().connect(&cluster.addresses[at], None).await?;
    for term in (1 << 20).. {
        // Refused, if something is in its log that is not applied.
        let (vote, last) = (Vote::new(term, 9), node.metrics().last_applied);
        let asked = link.ask(&Request::Vote { vote, last, transfer: true, pre: false }).await?;
        match asked {
            Reply::Vote { granted: true, .. } => break,
            asked => assert!(matches!(asked, Reply::Vote { .. }) && term < (1 << 20) + 100),
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert!(!reign.lease().holds());
    Ok(())
}

/// A reign whose lease holds.
async fn leased(node: &Node) -> Result<Proposer, Box<dyn Error>> {
    let reign = node.begin_reign().await;
    reign.confirm(node.raft(), false).await?;
    assert!(!reign.lease().holds(), "a majority that was asked gives no lease");
    let held = within(20, || async {
        reign.confirm(node.raft(), true).await.ok()?;
        reign.lease().holds().then_some(())
    });
    held.await.ok_or("no lease")?;
    Ok(reign)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_answered_without_a_majority() -> Tested {
    let mut cluster = Cluster::of(3).await?;
    let mut client = cluster.client();
    client.put(row("oak", "1")).await?;
    let leader = cluster.leader().await?;
    for other in (0..3).filter(|at| *at != leader) {
        cluster.stop(other).await;
    }
    let put = timeout(Duration::from_secs(3), client.put(row("oak", "2"))).await;
    assert!(!matches!(put, Ok(Ok(()))), "answered by one of three");
    let mut client = cluster.running_client();
    let get = timeout(Duration::from_secs(3), client.get("oak")).await;
    assert!(!matches!(get, Ok(Ok(_))), "read from one of three");
    // With a majority it goes on, from what was answered, or from what was not.
    cluster.start((leader + 1) % 3).await?;
    let found = cluster.running_client().get("oak").await?;
    assert!(found.as_deref() == Some(b"1") || found.as_deref() == Some(b"2"), "{found:?}");
    Ok(())
}

/// Files and folders, with their bytes.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &to)?,
            false => drop(std::fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watch_tells_of_rows_as_they_change() -> Tested {
    let cluster = Cluster::of(1).await?;
    let mut client = cluster.client();
    let (begun, mut told) = tokio::sync::mpsc::unbounded_channel();
    let mut watcher = cluster.client();
    let watching = tokio::spawn(async move {
        watcher.watch("tree ", |rows| begun.send(rows).is_ok()).await.map_err(|e| e.to_string())
    });
    assert_eq!(told.recv().await, Some(Vec::new()));
    client.put(row("herb mint", "Mentha")).await?;
    client.put(row("tree oak", "Quercus")).await?;
    client.put(vec![(b"tree oak".into(), None)]).await?;
    let mut last = None;
    while last != Some(None) {
        let rows = timeout(Duration::from_secs(10), told.recv()).await?.ok_or("no more")?;
        assert!(rows.iter().all(|(key, _)| key == b"tree oak"), "{rows:?}");
        last = rows.into_iter().last().map(|row| row.1);
    }
    drop(told);
    client.put(row("tree ash", "Fraxinus")).await?;
    assert_eq!(timeout(Duration::from_secs(10), watching).await??, Ok(()));
    Ok(())
}

/// The files of a certificate for the loopback, which is its own authority, and its key.
#[cfg(feature = "tls")]
fn certificate(folder: &Path, name: &str) -> Result<(PathBuf, PathBuf), Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let path = |end: &str| folder.join(format!("{name}.{end}"));
    std::fs::write(path("cert"), made.cert.pem())?;
    std::fs::write(path("key"), made.signing_key.serialize_pem())?;
    Ok((path("cert"), path("key")))
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_talk_by_tls_to_those_whom_they_trust() -> Tested {
    use everleaf_raft::Tls;

    let folder = tempfile::tempdir()?;
    let (own, key) = certificate(folder.path(), "own")?;
    let (other, _) = certificate(folder.path(), "other")?;
    let tls = Some(Tls::read(&own, Some((&own, &key)))?);
    let cluster = Cluster::with(2, NodeOptions { tls, ..NodeOptions::default() }).await?;
    cluster.client().put(row("oak", "Quercus")).await?;
    let secret = cluster.keys.secret.clone();
    for (tls, works) in [(Some(&own), true), (Some(&other), false), (None, false)] {
        let tls = tls.map(|authority| Tls::read(authority, None)).transpose()?;
        let keys = Keys { secret: secret.clone(), tls };
        let link = Client::new(Vec::new(), keys).connect(&cluster.addresses[0], None).await;
        assert_eq!(link.is_ok(), works, "{:?}", link.err());
    }
    assert!(Tls::read(&key, None).is_err_and(|why| why.contains("no certificate")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn other_machines_are_not_listened_to_without_tls() -> Tested {
    let cluster = Cluster::of(1).await?;
    let path = cluster.path(1);
    let address = free_address();
    prepare_to_join(
        &path,
        &address,
        &cluster.addresses[0],
        &cluster.keys,
        None,
        &Default::default(),
    )
    .await?;
    let listen = Some("0.0.0.0:0".to_owned());
    let open = NodeOptions { listen, ..NodeOptions::default() };
    let refused = Node::start(&path, open.clone()).await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("TLS"), "{refused}");
    let trusted = NodeOptions { trusted_network: true, ..open };
    let node = within(10, || async { Node::start(&path, trusted.clone()).await.ok() });
    node.await.ok_or("it does not start")?.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_connection_is_relayed_to_the_leader_and_no_further() -> Tested {
    let cluster = Cluster::of(2).await?;
    let leader = cluster.leader().await?;
    let (leads, follows) = (cluster.node(leader), cluster.node(1 - leader));
    let origin = Origin { protocol: "x".to_owned(), database: 3, ..Origin::default() };
    let refused = follows.relay(origin.clone()).await.err().ok_or("nobody takes it")?;
    assert!(refused.to_string().contains("serves no clients"), "{refused}");

    let mut relays = leads.relays();
    for node in [follows, leads] {
        let mut here = node.relay(origin.clone()).await?;
        let (came, mut there) = relays.recv().await.ok_or("no relay")?;
        assert_eq!(came, origin);
        // More than waits anywhere, in both directions; then one of them ends.
        let bytes: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
        let echo = tokio::spawn(async move {
            let mut got = Vec::new();
            there.read_to_end(&mut got).await?;
            there.write_all(&got).await?;
            there.shutdown().await
        });
        here.write_all(&bytes).await?;
        here.shutdown().await?;
        let mut got = Vec::new();
        here.read_to_end(&mut got).await?;
        assert!(got == bytes, "{} bytes came back", got.len());
        echo.await??;
    }

    let mut link = cluster.client().connect(follows.address(), None).await?;
    let reply = link.ask(&Request::Relay { origin }).await?;
    assert!(matches!(&reply, Reply::Failed(why) if why.contains("does not lead")), "{reply:?}");
    Ok(())
}
