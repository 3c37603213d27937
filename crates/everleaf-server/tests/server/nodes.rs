//! Three nodes of a cluster in one process, and clients that know one, all or nothing of them.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use everleaf_raft::{Keys, PoolOptions, Secret, block_on, init, prepare_to_join};
use everleaf_server::{Address, ClusterOptions, ServeOptions, Server};
use tempfile::TempDir;

use crate::common::{Client, PATIENCE};
use crate::redis::Redis;

const PASSWORD: &str = "secret";

/// Where a node is reached.
struct Place {
    folder: PathBuf,
    raft: String,
    redis: SocketAddr,
    memcached: SocketAddr,
    metrics: SocketAddr,
}

struct Cluster {
    places: Vec<Place>,
    nodes: Vec<Option<Server>>,
    options: ServeOptions,
    folder: TempDir,
}

/// Addresses that nobody listens at.
fn free<const N: usize>() -> [SocketAddr; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.each_ref().map(|listener| listener.local_addr().unwrap())
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} never happens");
        sleep(Duration::from_millis(20));
    }
}

impl Cluster {
    /// Three nodes that have joined, and know each other's addresses.
    fn new(options: ServeOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (places, nodes) = (Vec::new(), Vec::new());
        let mut cluster = Self { places, nodes, options, folder };
        for at in 0..3 {
            let [raft, redis, memcached, metrics] = free();
            let (path, raft) = (cluster.folder.path().join(at.to_string()), raft.to_string());
            let pools = PoolOptions::default();
            if at == 0 {
                block_on(init(&path, &raft, &pools)).unwrap().unwrap();
            } else {
                let keys = cluster.keys();
                let via = &cluster.places[0].raft;
                let made = prepare_to_join(&path, &raft, via, &keys, None, &pools);
                block_on(made).unwrap().unwrap();
            }
            cluster.places.push(Place { folder: path, raft, redis, memcached, metrics });
            cluster.nodes.push(None);
            cluster.start(at);
            until("joining", || (cluster.known(at) == at + 1).then_some(()));
        }
        until("to know each other", || (0..3).all(|at| cluster.known(at) == 3).then_some(()));
        until("to vote", || cluster.all_know_that_all_vote().then_some(()));
        cluster
    }

    /// Who has joined is known before it votes.
    fn all_know_that_all_vote(&self) -> bool {
        let mut client = everleaf_raft::Client::new(vec![self.places[0].raft.clone()], self.keys());
        let Ok(status) = block_on(async { client.status().await }).unwrap() else { return false };
        let all = [&[status.by][..], &status.others].concat();
        let vote = |node: &everleaf_raft::NodeStatus| {
            node.members.iter().filter(|member| member.voter).count() == 3
        };
        all.len() == 3 && all.iter().all(vote)
    }

    fn keys(&self) -> Keys {
        let secret = self.folder.path().join("0/secret");
        Keys { secret: Secret::read(&secret).unwrap(), tls: None }
    }

    fn start(&mut self, at: usize) {
        let place = &self.places[at];
        let node = ClusterOptions { folder: place.folder.clone(), ..ClusterOptions::default() };
        let here = |address: SocketAddr| vec![Address::Tcp(address)];
        let options = ServeOptions {
            redis: here(place.redis),
            memcached: here(place.memcached),
            metrics: here(place.metrics),
            threads: 2,
            ..self.options.clone()
        };
        self.nodes[at] =
            Some(until("a start", || Server::start_node(node.clone(), options.clone()).ok()));
    }

    fn stop(&mut self, at: usize) {
        self.nodes[at].take().unwrap().stop();
    }

    fn redis(&self, at: usize) -> Redis {
        let mut client = Redis::connect(self.places[at].redis);
        if self.options.redis_password.is_some() {
            assert_eq!(client.ask(&format!("AUTH {PASSWORD}")), "+OK\r\n");
        }
        client
    }

    /// How many nodes one knows with the address of their clients.
    fn known(&self, at: usize) -> usize {
        self.redis(at).ask("CLUSTER NODES").lines().filter(|line| line.contains('@')).count()
    }

