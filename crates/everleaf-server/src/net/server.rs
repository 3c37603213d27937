//! Listeners, and the threads that answer.
//!
//! One thread accepts; each of the others has a runtime of its own, and a connection stays with the
//! thread that it was given to. So a connection's state is touched by one thread, and no work moves
//! between threads.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::warn;

use super::connection;
use super::front::Front;
use super::listener::{ACCEPT_PAUSE, Listener, Stream};
use super::monitor::Monitor;
#[cfg(feature = "cluster")]
use super::relay;
use super::syncer::{self, Syncer};
use super::thread::spawn;
#[cfg(feature = "cluster")]
use crate::cluster::{Cluster, ClusterOptions, Running};
use crate::data::{Database, SWEEP_PAUSE, Sweeper};
use crate::metrics::{STEP, set_thread};
use crate::open_files::allow_files;
use crate::protocol::Protocol;
use crate::shared::{Ends, Shared, State};
use crate::tls::Tls;
use crate::{Address, ServeError, ServeOptions, memcached, redis};

/// How long connections may go on when the server stops.
const GRACE: Duration = Duration::from_secs(5);
/// Threads for requests that take long or wait for these, of each thread that answers.
const LONG_THREADS: usize = 32;

/// What is spoken at an address, and whether by TLS.
type Spoken = (Protocol, Option<Tls>);

/// A client's connection.
enum Accepted {
    /// It has come here.
    Here(Spoken, Stream),
    /// It has come to another node of the cluster.
    #[cfg(feature = "cluster")]
    Relayed(Box<everleaf_raft::Relayed>),
}

/// Where a server listens.
struct Listening {
    memcached: Vec<Address>,
    redis: Vec<Address>,
    tls_memcached: Vec<Address>,
    tls_redis: Vec<Address>,
    metrics: Vec<Address>,
}

/// A server that runs, until it is stopped or dropped.
pub struct Server {
    front: Option<Front>,
    addresses: Listening,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    sweeper: Option<Sweeper>,
    #[cfg(feature = "cluster")]
    node: Option<Running>,
}

fn runtime() -> Result<Runtime, ServeError> {
    let mut builder = Builder::new_current_thread();
    builder
        .on_thread_park(syncer::before_rest)
        .enable_all()
        .max_blocking_threads(LONG_THREADS)
        .build()
        .map_err(ServeError::Thread)
}

impl Server {
    /// Listens, and answers from then on.
    ///
    /// # Errors
    /// [`ServeError::NoThreads`], [`ServeError::NoAddress`], [`ServeError::NoCertificate`],
    /// [`ServeError::Backups`], [`ServeError::Bind`], [`ServeError::Thread`].
    pub fn start(data: Arc<Database>, options: ServeOptions) -> Result<Self, ServeError> {
        check(&options)?;
        if let Some(bytes) = options.evict {
            data.evict_beyond(bytes);
        }
        let shared = Shared::new(data, options);
        shared.data.holders.admit();
        shared.backups.prepare()?;
        let (syncer, syncs) = Syncer::start(Arc::clone(&shared))?;
        let mut server = Self::listen(Front::Alone(Arc::clone(&shared)), Some(syncer))?;
        server.threads.push(syncs); // The last: it ends when those who ask it have.
        server.sweeper = Some(shared.data.sweep(SWEEP_PAUSE));
        Ok(server)
    }

    /// Runs a node of a cluster, listens, and answers clients while it leads.
    ///
    /// # Errors
    /// As [`start`](Self::start), and [`ServeError::Node`].
    #[cfg(feature = "cluster")]
    pub fn start_node(node: ClusterOptions, options: ServeOptions) -> Result<Self, ServeError> {
        check(&options)?;
        let node = Running::start(node, options)?;
        let listening = Self::listen(Front::Node(Arc::clone(&node.cluster)), None);
        let mut server = match listening {
            Ok(server) => server,
            Err(error) => {
                node.stop();
                return Err(error);
            }
        };
        let Listening { memcached, redis, tls_memcached, tls_redis, .. } = &server.addresses;
        node.announce([redis, tls_redis], [memcached, tls_memcached]);
        server.node = Some(node);
        Ok(server)
    }

