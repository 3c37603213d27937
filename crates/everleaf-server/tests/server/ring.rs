//! Two machines as a ring behind nutcracker (twemproxy): where keys go, what is left when one of
//! the two is gone, and how keys move when a third one comes.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use everleaf::Clock;
use everleaf_server::{Address, ServeOptions};

use crate::common::{Client, Served, options};
use crate::redis::Redis;
use crate::stock::installed;

const KEYS: usize = 600;

fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A machine of the ring, which has the same addresses when it comes again.
struct Machine {
    served: Served,
    memcached: SocketAddr,
    redis: SocketAddr,
}

impl Machine {
    fn new() -> Self {
        let (memcached, redis) = (free_port(), free_port());
        let (of_memcached, of_redis) = (Address::Tcp(memcached), Address::Tcp(redis));
        let options =
            ServeOptions { memcached: vec![of_memcached], redis: vec![of_redis], ..options() };
        Self { served: Served::with(options, Clock::system()), memcached, redis }
    }
}

/// nutcracker before some machines: one port for each protocol. It is killed when this is dropped.
struct Ring {
    process: Child,
    memcached: SocketAddr,
    redis: SocketAddr,
}

impl Drop for Ring {
    fn drop(&mut self) {
        let _ = self.process.kill(); // It may have ended.
        let _ = self.process.wait();
    }
}

impl Ring {
    fn of(folder: &Path, machines: &[&Machine]) -> Self {
        let (memcached, redis, statistics) = (free_port(), free_port(), free_port());
        let pool = |name: &str, listen, is_redis, address: fn(&Machine) -> SocketAddr| {
            let servers: Vec<String> = (1..)
                .zip(machines)
                .map(|(number, machine)| format!("   - {}:1 machine{number}\n", address(machine)))
                .collect();
            format!(
                "{name}:\n  listen: {listen}\n  hash: murmur\n  distribution: ketama\n  \
                 redis: {is_redis}\n  timeout: 10000\n  auto_eject_hosts: false\n  \
                 server_retry_timeout: 1\n  server_failure_limit: 1\n  servers:\n{}",
                servers.concat()
            )
        };
        let config = pool("memcached", memcached, false, |machine| machine.memcached)
            + &pool("redis", redis, true, |machine| machine.redis);
        let path = folder.join(format!("{}.yml", redis.port()));
        std::fs::write(&path, config).unwrap();
        let mut command = Command::new("nutcracker");
        command.arg("-c").arg(&path).args(["-a", "127.0.0.1", "-s"]);
        command.arg(statistics.port().to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        let ring = Self { process: command.spawn().unwrap(), memcached, redis };
        for address in [memcached, redis] {
            while TcpStream::connect(address).is_err() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        ring
    }
}

/// The reply to a line, sent as words: nutcracker takes no lines.
fn ask(redis: &mut Redis, line: &str) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    String::from_utf8(redis.ask_bytes(&words)).unwrap()
}

fn values(redis: &mut Redis) -> Vec<String> {
    (0..KEYS).map(|key| ask(redis, &format!("GET key{key}"))).collect()
}

fn expected() -> Vec<String> {
    let bulk = |value: String| format!("${}\r\n{value}\r\n", value.len());
    (0..KEYS).map(|key| bulk(format!("value{key}"))).collect()
}

fn keys_of(machine: &Machine) -> usize {
    let reply = Redis::connect(machine.redis).ask("DBSIZE");
    reply.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

#[test]
fn a_ring_of_two_keeps_what_it_has_and_grows_to_three() {
    if !installed("nutcracker") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Machine::new(), Machine::new());
    let ring = Ring::of(folder.path(), &[&first, &second]);
    let mut memcached = Client::connect(ring.memcached);
    memcached.ask("set item 5 0 3\r\none\r\n", "STORED\r\n");
    memcached.ask("get item\r\n", "VALUE item 5 3\r\none\r\nEND\r\n");
    memcached.ask("delete item\r\n", "DELETED\r\n");
    let mut redis = Redis::connect(ring.redis);
    for key in 0..KEYS {
        assert_eq!(ask(&mut redis, &format!("SET key{key} value{key}")), "+OK\r\n");
    }
    let (of_first, of_second) = (keys_of(&first), keys_of(&second));
    assert!(of_first > KEYS / 4 && of_second > KEYS / 4, "{of_first} and {of_second}");
    assert_eq!(of_first + of_second, KEYS);
    // One machine stops and comes again: its keys are there.
    let Machine { served, memcached, redis: address } = second;
    let second = Machine { served: served.restarted(), memcached, redis: address };
    let mut again = Redis::connect(ring.redis);
    while ask(&mut again, "GET key0").starts_with('-') || values(&mut again) != expected() {
        // nutcracker asks a machine again that has failed after a while.
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(ring);
    // A third machine: every key of the others is restored through the new ring. Where it has
    // another place now it is removed from the old one; where not, it is there already.
    let third = Machine::new();
    let ring = Ring::of(folder.path(), &[&first, &second, &third]);
    let mut all = Redis::connect(ring.redis);
    for machine in [&first, &second] {
        let mut old = Redis::connect(machine.redis);
        let keys = old.ask("KEYS *");
        for key in keys.split("\r\n").filter(|line| line.starts_with("key")) {
            let dump = old.ask_bytes(&[b"DUMP", key.as_bytes()]);
            let from = dump.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            let payload = &dump[from..dump.len() - 2];
            let restored = all.ask_bytes(&[b"RESTORE", key.as_bytes(), b"0", payload]);
            if restored == b"+OK\r\n" {
                assert_eq!(old.ask(&format!("DEL {key}")), ":1\r\n");
            } else {
                assert!(restored.starts_with(b"-BUSYKEY"), "{}", restored.escape_ascii());
            }
        }
    }
    assert_eq!(values(&mut all), expected());
    let counts = [&first, &second, &third].map(keys_of);
    assert_eq!(counts.iter().sum::<usize>(), KEYS, "{counts:?}");
    assert!(counts[2] > KEYS / 8, "{counts:?}");
}