    fn leader(&self) -> usize {
        let leads = |node: &Option<Server>| node.as_ref().is_some_and(|it| it.shared().is_some());
        until("a leader", || self.nodes.iter().position(leads))
    }

    /// Those that do not lead, when all of them know who does.
    fn followers(&self) -> [usize; 2] {
        let leader = self.leader();
        let followers = [(leader + 1) % 3, (leader + 2) % 3];
        let port = self.places[leader].redis.port().to_string();
        until("to know who leads", || {
            let knows = |at: &usize| {
                let asked = "SENTINEL get-master-addr-by-name mymaster";
                self.nodes[*at].is_none() || self.redis(*at).ask(asked).contains(&port)
            };
            followers.iter().all(knows).then_some(())
        });
        followers
    }

    /// The status of an answer by HTTP.
    fn http(&self, at: usize, path: &str) -> String {
        let mut client = Client::connect(self.places[at].metrics);
        client.send(format!("GET {path} HTTP/1.1\r\n\r\n"));
        let said = String::from_utf8(client.rest()).unwrap();
        said.split(' ').nth(1).unwrap_or_default().to_owned()
    }
}

#[test]
fn a_client_that_knows_one_node_sees_what_others_have_written_at_once() {
    let cluster = Cluster::new(ServeOptions::default());
    let [one, other] = cluster.followers();
    let leader = cluster.leader();
    let [mut first, mut second, mut third] = [one, other, leader].map(|at| cluster.redis(at));
    for number in 0..50 {
        let value = format!("${}\r\n{number}\r\n", number.to_string().len());
        assert_eq!(first.ask(&format!("SET k {number}")), "+OK\r\n");
        assert_eq!(second.ask("GET k"), value);
        assert_eq!(third.ask("GET k"), value);
    }
    // What was agreed on before is kept, and what is of this connection.
    let mut client = cluster.redis(one);
    assert!(client.ask("HELLO 3").starts_with("%7\r\n"));
    assert_eq!(client.ask("SELECT 5"), "+OK\r\n");
    assert_eq!(client.ask("CLIENT SETNAME me"), "+OK\r\n");
    assert_eq!(client.ask("HSET h f v"), ":1\r\n");
    assert_eq!(client.ask("HGETALL h"), "%1\r\n$1\r\nf\r\n$1\r\nv\r\n");
    assert_eq!(client.ask("CLIENT GETNAME"), "$2\r\nme\r\n");
    assert_eq!(third.ask("EXISTS h"), ":0\r\n");
    assert_eq!(third.ask("SELECT 5"), "+OK\r\n");
    assert_eq!(third.ask("EXISTS h"), ":1\r\n");
    // A request that is longer than what a relay holds, by pieces, and many requests at once.
    let value = vec![b'v'; 3 << 20];
    let mut client = cluster.redis(other);
    assert_eq!(client.ask_bytes(&[b"SET", b"long", &value]), b"+OK\r\n");
    assert_eq!(client.ask("STRLEN long"), ":3145728\r\n");
    let mut client = Client::connect(cluster.places[one].redis);
    client.send("INCR n\r\n".repeat(5_000));
    client.expect((1..=5_000).map(|number| format!(":{number}\r\n")).collect::<String>());
    // Messages, transactions and waiting clients are the leader's.
    let mut subscriber = cluster.redis(one);
    assert_eq!(subscriber.ask("SUBSCRIBE news"), "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(second.ask("PUBLISH news x"), ":1\r\n");
    assert_eq!(subscriber.next(), "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n");
    let mut pops = cluster.redis(other);
    pops.send("BLPOP l 0");
    assert_eq!(first.ask("MULTI"), "+OK\r\n");
    assert_eq!(first.ask("RPUSH l a"), "+QUEUED\r\n");
    assert_eq!(first.ask("EXEC"), "*1\r\n:1\r\n");
    assert_eq!(pops.next(), "*2\r\n$1\r\nl\r\n$1\r\na\r\n");
    // A half that is closed leaves the other one.
    let mut client = Client::connect(cluster.places[one].redis);
    client.send("GET k\r\n");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.rest(), b"$2\r\n49\r\n");
    let mut memcached = Client::connect(cluster.places[other].memcached);
    memcached.ask("set m 0 0 1\r\nx\r\nget m\r\n", "STORED\r\nVALUE m 0 1\r\nx\r\nEND\r\n");
    assert_eq!(first.ask("GET m"), "$1\r\nx\r\n");
    assert_eq!(cluster.http(leader, "/leader"), "200");
    assert_eq!(cluster.http(one, "/leader"), "503");
    assert_eq!(cluster.http(one, "/health"), "200");
}

