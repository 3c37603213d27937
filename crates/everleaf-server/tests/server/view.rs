//! What a node of a cluster tells of it: the shapes that stock clients read. The cluster is a made
//! one; real ones are in `nodes.rs`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf::Clock;
use everleaf_server::{Look, Member, ServeOptions, View};

use crate::common::{Served, cluster, options, tcp};
use crate::redis::{Redis, serve};

/// Three nodes; the first one is asked, and `leader` leads, 0: nobody.
fn view(leader: u64) -> View {
    let member = |id: u64| Member {
        id,
        raft: format!("10.0.0.{id}:7400"),
        redis: Some(format!("10.0.0.{id}:6379")),
        votes: true,
        matched: (id != 3).then_some(7),
    };
    View {
        cluster: "abc".to_owned(),
        me: 1,
        leader: (leader > 0).then_some(leader),
        term: 4,
        committed: 7,
        members: [1, 2, 3].map(member).to_vec(),
    }
}

/// A server that believes in these nodes, and who leads them.
fn node() -> (Served, SocketAddr, Arc<AtomicU64>) {
    let leader = Arc::new(AtomicU64::new(1));
    let seen = Arc::clone(&leader);
    let look = Look(Arc::new(move || view(seen.load(Ordering::Relaxed))));
    let any = vec!["127.0.0.1:0".parse().unwrap()];
    let options = ServeOptions { look: Some(look), redis: any, ..options() };
    let served = Served::with(options, Clock::system());
    let address = tcp(&served.server.redis_addresses()[0]);
    (served, address, leader)
}

/// Whether all servers are real nodes, which do not believe in made ones.
fn are_real() -> bool {
    cluster::is_wanted()
}

fn id(node: u64) -> String {
    format!("{node:016x}000000000000000000000abc")
}

#[test]
fn one_shard_has_all_slots_and_its_leader_is_the_first() {
    if are_real() {
        return;
    }
    let (_served, address, leader) = node();
    let mut redis = Redis::connect(address);
    let of =
        |node: u64| format!("*4\r\n$8\r\n10.0.0.{node}\r\n:6379\r\n$40\r\n{}\r\n*0\r\n", id(node));
    let slots = |nodes: [u64; 3]| format!("*1\r\n*5\r\n:0\r\n:16383\r\n{}", nodes.map(of).concat());
    assert_eq!(redis.ask("CLUSTER SLOTS"), slots([1, 2, 3]));
    leader.store(2, Ordering::Relaxed);
    assert_eq!(redis.ask("CLUSTER SLOTS"), slots([2, 1, 3]));
    assert_eq!(redis.ask("cluster myid"), format!("$40\r\n{}\r\n", id(1)));
    let said = redis.ask("CLUSTER NODES");
    let lines: Vec<&str> = said.lines().skip(1).filter(|line| !line.is_empty()).collect();
    let (one, two) = (id(1), id(2));
    assert_eq!(lines.len(), 3, "{said}");
    assert_eq!(
        lines[..2],
        [
            format!("{one} 10.0.0.1:6379@7400 myself,slave {two} 0 0 4 connected"),
            format!("{two} 10.0.0.2:6379@7400 master - 0 0 4 connected 0-16383"),
        ]
    );
    let said = redis.ask("CLUSTER SHARDS");
    assert!(said.starts_with(
        "*1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:16383\r\n$5\r\nnodes\r\n*3\r\n*14\r\n"
    ));
    let said = redis.ask("CLUSTER INFO");
    assert!(said.contains("cluster_state:ok") && said.contains("cluster_known_nodes:3"), "{said}");
    leader.store(0, Ordering::Relaxed);
    assert_eq!(redis.ask("CLUSTER SLOTS"), "-CLUSTERDOWN no leader\r\n");
    assert!(redis.ask("CLUSTER INFO").contains("cluster_state:fail"));
    for request in ["READONLY", "READWRITE", "ASKING"] {
        assert_eq!(redis.ask(request), "+OK\r\n");
    }
    assert!(redis.ask("CLUSTER MEET a 1").starts_with("-ERR unknown subcommand 'MEET'"));
    assert!(redis.ask("CLUSTER KEYSLOT").starts_with("-ERR wrong number of arguments"));
}

#[test]
fn keys_of_a_slot_are_found_in_the_selected_database() {
    if are_real() {
        return;
    }
    let (_served, address, _) = node();
    let mut redis = Redis::connect(address);
    assert_eq!(redis.ask("CLUSTER KEYSLOT {user1000}.following"), ":3443\r\n");
    redis.ask("MSET {t}1 a {t}2 b other c");
    let slot = redis.ask("CLUSTER KEYSLOT {t}1");
    let slot = slot[1..].trim_end();
    assert_eq!(redis.ask(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), ":2\r\n");
    let said = redis.ask(&format!("CLUSTER GETKEYSINSLOT {slot} 1"));
    assert_eq!(said, "*1\r\n$4\r\n{t}1\r\n");
    assert_eq!(redis.ask("CLUSTER COUNTKEYSINSLOT 16384"), "-ERR Invalid slot\r\n");
    // One shard: keys of several slots in one command, and more than one database.
    assert_eq!(redis.ask("SELECT 3"), "+OK\r\n");
    assert_eq!(redis.ask(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), ":0\r\n");
}

