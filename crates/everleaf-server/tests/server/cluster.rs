//! Nodes of clusters that are served. `EVERLEAF_TEST_CLUSTER=1` runs all other tests on clusters of
//! one as well.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use everleaf_raft::{
    Client, Keys, NodeOptions, PoolOptions, Secret, block_on, init, prepare_to_join, verify,
};
use everleaf_server::{ClusterOptions, ServeOptions, Server};

use crate::common::{PATIENCE, Served, options, tcp};
use crate::redis::Redis;

fn both() -> ServeOptions {
    ServeOptions { redis: vec!["127.0.0.1:0".parse().unwrap()], ..options() }
}

fn redis(server: &Server) -> SocketAddr {
    tcp(&server.redis_addresses()[0])
}

#[test]
fn a_cluster_of_one_answers_as_a_server_does_and_has_all_after_a_restart() {
    let mut served = Served::clustered(both());
    let (mut client, mut items) = (Redis::connect(redis(&served.server)), served.memcached());
    assert_eq!(client.ask("MSET a 1 b 2"), "+OK\r\n");
    items.ask("incr a 4\r\nget a\r\n", "5\r\nVALUE a 0 1\r\n5\r\nEND\r\n");
    if cfg!(feature = "scripts") {
        let script: &[u8] = b"return redis.call('incr', KEYS[1]) + redis.call('get', KEYS[1])";
        assert_eq!(client.ask_bytes(&[b"EVAL", script, b"1", b"b"]), b":6\r\n");
        assert_eq!(client.ask("DECR b"), ":2\r\n");
    }
    let many: Vec<String> = (0..3_000).map(|n| format!("{n} m{n}")).collect();
    assert_eq!(client.ask(&format!("ZADD z {}", many.join(" "))), ":3000\r\n");
    assert_eq!(client.ask("ZRANK z m2048"), ":2048\r\n");
    assert_eq!(client.ask("ZREM z m7"), ":1\r\n");
    assert_eq!(client.ask("ZRANK z m2048"), ":2047\r\n");
    assert_eq!(client.ask("SADD s x y z"), ":3\r\n");
    assert_eq!(client.ask("DBSIZE"), ":4\r\n");
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    for line in ["RENAME s t", "INCR b", "SCARD t"] {
        assert_eq!(client.ask(line), "+QUEUED\r\n");
    }
    assert_eq!(client.ask("EXEC"), "*3\r\n+OK\r\n:3\r\n:3\r\n");
    // Replies in parts, of what is ahead of the store and of what is in it.
    let listed = client.ask("ZRANGE z 0 -1");
    assert_eq!(listed.matches("\r\nm").count(), 2_999);
    assert_eq!(client.ask("KEYS *").matches('$').count(), 4);
    assert_eq!(client.ask("SELECT 3"), "+OK\r\n");
    assert_eq!(client.ask("SET gone 1"), "+OK\r\n");
    assert_eq!(client.ask("FLUSHDB"), "+OK\r\n");
    assert_eq!(client.ask("GET gone"), "$-1\r\n");
    assert_eq!(client.ask("EXISTS gone"), ":0\r\n");
    for _ in 0..2 {
        served = served.restarted();
        let mut client = Redis::connect(redis(&served.server));
        assert_eq!(client.ask("MGET a b"), "*2\r\n$1\r\n5\r\n$1\r\n3\r\n");
        assert_eq!(client.ask("DBSIZE"), ":4\r\n");
        assert_eq!(client.ask("ZRANK z m2048"), ":2047\r\n");
    }
}

#[test]
fn a_write_of_more_than_a_group_may_have_is_refused_whole() {
    let served = Served::clustered(both());
    let mut client = Redis::connect(redis(&served.server));
    let half = vec![b'x'; 40 << 20];
    let told = client.ask_bytes(&[b"MSET", b"a", &half, b"b", &half]);
    let told = String::from_utf8_lossy(&told);
    assert!(told.starts_with("-ERR ") && told.contains("67108864 are allowed"), "{told}");
    assert_eq!(client.ask("EXISTS a b"), ":0\r\n");
    assert_eq!(client.ask_bytes(&[b"SET", b"a", &half]), b"+OK\r\n");
    assert_eq!(client.ask("STRLEN a"), format!(":{}\r\n", half.len()));
}

/// What is nearly full takes what removes, and nothing that adds.
#[test]
fn a_node_without_room_refuses_what_adds_and_lives_on() {
    let served = Served::clustered_in(32 << 20, both());
    let mut client = Redis::connect(redis(&served.server));
    let value = vec![b'x'; 32 << 10];
    let told = |client: &mut Redis, key: usize| {
        client.ask_bytes(&[b"SET", format!("key{key}").as_bytes(), &value])
    };
    let full = (0..1_000).find(|key| told(&mut client, *key) != b"+OK\r\n").unwrap();
    assert!(told(&mut client, full).starts_with(b"-OOM "));
    assert!(full > 200, "{full} keys");
    assert_eq!(client.ask("GET key0").len(), value.len() + 10);
    let end = Instant::now() + PATIENCE;
    let mut removed = 0;
    while told(&mut client, full) != b"+OK\r\n" {
        assert!(Instant::now() < end);
        assert_eq!(client.ask(&format!("DEL key{removed}")), ":1\r\n");
        removed += 1;
    }
    assert_eq!(client.ask(&format!("EXISTS key0 key{full}")), ":1\r\n");
    assert_eq!(client.ask("FLUSHALL"), "+OK\r\n");
}