#[test]
fn a_client_that_knows_clusters_is_sent_to_the_leader() {
    let cluster = Cluster::new(ServeOptions::default());
    let [one, _] = cluster.followers();
    let leader = cluster.places[cluster.leader()].redis;
    for begins in ["CLUSTER SLOTS", "READONLY", "ASKING"] {
        let mut client = cluster.redis(one);
        // What clients try first, and may not be there, keeps the connection here.
        assert!(client.ask("CLIENT MAINT_NOTIFICATIONS ON").starts_with("-ERR unknown"));
        assert_eq!(client.ask("CLIENT SETINFO LIB-NAME x"), "+OK\r\n");
        assert!(!client.ask(begins).starts_with('-'));
        let moved = format!("-MOVED 12182 {leader}\r\n");
        assert_eq!(client.ask("GET foo"), moved);
        assert_eq!(client.ask("SET foo bar"), moved);
        assert_eq!(client.ask("DBSIZE"), format!("-MOVED 0 {leader}\r\n"));
        assert_eq!(client.ask("PING"), "+PONG\r\n");
        assert!(client.ask("ROLE").starts_with("*5\r\n$5\r\nslave\r\n"));
        assert_eq!(client.ask("MULTI"), "+OK\r\n");
        assert_eq!(client.ask("INCR foo"), moved);
        assert!(client.ask("EXEC").starts_with("-EXECABORT"));
        assert_eq!(client.ask("EXEC"), "-ERR EXEC without MULTI\r\n");
        assert_eq!(client.ask("NONSENSE")[..20], *"-ERR unknown command");
    }
    let mut client = Redis::connect(leader);
    assert!(!client.ask("CLUSTER SLOTS").starts_with('-'));
    assert_eq!(client.ask("MSET foo 1 bar 2"), "+OK\r\n");
    assert_eq!(client.ask("WAIT 1 1000"), ":1\r\n");
    assert_eq!(client.ask("WAIT 2 10000"), ":2\r\n");
}

#[test]
fn a_password_that_one_node_has_asked_for_is_not_asked_for_again() {
    let redis_password = Some(PASSWORD.as_bytes().to_vec());
    let cluster = Cluster::new(ServeOptions { redis_password, ..ServeOptions::default() });
    let [one, _] = cluster.followers();
    let mut client = Redis::connect(cluster.places[one].redis);
    assert_eq!(client.ask("GET k"), "-NOAUTH Authentication required.\r\n");
    assert!(client.ask("AUTH wrong").starts_with("-WRONGPASS"));
    assert_eq!(client.ask("AUTH secret"), "+OK\r\n");
    assert_eq!(client.ask("SET k v"), "+OK\r\n");
    assert_eq!(client.ask("GET k"), "$1\r\nv\r\n");
}