#[test]
fn each_node_is_a_sentinel() {
    if are_real() {
        return;
    }
    let (_served, address, leader) = node();
    let mut redis = Redis::connect(address);
    leader.store(2, Ordering::Relaxed);
    let place = "*2\r\n$8\r\n10.0.0.2\r\n$4\r\n6379\r\n";
    assert_eq!(redis.ask("SENTINEL get-master-addr-by-name mymaster"), place);
    assert_eq!(redis.ask("SENTINEL get-master-addr-by-name other"), "*-1\r\n");
    let said = redis.ask("SENTINEL MASTERS");
    for part in ["*1\r\n*", "\r\nmymaster\r\n", "$5\r\nflags\r\n$6\r\nmaster\r\n", "10.0.0.2"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let said = redis.ask("SENTINEL replicas mymaster");
    assert!(said.starts_with("*2\r\n") && said.contains("10.0.0.1:6379"), "{said}");
    assert_eq!(said, redis.ask("SENTINEL slaves mymaster"));
    assert!(!said.contains("10.0.0.2:6379"), "{said}");
    let said = redis.ask("SENTINEL sentinels mymaster");
    assert!(said.starts_with("*2\r\n") && !said.contains("10.0.0.1:6379"), "{said}");
    assert!(redis.ask("SENTINEL ckquorum mymaster").starts_with("+OK 3 usable Sentinels"));
    let unknown = "-ERR No such master with that name\r\n";
    assert_eq!(redis.ask("SENTINEL replicas other"), unknown);
    leader.store(0, Ordering::Relaxed);
    assert_eq!(redis.ask("SENTINEL MASTERS"), "*0\r\n");
    assert_eq!(redis.ask("SENTINEL get-master-addr-by-name mymaster"), "*-1\r\n");
    assert_eq!(redis.ask("SENTINEL ckquorum mymaster"), "-NOQUORUM no leader\r\n");
}

#[test]
fn roles_are_told_as_they_are() {
    if are_real() {
        return;
    }
    let (_served, address, leader) = node();
    let mut redis = Redis::connect(address);
    let replica =
        |node: u64, at: &str| format!("*3\r\n$8\r\n10.0.0.{node}\r\n$4\r\n6379\r\n$1\r\n{at}\r\n");
    let leads = ["*3\r\n$6\r\nmaster\r\n:7\r\n*2\r\n", &replica(2, "7"), &replica(3, "0")].concat();
    assert_eq!(redis.ask("ROLE"), leads);
    let said = redis.ask("INFO replication");
    for line in ["role:master", "connected_slaves:2", "slave0:ip=10.0.0.2,port=6379,state=online"] {
        assert!(said.contains(line), "{line} in {said}");
    }
    assert!(redis.ask("INFO cluster").contains("cluster_enabled:1"));
    leader.store(3, Ordering::Relaxed);
    let follows = "*5\r\n$5\r\nslave\r\n$8\r\n10.0.0.3\r\n:6379\r\n$9\r\nconnected\r\n:7\r\n";
    assert_eq!(redis.ask("ROLE"), follows);
    let said = redis.ask("INFO replication");
    for line in ["role:slave", "master_host:10.0.0.3", "master_link_status:up"] {
        assert!(said.contains(line), "{line} in {said}");
    }
    assert!(redis.ask("HELLO 2").contains("$7\r\nreplica\r\n"));
}

#[test]
fn wait_counts_who_has_everything() {
    if are_real() {
        return;
    }
    let (_served, address, _) = node();
    let mut redis = Redis::connect(address);
    // A majority has what is answered; the second node has said so, the third one never does.
    assert_eq!(redis.ask("WAIT 0 0"), ":1\r\n");
    assert_eq!(redis.ask("WAIT 1 0"), ":1\r\n");
    assert_eq!(redis.ask("WAIT 2 30"), ":1\r\n");
    assert_eq!(redis.ask("WAITAOF 1 2 30"), "*2\r\n:1\r\n:1\r\n");
}

#[test]
fn a_server_that_is_alone_knows_nothing_of_clusters() {
    if are_real() {
        return;
    }
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    for request in ["CLUSTER SLOTS", "SENTINEL masters", "READONLY", "READWRITE", "ASKING"] {
        let said = redis.ask(request);
        assert!(said.starts_with("-ERR unknown command"), "{request}: {said}");
    }
    assert_eq!(redis.ask("COMMAND INFO cluster"), "*1\r\n$-1\r\n");
    assert!(!redis.ask("COMMAND LIST").contains("sentinel"));
    assert!(redis.ask("INFO").contains("cluster_enabled:0"));
    assert_eq!(redis.ask("ROLE"), "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
}