    /// Listens, and starts the threads that answer.
    fn listen(front: Front, syncer: Option<Syncer>) -> Result<Self, ServeError> {
        let options = front.options().clone();
        allow_files(options.limits.connections as u64);
        let (stop, stopped) = watch::channel(false);
        let (syncer, mut threads) = (syncer.map(Arc::new), Vec::new());
        let mut workers = Vec::new();
        for number in 0..options.threads {
            let (sender, receiver) = mpsc::unbounded_channel();
            workers.push(sender);
            let (runtime, front, stopped) = (runtime()?, front.clone(), stopped.clone());
            let syncer = syncer.clone();
            threads.push(spawn(format!("answers-{number}"), move || {
                set_thread(number);
                runtime.block_on(answer(receiver, front, syncer, stopped));
                runtime.shutdown_background(); // What takes long still is not waited for.
            })?);
        }
        let runtime = runtime()?;
        let mut listeners = Vec::new();
        let mut listen_for = |asked: &[Address], spoken: Spoken| {
            let (bound, addresses) = listen(&runtime, asked)?;
            listeners.extend(bound.into_iter().map(|listener| (spoken.clone(), listener)));
            Ok::<_, ServeError>(addresses)
        };
        let tls = &options.tls;
        let memcached = listen_for(&options.memcached, (Protocol::Memcached, None))?;
        let redis = listen_for(&options.redis, (Protocol::Redis, None))?;
        let tls_memcached = listen_for(&options.tls_memcached, (Protocol::Memcached, tls.clone()))?;
        let tls_redis = listen_for(&options.tls_redis, (Protocol::Redis, tls.clone()))?;
        let (accepting, stop_accepting) = (front.clone(), stopped.clone());
        threads.push(spawn("accepts".to_owned(), move || {
            runtime.block_on(accept(listeners, workers, accepting, stop_accepting))
        })?);
        let metrics = monitor(&front, stopped, &mut threads)?;
        let addresses = Listening { memcached, redis, tls_memcached, tls_redis, metrics };
        let (front, sweeper) = (Some(front), None);
        Ok(Self {
            front,
            addresses,
            stop,
            threads,
            sweeper,
            #[cfg(feature = "cluster")]
            node: None,
        })
    }

    /// Where memcached's protocol is spoken.
    pub fn memcached_addresses(&self) -> &[Address] {
        &self.addresses.memcached
    }

    /// Where Redis' protocol is spoken.
    pub fn redis_addresses(&self) -> &[Address] {
        &self.addresses.redis
    }

    /// Where memcached's protocol is spoken by TLS.
    pub fn tls_memcached_addresses(&self) -> &[Address] {
        &self.addresses.tls_memcached
    }

    /// Where Redis' protocol is spoken by TLS.
    pub fn tls_redis_addresses(&self) -> &[Address] {
        &self.addresses.tls_redis
    }

    /// Where metrics and health are told.
    pub fn metrics_addresses(&self) -> &[Address] {
        &self.addresses.metrics
    }

    /// What all connections share: counters, options, the pool. None: it is a node that does not
    /// lead.
    pub fn shared(&self) -> Option<Arc<Shared>> {
        self.front.as_ref().and_then(Front::shared)
    }

    /// The number of the node of a cluster that is served.
    #[cfg(feature = "cluster")]
    pub fn number(&self) -> Option<u64> {
        self.node.as_ref().map(|node| node.cluster.node.number())
    }

    /// Why the node of a cluster has ended by itself, if it has: it is to be stopped.
    #[cfg(feature = "cluster")]
    pub fn failure(&self) -> Option<String> {
        self.node.as_ref().and_then(|node| node.cluster.node.failure())
    }

    /// Stops: no client is accepted any more, requests that came are answered, and connections are
    /// closed; those that take more than five seconds are cut. A backup that is being made is
    /// removed, and a script that takes long is ended.
    pub fn stop(mut self) {
        self.stop_threads();
    }

