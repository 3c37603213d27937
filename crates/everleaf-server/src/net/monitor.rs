//! The address of the operator: `GET /metrics`, `GET /health` and `GET /leader` by
//! HTTP/1.1.
//!
//! Requests without a body need no library. A connection has one request.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf::{DurabilityMode, Statistics};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::warn;

use super::front::Front;
use super::listener::{ACCEPT_PAUSE, Listener, Stream};
use super::prometheus;
use super::socket::{linger, read};
use crate::shared::Shared;

/// The longest request with its headers.
const REQUEST_BYTES: usize = 8 << 10;
/// How long a request may take to come, and its reply to be sent.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections of an address at a time; others wait.
const CONNECTIONS: usize = 16;
/// How old a number may be that costs something to know.
const FRESH: Duration = Duration::from_secs(1);

/// What was found out last, and when.
struct Recent<T>(Mutex<Option<(Instant, T)>>);

impl<T: Clone> Recent<T> {
    const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// What is not older than a second.
    fn get(&self, find_out: impl FnOnce() -> T) -> T {
        let mut last = self.0.lock();
        match &*last {
            Some((when, found)) if when.elapsed() < FRESH => found.clone(),
            _ => last.insert((Instant::now(), find_out())).1.clone(),
        }
    }
}

/// What answers at the address of the operator.
pub(super) struct Monitor {
    front: Front,
    statistics: Recent<Option<Statistics>>,
    health: Recent<Result<(), String>>,
}

impl Monitor {
    pub(super) fn new(front: Front) -> Arc<Self> {
        Arc::new(Self { front, statistics: Recent::new(), health: Recent::new() })
    }

    /// Answers until the server stops.
    pub(super) async fn run(
        self: Arc<Self>,
        listeners: Vec<Listener>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut tasks = JoinSet::new();
        for listener in listeners {
            tasks.spawn(Arc::clone(&self).answer_all(listener));
        }
        let _ = stop.wait_for(|stop| *stop).await; // The sender lives as long as the server.
    }

    async fn answer_all(self: Arc<Self>, listener: Listener) {
        let mut connections = JoinSet::new();
        loop {
            if connections.len() >= CONNECTIONS {
                connections.join_next().await;
            }
            match listener.accept().await {
                Ok(stream) => {
                    let converse = Arc::clone(&self).converse(stream);
                    connections.spawn(tokio::time::timeout(PATIENCE, converse));
                }
                Err(error) => {
                    warn!(%error, "a client could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }

    async fn converse(self: Arc<Self>, stream: Stream) -> io::Result<()> {
        match stream {
            Stream::Tcp(stream) => self.answer(TcpStream::from_std(stream)?).await,
            Stream::Unix(stream) => self.answer(UnixStream::from_std(stream)?).await,
        }
    }

    async fn answer(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let mut request = Vec::new();
        while !ends(&request) && request.len() < REQUEST_BYTES {
            if read(&mut stream, &mut request).await? == 0 {
                return Ok(());
            }
        }
        let reply = if ends(&request) { self.reply(&request) } else { too_long() };
        stream.write_all(reply.as_bytes()).await?;
        linger(stream).await
    }

    fn reply(&self, request: &[u8]) -> String {
        let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == b' ').collect();
        let [method, target, version] = words[..] else { return bad() };
        if !version.starts_with(b"HTTP/1.") {
            return bad();
        }
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        match (method, path) {
            (b"GET", b"/metrics") => {
                let text = self.front.shared().map(|shared| {
                    let statistics = || shared.data.store().statistics().ok();
                    prometheus::text(&shared, self.statistics.get(statistics).as_ref())
                });
                http("200 OK", prometheus::CONTENT_TYPE, &text.unwrap_or_default())
            }
            (b"GET", b"/health") => match self.front.shared() {
                None => plain("200 OK", "ok, and another node leads"),
                Some(shared) => match self.health.get(|| sync(&shared)) {
                    Ok(()) => plain("200 OK", "ok"),
                    Err(why) => plain("503 Service Unavailable", &why),
                },
            },
            (b"GET", b"/leader") => match self.front.shared() {
                None => plain("503 Service Unavailable", "another node leads, or none"),
                Some(_) => plain("200 OK", "this server answers clients"),
            },
            (_, b"/metrics" | b"/health" | b"/leader") => {
                let allow = "405 Method Not Allowed\r\nAllow: GET";
                plain(allow, "only GET is answered")
            }
            _ => plain("404 Not Found", "there are /metrics, /health and /leader"),
        }
    }
}

/// Whether what is written can become durable: a failed sync is never followed by another, and
/// where nothing waits for one, asking costs next to nothing.
fn sync(shared: &Shared) -> Result<(), String> {
    let store = shared.data.store();
    match store.capabilities().durability_mode {
        DurabilityMode::Process => Ok(()), // No sync is promised.
        _ => store.sync().map_err(|error| format!("writes do not become durable: {error}")),
    }
}

/// Whether a request with its headers has come.
fn ends(request: &[u8]) -> bool {
    request.windows(4).any(|bytes| bytes == b"\r\n\r\n")
}

fn bad() -> String {
    plain("400 Bad Request", "this is not a request of HTTP/1.1")
}

fn too_long() -> String {
    plain("431 Request Header Fields Too Large", "the request is longer than 8 KiB")
}

fn plain(status: &str, sentence: &str) -> String {
    http(status, "text/plain; charset=utf-8", &format!("{sentence}\n"))
}

fn http(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}
