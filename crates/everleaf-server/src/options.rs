//! How a pool is served.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use everleaf::MAX_VALUE_BYTES;

use crate::authentication::Users;
use crate::data::HEADER_BYTES;
use crate::tls::Tls;
use crate::view::Look;

/// Where a protocol is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address of the network.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Address {
    /// Whether other machines can reach it.
    pub fn is_exposed(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }
}

impl FromStr for Address {
    type Err = String;

    /// `unix:PATH`, `HOST:PORT`, or `PORT` of this machine's loopback.
    ///
    /// ```
    /// use everleaf_server::Address;
    ///
    /// let address: Address = "11211".parse()?;
    /// assert_eq!(address.to_string(), "127.0.0.1:11211");
    /// assert!(!address.is_exposed());
    /// assert!("0.0.0.0:6379".parse::<Address>()?.is_exposed());
    /// assert_eq!("unix:/tmp/a".parse::<Address>()?.to_string(), "unix:/tmp/a");
    /// # Ok::<(), String>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("unix: needs the path of a socket behind it".to_owned()),
                path => Ok(Self::Unix(path.into())),
            };
        }
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self::Tcp(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port)));
        }
        let mut found = text.to_socket_addrs().map_err(|error| {
            format!("{text} is not an address ({error}); use HOST:PORT, PORT or unix:PATH")
        })?;
        found.next().map(Self::Tcp).ok_or_else(|| format!("{text} names no address"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What clients may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest value, in bytes; none: 512 MiB of Redis clients and 1 MiB of memcached's, as
    /// theirs have it. A value is never longer than the pool.
    pub value_bytes: Option<usize>,
    /// Connections at a time.
    pub connections: usize,
    /// Bytes of replies of a connection at which they are sent before more is answered.
    pub reply_bytes: usize,
    /// Bytes of replies whose clients have not taken them, and of the requests that wait behind
    /// them, of all connections together. A connection always has [`reply_bytes`] of both.
    ///
    /// [`reply_bytes`]: Limits::reply_bytes
    pub unsent_bytes: u64,
    /// How long a client may take nothing of its replies when these bytes are used up and it has
    /// more than [`reply_bytes`](Limits::reply_bytes): then its connection is closed.
    pub unsent_patience: Duration,
    /// Bytes of requests that have not come to their end, of all connections together.
    pub buffered_bytes: u64,
    /// Bytes of replies that are made whole before they are sent, as those of a transaction are, of
    /// all connections together; one of them has at most a quarter. What changed since a reply was
    /// begun that is sent in parts has as much.
    pub whole_bytes: u64,
    /// Elements of collections, keys and words that a request, or a transaction, may read or write
    /// on the thread that answers. One with more is left to a thread that no other connection
    /// waits for.
    pub short_elements: u64,
    /// How long a script may run. One that takes longer is ended, and nothing of it is done.
    pub script_time: Duration,
    /// Memory of a script beside its arguments; as much is what it may write, with its messages and
    /// events.
    pub script_bytes: u64,
}

/// The longest values, in bytes, where a pool is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longest {
    /// Of Redis clients.
    pub redis: usize,
    /// Of memcached clients.
    pub memcached: usize,
}

impl Limits {
    /// The longest values of a pool that has at most so many bytes.
    pub(crate) fn longest(&self, pool_bytes: u64) -> Longest {
        let pool_bytes = usize::try_from(pool_bytes.min(MAX_VALUE_BYTES)).unwrap_or(usize::MAX);
        let room = pool_bytes.saturating_sub(HEADER_BYTES);
        let of = |usual| self.value_bytes.unwrap_or(usual).min(room);
        Longest { redis: of(512 << 20), memcached: of(1 << 20) }
    }

    /// Bytes of what waits for EXEC, and of what is watched, of a connection.
    pub(crate) const fn waiting_bytes(&self) -> u64 {
        self.buffered_bytes / 16
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            value_bytes: None,
            connections: 16_384,
            reply_bytes: 256 << 10,
            unsent_bytes: 256 << 20,
            unsent_patience: Duration::from_secs(60),
            buffered_bytes: 1 << 30,
            whole_bytes: 256 << 20,
            short_elements: 20_000, // They are read in about ten milliseconds.
            script_time: Duration::from_secs(60),
            script_bytes: 64 << 20,
        }
    }
}

/// How a pool is served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where memcached's protocol is spoken.
    pub memcached: Vec<Address>,
    /// Where Redis' protocol is spoken.
    pub redis: Vec<Address>,
    /// Where memcached's protocol is spoken by TLS.
    pub tls_memcached: Vec<Address>,
    /// Where Redis' protocol is spoken by TLS.
    pub tls_redis: Vec<Address>,
    /// The certificate for TLS, and its key.
    pub tls: Option<Tls>,
    /// The folder of backups, which Redis clients ask for; none: they are refused.
    pub backups: Option<PathBuf>,
    /// Where metrics and health are told by HTTP.
    pub metrics: Vec<Address>,
    /// What Redis clients must name; none: nothing.
    pub redis_password: Option<Vec<u8>>,
    /// Threads that answer; at least 1.
    pub threads: usize,
    /// Who may use memcached's protocol; none: everybody.
    pub memcached_users: Option<Users>,
    /// What clients may ask for.
    pub limits: Limits,
    /// Bytes of the pool beyond which the keys are evicted that were not used for longest, about;
    /// none: nothing is evicted, and a full pool refuses what is written.
    pub evict: Option<u64>,
    /// How long a connection may wait for its client to send something; none: for ever.
    pub idle: Option<Duration>,
    /// Looks at the cluster that the server is a node of; none: it serves alone.
    pub look: Option<Look>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            memcached: Vec::new(),
            redis: Vec::new(),
            tls_memcached: Vec::new(),
            tls_redis: Vec::new(),
            tls: None,
            backups: None,
            metrics: Vec::new(),
            redis_password: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memcached_users: None,
            limits: Limits::default(),
            evict: None,
            idle: None,
            look: None,
        }
    }
}