    fn stop_threads(&mut self) {
        self.stop.send_replace(true);
        let shared = self.front.take().and_then(|front| front.shared());
        let backup = shared.and_then(|shared| shared.end());
        for thread in self.threads.drain(..).chain(backup) {
            let _ = thread.join(); // A panic there has been reported on stderr.
        }
        self.sweeper = None;
        #[cfg(feature = "cluster")]
        if let Some(node) = self.node.take() {
            node.stop();
        }
        let Listening { memcached, redis, tls_memcached, tls_redis, metrics } = &self.addresses;
        for address in [memcached, redis, tls_memcached, tls_redis, metrics].into_iter().flatten() {
            if let Address::Unix(path) = address {
                let _ = std::fs::remove_file(path); // Somebody may have removed it.
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

/// Refuses what cannot be served.
fn check(options: &ServeOptions) -> Result<(), ServeError> {
    if options.threads == 0 {
        return Err(ServeError::NoThreads);
    }
    let by_tls = [&options.tls_memcached, &options.tls_redis];
    let is_tls = by_tls.iter().any(|addresses| !addresses.is_empty());
    if options.memcached.is_empty() && options.redis.is_empty() && !is_tls {
        return Err(ServeError::NoAddress);
    }
    if is_tls && options.tls.is_none() {
        return Err(ServeError::NoCertificate);
    }
    Ok(())
}

/// Listens at all these addresses; the ports are known also where the system chose them.
fn listen(
    runtime: &Runtime,
    addresses: &[Address],
) -> Result<(Vec<Listener>, Vec<Address>), ServeError> {
    let each = addresses.iter().map(|asked| {
        let failed = |source| ServeError::Bind { address: asked.clone(), source };
        let listener = runtime.block_on(Listener::bind(asked)).map_err(failed)?;
        let address = listener.address(asked).map_err(failed)?;
        Ok((listener, address))
    });
    each.collect()
}

/// Answers who operates the server, by a thread of its own, if there is an address for it.
fn monitor(
    front: &Front,
    stop: watch::Receiver<bool>,
    threads: &mut Vec<JoinHandle<()>>,
) -> Result<Vec<Address>, ServeError> {
    let runtime = runtime()?;
    let (listeners, addresses) = listen(&runtime, &front.options().metrics)?;
    if !addresses.is_empty() {
        let monitor = Monitor::new(front.clone());
        threads.push(spawn("monitors".to_owned(), move || {
            runtime.block_on(monitor.run(listeners, stop))
        })?);
    }
    Ok(addresses)
}

// ---- accepting
// -------------------------------------------------------------------------------------------------

async fn accept(
    listeners: Vec<(Spoken, Listener)>,
    workers: Vec<mpsc::UnboundedSender<Accepted>>,
    front: Front,
    mut stop: watch::Receiver<bool>,
) {
    let workers: Arc<[_]> = workers.into();
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for (spoken, listener) in listeners {
        let (workers, next, front) = (Arc::clone(&workers), Arc::clone(&next), front.clone());
        tasks.spawn(async move {
            let is_told = spoken.0 == Protocol::Memcached;
            let ends = listener.ends();
            let _told = is_told.then(|| front.connections().enter(ends, State::Listening));
            loop {
                match listener.accept().await {
                    Ok(stream) => {
                        let at = next.fetch_add(1, Ordering::Relaxed) as usize % workers.len();
                        let accepted = Accepted::Here(spoken.clone(), stream);
                        give(accepted, &workers[at], &front).await;
                    }
                    Err(error) => {
                        warn!(%error, "a client could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        });
    }
    #[cfg(feature = "cluster")]
    if let Front::Node(cluster) = &front {
        tasks.spawn(take_relayed(cluster.node.relays(), workers, front.clone()));
    }
    tasks.spawn(look_at_rates(front));
    let _ = stop.wait_for(|stop| *stop).await; // The sender lives as long as the server.
}

/// Takes the connections that other nodes relay.
#[cfg(feature = "cluster")]
async fn take_relayed(
    mut relays: mpsc::Receiver<everleaf_raft::Relayed>,
    workers: Arc<[mpsc::UnboundedSender<Accepted>]>,
    front: Front,
) {
    let mut workers = workers.iter().cycle();
    while let Some(relayed) = relays.recv().await {
        let Some(worker) = workers.next() else { return };
        give(Accepted::Relayed(Box::new(relayed)), worker, &front).await;
    }
}

/// Looks once in a second at what was done: it reads three numbers.
async fn look_at_rates(front: Front) {
    let mut step = tokio::time::interval(STEP);
    loop {
        let now = step.tick().await.into();
        let Some(shared) = front.shared() else { continue };
        let c = &shared.counters;
        let totals = [c.redis_commands.get(), c.bytes_read.get(), c.bytes_written.get()];
        shared.metrics.rates.look(now, totals);
    }
}

async fn give(accepted: Accepted, worker: &mpsc::UnboundedSender<Accepted>, front: &Front) {
    let open = front.open_connections().fetch_add(1, Ordering::Relaxed);
    if open < front.max_connections() {
        front.counted(|counters| counters.connections.add(1));
        if worker.send(accepted).is_ok() {
            return;
        }
    } else {
        front.counted(|counters| counters.refused_connections.add(1));
        // A new socket has room for so little; a client that is gone needs no reply.
        let _ = refuse(accepted).await;
    }
    front.open_connections().fetch_sub(1, Ordering::Relaxed);
}

/// Says that there are too many connections.
async fn refuse(accepted: Accepted) -> io::Result<()> {
    let refusal = |protocol: Protocol| match protocol {
        Protocol::Memcached => &b"ERROR Too many open connections\r\n"[..],
        Protocol::Redis => b"-ERR max number of clients reached\r\n",
    };
    match accepted {
        Accepted::Here((_, Some(_)), _) => Ok(()), // Nothing is said in the clear.
        Accepted::Here((protocol, None), Stream::Tcp(stream)) => {
            TcpStream::from_std(stream)?.write_all(refusal(protocol)).await
        }
        Accepted::Here((protocol, None), Stream::Unix(stream)) => {
            UnixStream::from_std(stream)?.write_all(refusal(protocol)).await
        }
        #[cfg(feature = "cluster")]
        Accepted::Relayed(relayed) => {
            let (origin, mut stream) = *relayed;
            match relay::protocol_of(&origin) {
                Some(protocol) => stream.write_all(refusal(protocol)).await,
                None => Ok(()),
            }
        }
    }
}

// ---- answering
// -------------------------------------------------------------------------------------------------

async fn answer(
    mut accepted: mpsc::UnboundedReceiver<Accepted>,
    front: Front,
    syncer: Option<Arc<Syncer>>,
    stop: watch::Receiver<bool>,
) {
    let _asks = syncer.map(|syncer| tokio::spawn(syncer.ask_for_thread()));
    let mut connections = JoinSet::new();
    // The channel ends when the thread that accepts does.
    while let Some(accepted) = accepted.recv().await {
        connections.spawn(converse(accepted, front.clone(), stop.clone()));
        while connections.try_join_next().is_some() {}
    }
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, all).await; // The rest is cut.
}

/// Counts a connection as open as long as it lives, whatever ends it.
struct Open(Arc<AtomicU64>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn converse(accepted: Accepted, front: Front, stop: watch::Receiver<bool>) {
    let _open = Open(Arc::clone(front.open_connections()));
    // What a broken connection says is of no use: the client is gone.
    let _ = match accepted {
        Accepted::Here(spoken, Stream::Tcp(stream)) => match TcpStream::from_std(stream) {
            Ok(stream) => {
                let told = |address: io::Result<std::net::SocketAddr>| {
                    address.map_or(String::new(), |address| address.to_string())
                };
                let (peer, local) = (told(stream.peer_addr()), told(stream.local_addr()));
                let ends = Ends { peer, local, file: stream.as_raw_fd() };
                begin(spoken, (stream, ends), front, stop).await
            }
            Err(error) => Err(error),
        },
        Accepted::Here(spoken, Stream::Unix(stream)) => match UnixStream::from_std(stream) {
            Ok(stream) => {
                let path = stream.local_addr().ok();
                let path = path.as_ref().and_then(|address| address.as_pathname());
                let name =
                    path.map_or_else(|| "unix".to_owned(), |path| path.display().to_string());
                let peer = format!("{name}:0");
                let ends = Ends { local: peer.clone(), peer, file: stream.as_raw_fd() };
                begin(spoken, (stream, ends), front, stop).await
            }
            Err(error) => Err(error),
        },
        #[cfg(feature = "cluster")]
        Accepted::Relayed(relayed) => match front {
            Front::Node(cluster) => lead(*relayed, &cluster, stop).await,
            Front::Alone(_) => Ok(()),
        },
    };
}

/// Answers a client that another node has relayed, or this one before it began to lead.
#[cfg(feature = "cluster")]
async fn lead(
    (origin, stream): everleaf_raft::Relayed,
    cluster: &Cluster,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    /// How long a new leader may take to begin.
    const PATIENCE: Duration = Duration::from_secs(5);
    let Some(protocol) = relay::protocol_of(&origin) else { return Ok(()) };
    let shared = tokio::time::timeout(PATIENCE, cluster.leads()).await;
    let Ok(Some(shared)) = shared else { return Ok(()) };
    let ends = Ends { peer: origin.peer.clone(), local: origin.local.clone(), file: -1 };
    let agreed = |session: redis::Session| session.with_origin(origin);
    in_reign(protocol, (stream, ends), shared, stop, agreed).await
}

/// Answers a client until the reign ends.
#[cfg(feature = "cluster")]
async fn in_reign(
    protocol: Protocol,
    stream: (impl AsyncRead + AsyncWrite + Unpin, Ends),
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
    agreed: impl FnOnce(redis::Session) -> redis::Session,
) -> io::Result<()> {
    let data = Arc::clone(&shared.data);
    let lost = async {
        match data.ahead() {
            Some(ahead) => ahead.lost().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased; // What is held never goes when the reign has ended.
        () = lost => Ok(()),
        ended = speak_with(protocol, stream, shared, stop, agreed) => ended,
    }
}

async fn begin(
    (protocol, tls): Spoken,
    (stream, ends): (impl AsyncRead + AsyncWrite + Unpin, Ends),
    front: Front,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let Some(tls) = tls else {
        return speak(protocol, (stream, ends), front, stop).await;
    };
    match tls.begin(stream, &mut stop).await {
        Ok(stream) => speak(protocol, (stream, ends), front, stop).await,
        Err(error) => {
            front.counted(|counters| counters.refused_handshakes.add(1));
            Err(error)
        }
    }
}

async fn speak(
    protocol: Protocol,
    (stream, ends): (impl AsyncRead + AsyncWrite + Unpin, Ends),
    front: Front,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    match front {
        Front::Alone(shared) => speak_with(protocol, (stream, ends), shared, stop, |it| it).await,
        #[cfg(feature = "cluster")]
        Front::Node(cluster) => match cluster.shared() {
            None => relay::run(stream, (protocol, ends), cluster, stop).await,
            Some(shared) => in_reign(protocol, (stream, ends), shared, stop, |it| it).await,
        },
    }
}

async fn speak_with(
    protocol: Protocol,
    (stream, ends): (impl AsyncRead + AsyncWrite + Unpin, Ends),
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
    agreed: impl FnOnce(redis::Session) -> redis::Session,
) -> io::Result<()> {
    match protocol {
        Protocol::Memcached => {
            let session = memcached::Session::new(Arc::clone(&shared)).with_ends(ends);
            connection::run(stream, session, shared, stop).await
        }
        Protocol::Redis => {
            let session = agreed(redis::Session::new(Arc::clone(&shared)).with_ends(ends));
            connection::run(stream, session, shared, stop).await
        }
    }
}

/// Waits until the process is asked to end: SIGTERM or SIGINT. Its name.
///
/// # Errors
/// [`ServeError::Thread`].
pub fn wait_for_signal() -> Result<&'static str, ServeError> {
    use tokio::signal::unix::{SignalKind, signal};
    runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Thread)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Thread)?;
        tokio::select! {
            _ = terminate.recv() => Ok("SIGTERM"),
            _ = interrupt.recv() => Ok("SIGINT"),
        }
    })
}