/// Writes until it is told to stop, by any node that answers: the numbers that were acknowledged.
fn write(
    addresses: Vec<SocketAddr>,
    name: String,
    is_over: Arc<AtomicBool>,
) -> JoinHandle<Vec<u64>> {
    use std::io::{Read, Write};
    spawn(move || {
        let (mut done, mut stream, mut at) = (Vec::new(), None, 0);
        for number in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let mut ask = || -> std::io::Result<bool> {
                let stream = match &mut stream {
                    Some(stream) => stream,
                    None => {
                        at += 1;
                        let new = std::net::TcpStream::connect(addresses[at % addresses.len()])?;
                        new.set_read_timeout(Some(Duration::from_secs(10)))?;
                        stream.insert(new)
                    }
                };
                stream.write_all(format!("SET {name}-{number} {number}\r\n").as_bytes())?;
                let mut reply = [0; 5];
                stream.read_exact(&mut reply)?;
                Ok(reply == *b"+OK\r\n")
            };
            match ask() {
                Ok(true) => done.push(number),
                _ => {
                    stream = None;
                    sleep(Duration::from_millis(50));
                }
            }
        }
        done
    })
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_another_node_leads() {
    let mut cluster = Cluster::new(ServeOptions::default());
    let addresses: Vec<SocketAddr> = cluster.places.iter().map(|place| place.redis).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|at| {
            let mut addresses = addresses.clone();
            addresses.rotate_left(at % 3);
            write(addresses, format!("w{at}"), Arc::clone(&is_over))
        })
        .collect();
    for _ in 0..3 {
        let [one, _] = cluster.followers();
        let leader = cluster.leader();
        let mut sentinel = cluster.redis(one);
        assert!(sentinel.ask("SUBSCRIBE +switch-master").starts_with("*3\r\n"));
        let mut relayed = cluster.redis(one);
        assert_eq!(relayed.ask("SET k v"), "+OK\r\n");
        let old = cluster.places[leader].redis;
        cluster.stop(leader);
        assert!(relayed.is_closed());
        let next = cluster.leader();
        let new = cluster.places[next].redis;
        let told = sentinel.next();
        let (old, new) = (old.to_string().replace(':', " "), new.to_string().replace(':', " "));
        assert!(told.contains(&format!("mymaster {old} {new}")), "{told}");
        cluster.followers();
        sleep(Duration::from_millis(300)); // Some are written by the new one.
        cluster.start(leader);
    }
    is_over.store(true, Ordering::Relaxed);
    let [one, _] = cluster.followers();
    let mut client = cluster.redis(one);
    for (at, writer) in writers.into_iter().enumerate() {
        let done = writer.join().unwrap();
        assert!(done.len() > 50, "{} were acknowledged", done.len());
        for number in done {
            let value = format!("${}\r\n{number}\r\n", number.to_string().len());
            assert_eq!(client.ask(&format!("GET w{at}-{number}")), value, "{number} of {at}");
        }
    }
}

#[test]
fn without_a_majority_clients_are_told_so() {
    let mut cluster = Cluster::new(ServeOptions::default());
    let [one, other] = cluster.followers();
    let leader = cluster.leader();
    let mut relayed = cluster.redis(one);
    assert_eq!(relayed.ask("SET k v"), "+OK\r\n");
    cluster.stop(other);
    cluster.stop(leader);
    assert!(relayed.is_closed());
    // It may have begun to lead when it was alone.
    cluster.stop(one);
    cluster.start(one);
    let no_leader = "-CLUSTERDOWN no leader\r\n";
    until("no leader", || (cluster.redis(one).ask("CLUSTER SLOTS") == no_leader).then_some(()));
    assert_eq!(cluster.redis(one).ask("GET k"), no_leader);
    let mut client = cluster.redis(one);
    assert_eq!(client.ask("READONLY"), "+OK\r\n");
    assert_eq!(client.ask("GET k"), no_leader);
    assert_eq!(client.ask("SENTINEL MASTERS"), "*0\r\n");
    let mut memcached = Client::connect(cluster.places[one].memcached);
    memcached.send("get k\r\n");
    assert_eq!(memcached.rest(), b"SERVER_ERROR no leader\r\n");
    cluster.start(other);
    let mut client = until("a leader", || {
        let mut client = cluster.redis(one);
        (client.ask("GET k") == "$1\r\nv\r\n").then_some(client)
    });
    assert_eq!(client.ask("SET k w"), "+OK\r\n");
}