/// Nodes of one cluster.
struct Nodes {
    folder: tempfile::TempDir,
    addresses: Vec<String>,
    servers: Vec<Option<Server>>,
    keys: Keys,
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

impl Nodes {
    fn of(nodes: usize) -> Self {
        let (folder, first) = (tempfile::tempdir().unwrap(), free_address());
        let path = folder.path().join("0");
        let secret = block_on(init(&path, &first, &PoolOptions::default())).unwrap().unwrap();
        let keys = Keys { secret: Secret::read(&secret).unwrap(), tls: None };
        let mut these = Self { folder, addresses: vec![first.clone()], servers: vec![None], keys };
        these.start(0);
        for at in 1..nodes {
            let (path, address) = (these.path(at), free_address());
            let (keys, pools) = (&these.keys, PoolOptions::default());
            let joins = prepare_to_join(&path, &address, &first, keys, None, &pools);
            block_on(joins).unwrap().unwrap();
            these.addresses.push(address);
            these.servers.push(None);
            these.start(at);
        }
        let all = |client: &mut Client| {
            let asked = block_on(client.status_of_leader()).unwrap();
            asked.is_ok_and(|it| it.members.iter().filter(|it| it.voter).count() == nodes)
        };
        these.until(all);
        these
    }

    fn path(&self, at: usize) -> PathBuf {
        self.folder.path().join(at.to_string())
    }

    fn start(&mut self, at: usize) {
        let (folder, node) = (self.path(at), NodeOptions::default());
        let how = ClusterOptions { folder, node, ..ClusterOptions::default() };
        self.servers[at] = Some(Server::start_node(how, both()).unwrap());
    }

    fn client(&self) -> Client {
        let runs = self.addresses.iter().zip(&self.servers).filter(|(_, node)| node.is_some());
        Client::new(runs.map(|(address, _)| address.clone()).collect(), self.keys.clone())
    }

    fn until(&self, mut is_so: impl FnMut(&mut Client) -> bool) {
        let (mut client, end) = (self.client(), Instant::now() + PATIENCE);
        while !is_so(&mut client) {
            assert!(Instant::now() < end, "{:?}", block_on(client.status()));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Which one leads; another one than `not`.
    fn leader(&self, not: Option<usize>) -> usize {
        let end = Instant::now() + PATIENCE;
        loop {
            let leads = |server: &Option<Server>| {
                server.as_ref().is_some_and(|server| server.shared().is_some())
            };
            match self.servers.iter().position(leads).filter(|at| Some(*at) != not) {
                Some(at) => return at,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
            assert!(Instant::now() < end, "nobody leads");
        }
    }

    fn redis(&self, at: usize) -> Redis {
        Redis::connect(redis(self.servers[at].as_ref().unwrap()))
    }
}

#[test]
fn what_one_leader_has_answered_the_next_ones_have() {
    let mut nodes = Nodes::of(3);
    let mut leader = nodes.leader(None);
    for round in 0..3 {
        let mut client = nodes.redis(leader);
        for n in 0..200 {
            assert_eq!(client.ask(&format!("SET key{n} {round}")), "+OK\r\n");
            assert_eq!(client.ask(&format!("RPUSH list {round}.{n}")).as_bytes()[0], b':');
        }
        let last = leader;
        if round == 0 {
            // Another one is to lead: connections end, and the node follows.
            let next = (leader + 1) % 3;
            let number = nodes.servers[next].as_ref().unwrap().number().unwrap();
            block_on(nodes.client().transfer(number)).unwrap().unwrap();
            assert!(client.is_closed());
        } else {
            // It is stopped: before that another one leads.
            nodes.servers[leader].take().unwrap().stop();
            assert!(client.is_closed());
        }
        leader = nodes.leader(Some(last));
        let mut client = nodes.redis(leader);
        assert_eq!(client.ask("LLEN list"), format!(":{}\r\n", 200 * (round + 1)));
        assert_eq!(client.ask("GET key199"), format!("$1\r\n{round}\r\n"));
        assert_eq!(client.ask("DBSIZE"), ":201\r\n");
        if nodes.servers[last].is_none() {
            nodes.start(last);
        }
    }
    nodes.until(|client| {
        let verified = block_on(verify(client)).unwrap();
        verified.is_ok_and(|all| all.is_equal() && all.sums.len() == 3)
    });
}

/// Neither writes nor reads: another leader may have written meanwhile.
#[test]
fn nothing_is_told_without_a_majority() {
    let mut nodes = Nodes::of(3);
    let leader = nodes.leader(None);
    let mut client = nodes.redis(leader);
    assert_eq!(client.ask("SET a 1"), "+OK\r\n");
    let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    others.iter().for_each(|at| nodes.servers[*at].take().unwrap().stop());
    for line in ["SET a 2", "GET a", "INCR n", "DBSIZE"] {
        let mut client = nodes.redis(leader);
        client.stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        client.send(line);
        let mut told = [0];
        // Nothing comes in time, the connection ends, or it is said that nobody leads.
        if let Ok(bytes) = client.stream.read(&mut told) {
            assert!(bytes == 0 || told == *b"-", "{line}: {told:?}");
        }
    }
    // By and by the last leader says so.
    let server = nodes.servers[leader].as_ref().unwrap();
    let end = Instant::now() + PATIENCE;
    while server.shared().is_some() {
        assert!(Instant::now() < end, "it goes on without a majority");
        std::thread::sleep(Duration::from_millis(20));
    }
    others.iter().for_each(|at| nodes.start(*at));
    // One of them leads by and by; what the last leader had proposed may have been done.
    let end = Instant::now() + PATIENCE;
    loop {
        let mut client = nodes.redis(nodes.leader(None));
        client.send("GET a");
        let mut told = [0; 7];
        if client.stream.read_exact(&mut told).is_ok() {
            assert!([b"$1\r\n1\r\n", b"$1\r\n2\r\n"].contains(&&told), "{told:?}");
            break;
        }
        assert!(Instant::now() < end, "nobody answers");
    }
}
