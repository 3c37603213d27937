//! A server on a pool of its own, and a client that knows no protocol.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everleaf::{Clock, CreateOptions, DurabilityMode, OpenOptions};
use everleaf_server::{Address, Database, ServeOptions, Server, Shared};
use tempfile::TempDir;

/// How long a reply may take before a test fails: it is not a measurement.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and the folder of its pool.
pub struct Served {
    pub server: Server,
    folder: TempDir,
    clock: Clock,
    options: ServeOptions,
}

/// Options that listen at any port of the loopback.
pub fn options() -> ServeOptions {
    let any = vec!["127.0.0.1:0".parse().unwrap()];
    ServeOptions { memcached: any, threads: 2, ..ServeOptions::default() }
}

fn open(path: &Path, clock: &Clock) -> Arc<Database> {
    let options = OpenOptions::new().clock(clock.clone());
    Arc::new(Database::open(path, &options).unwrap())
}

/// Starts a server on what is in a folder.
fn start(folder: &Path, clock: &Clock, options: ServeOptions) -> Server {
    match folder.join("node").exists() {
        true => cluster::start(&folder.join("node"), clock, options),
        false => Server::start(open(&folder.join("served.pool"), clock), options).unwrap(),
    }
}

/// Servers that are a cluster of one each: all of them if `EVERLEAF_TEST_CLUSTER` is set.
#[cfg(feature = "cluster")]
pub mod cluster {
    use std::net::TcpListener;
    use std::time::Instant;

    use everleaf_raft::{NodeOptions, PoolOptions, block_on, init};
    use everleaf_server::ClusterOptions;

    use super::*;

    pub fn is_wanted() -> bool {
        std::env::var_os("EVERLEAF_TEST_CLUSTER").is_some()
    }

    pub fn create(folder: &Path, max_bytes: u64) {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options = PoolOptions { max_size_bytes: Some(max_bytes), ..PoolOptions::default() };
        block_on(init(folder, &port.to_string(), &options)).unwrap().unwrap();
    }

    /// When this returns it leads.
    pub fn start(folder: &Path, clock: &Clock, options: ServeOptions) -> Server {
        let node = NodeOptions { clock: clock.clone(), ..NodeOptions::default() };
        let folder = folder.to_owned();
        let node = ClusterOptions { folder, node, ..ClusterOptions::default() };
        let (server, end) = (Server::start_node(node, options).unwrap(), Instant::now() + PATIENCE);
        while server.shared().is_none() {
            assert!(Instant::now() < end, "it does not lead");
            std::thread::sleep(Duration::from_millis(1));
        }
        server
    }
}

/// Servers without a cluster.
#[cfg(not(feature = "cluster"))]
pub mod cluster {
    use super::*;

    pub fn is_wanted() -> bool {
        false
    }

    pub fn create(_folder: &Path, _max_bytes: u64) {}

    pub fn start(_folder: &Path, _clock: &Clock, _options: ServeOptions) -> Server {
        unreachable!()
    }
}

impl Served {
    /// A new pool of 16 MiB, by the system's clock.
    pub fn new() -> Self {
        Self::with(options(), Clock::system())
    }

    pub fn with(options: ServeOptions, clock: Clock) -> Self {
        Self::sized(options, clock, 16 << 20, 1 << 30)
    }

    pub fn sized(options: ServeOptions, clock: Clock, bytes: u64, max_bytes: u64) -> Self {
        let create = CreateOptions::new().size_bytes(bytes).max_size_bytes(max_bytes);
        Self::created(create, max_bytes, options, clock)
    }

    /// A cluster of one.
    #[cfg(feature = "cluster")]
    pub fn clustered(options: ServeOptions) -> Self {
        Self::clustered_in(1 << 30, options)
    }

    /// The same whose pools have so many bytes at most.
    #[cfg(feature = "cluster")]
    pub fn clustered_in(max_bytes: u64, options: ServeOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        cluster::create(&folder.path().join("node"), max_bytes);
        Self::on(folder, options, Clock::system())
    }

    /// A pool of which nothing needs to be durable, so that no reply waits for the disk.
    pub fn without_syncs(options: ServeOptions) -> Self {
        let create = CreateOptions::new().size_bytes(16 << 20).max_size_bytes(1 << 30);
        let create = create.durability(DurabilityMode::Process);
        Self::created(create, 1 << 30, options, Clock::system())
    }

    fn created(create: CreateOptions, max_bytes: u64, options: ServeOptions, clock: Clock) -> Self {
        let folder = tempfile::tempdir().unwrap();
        match cluster::is_wanted() {
            true => cluster::create(&folder.path().join("node"), max_bytes),
            false => create.create(folder.path().join("served.pool")).unwrap().close().unwrap(),
        }
        Self::on(folder, options, clock)
    }

    fn on(folder: TempDir, options: ServeOptions, clock: Clock) -> Self {
        let server = start(folder.path(), &clock, options.clone());
        Self { server, folder, clock, options }
    }

    /// Stops it and starts it again on the same pool.
    pub fn restarted(self) -> Self {
        self.restarted_with(|_| {})
    }

    /// The same, with other options.
    pub fn restarted_with(self, change: impl FnOnce(&mut ServeOptions)) -> Self {
        let Self { server, folder, clock, mut options } = self;
        change(&mut options);
        server.stop();
        Self::on(folder, options, clock)
    }

    /// What all connections share.
    pub fn shared(&self) -> Arc<Shared> {
        self.server.shared().unwrap()
    }

    pub fn memcached(&self) -> Client {
        Client::connect(tcp(&self.server.memcached_addresses()[0]))
    }
}

pub fn tcp(address: &Address) -> SocketAddr {
    match address {
        Address::Tcp(address) => *address,
        Address::Unix(path) => panic!("{} is no address of the network", path.display()),
    }
}

/// A connection that sends and compares bytes.
pub struct Client<S = TcpStream> {
    pub stream: S,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }
}

impl<S: Read + Write> Client<S> {
    pub fn send(&mut self, request: impl AsRef<[u8]>) {
        self.stream.write_all(request.as_ref()).unwrap();
    }

    /// Reads as many bytes as are expected, which must be those.
    #[track_caller]
    pub fn expect(&mut self, reply: impl AsRef<[u8]>) {
        let reply = reply.as_ref();
        let mut got = vec![0; reply.len()];
        if let Err(error) = self.stream.read_exact(&mut got) {
            panic!("{error}; expected {}, got {}", reply.escape_ascii(), got.escape_ascii());
        }
        assert!(got == reply, "expected {}, got {}", reply.escape_ascii(), got.escape_ascii());
    }

    #[track_caller]
    pub fn ask(&mut self, request: impl AsRef<[u8]>, reply: impl AsRef<[u8]>) {
        self.send(request);
        self.expect(reply);
    }

    /// Up to the end of a line, without it.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while line.last() != Some(&b'\n') {
            self.stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// A line, or what came of it before the connection was closed.
    pub fn rest_of_line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while line.last() != Some(&b'\n') && self.stream.read_exact(&mut byte).is_ok() {
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// What comes until the server closes the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
            _ => rest,
        }
    }
}
