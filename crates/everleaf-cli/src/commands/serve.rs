//! `serve`: a pool for clients of memcached and Redis.

#[cfg(feature = "cluster")]
mod node;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use everleaf::{DurabilityMode, KeyType, MAX_VALUE_BYTES, OpenOptions, Store};
use everleaf_server::{
    Address, Database, Limits, ServeError, ServeOptions, Server, Tls, Users, read_setting_file,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::signal_name;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::failure::{Failure, Outcome, complain};
use crate::signals::unusable;
use crate::size::{display_size, parse_size};

/// Serve a pool to memcached and Redis clients, over the network or a socket of the file system.
///
/// `everleaf create` makes the pool, with byte-string keys; its --max-size limits what clients can
/// store, and a full pool answers with an error. Acknowledged writes survive when the server is
/// killed. SIGTERM and SIGINT end it: it answers the requests that it has received, then closes the
/// pool. Addresses are HOST:PORT, PORT (on this machine only) or unix:PATH, and may be given
/// several times.
///
/// The server keeps what clients store in a tree of its own, `everleaf.server`. Clients do not see
/// the keys that `put` and `load` have stored, so a pool that has such keys is refused without
/// --beside.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("protocols")
    .args(["memcached", "redis", "tls_memcached", "tls_redis"])
    .required(true)
    .multiple(true))]
#[command(after_help = "\
Limits: keys of 250 bytes (Redis: 65,472), lines of 2 KiB (of memcached's retrievals 1 MiB, of Redis
64 KiB), values as --max-value says.

Example:
  everleaf create cache.pool --size 256MiB --max-size 4GiB
  everleaf serve cache.pool --memcached 11211 --redis 6379 --threads 4")]
pub struct Args {
    /// The pool.
    #[cfg_attr(feature = "cluster", arg(required_unless_present = "cluster"))]
    #[cfg_attr(not(feature = "cluster"), arg(required = true))]
    pool: Option<PathBuf>,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    node: node::NodeArgs,
    /// Speak memcached's text protocol here.
    #[arg(long, value_name = "ADDR")]
    memcached: Vec<Address>,
    /// Speak Redis' protocol here (RESP2 and RESP3).
    #[arg(long, value_name = "ADDR")]
    redis: Vec<Address>,
    /// Speak memcached's text protocol here, by TLS.
    #[arg(long, value_name = "ADDR", requires = "tls_cert")]
    tls_memcached: Vec<Address>,
    /// Speak Redis' protocol here, by TLS.
    #[arg(long, value_name = "ADDR", requires = "tls_cert")]
    tls_redis: Vec<Address>,
    /// The TLS certificate in PEM format, followed by the intermediate certificates.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM format.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve a pool that has keys of others too: the server keeps its own beside them, and clients
    /// see only these.
    #[arg(long)]
    beside: bool,
    /// Let Redis clients ask for backups (BGSAVE, SAVE): dumps in this folder, each of one moment.
    #[arg(long, value_name = "DIR")]
    backups: Option<PathBuf>,
    /// Serve metrics for Prometheus and the health at this address, by HTTP: /metrics and /health.
    #[arg(long, value_name = "ADDR")]
    metrics: Vec<Address>,
    /// Threads that answer [default: the number of processors].
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..),
        allow_hyphen_values = true
    )]
    threads: Option<u16>,
    /// Require a name and a password from memcached clients: a file with a line name:password for
    /// each user.
    #[arg(long, value_name = "FILE")]
    memcached_auth_file: Option<PathBuf>,
    /// Require a password from Redis clients (AUTH): a file with the password in its first line.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The longest value, at least 1 KiB and no longer than the pool [default: 512 MiB of Redis
    /// clients and 1 MiB of memcached clients, as theirs have it, or what the pool has].
    #[arg(long, value_name = "S", value_parser = parse_size, allow_hyphen_values = true)]
    max_value: Option<u64>,
    /// Connections at a time.
    #[arg(
        long,
        value_name = "N",
        default_value_t = Limits::default().connections,
        allow_hyphen_values = true
    )]
    max_connections: usize,
    /// Evict approximately the least recently used keys if the pool has more than S bytes or is
    /// full, instead of refusing writes.
    #[arg(
        long,
        value_name = "S",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "18446744073709551615",
        value_parser = parse_size
    )]
    evict: Option<u64>,
    /// Close a connection whose client sends nothing for this many seconds, also in the middle of a
    /// request; a client that reads slowly is not idle. 0: never.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, allow_hyphen_values = true)]
    timeout: u64,
    /// End a script of a Redis client that runs for so many seconds; nothing of it is done.
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(1..),
        default_value_t = Limits::default().script_time.as_secs() as u32,
        allow_hyphen_values = true
    )]
    script_time: u32,
    /// Memory that a script of a Redis client may take beside its arguments; as much is what it may
    /// write.
    #[arg(
        long,
        value_name = "S",
        value_parser = parse_size,
        default_value = "64M",
        allow_hyphen_values = true
    )]
    script_memory: u64,
    /// How events are written to the standard error stream.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// The lowest level that is written.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = level())]
    log_level: LevelFilter,
    /// When an acknowledged write is durable: no stronger than the pool was created with
    /// [default: that].
    #[arg(long, value_name = "MODE", value_parser = str::parse::<DurabilityMode>)]
    durability: Option<DurabilityMode>,
    /// Memory that changed pages of a pool with a log may take, before they are written to its file
    /// [default: half of what there is].
    #[arg(long, value_name = "S", value_parser = parse_size, allow_hyphen_values = true)]
    memory: Option<u64>,
    /// Take the memory of the whole pool at the start, about 0.1 ms a MiB, so that no request waits
    /// for the system. A pool with a log is read from the disk.
    #[arg(long)]
    prefault: bool,
}

/// What of openraft warns of each group of writes, as nobody waits until it is applied, ten times a
/// second of a node that does not answer, which `everleaf_raft` tells once, and at the end, of a
/// sync that ends when the core has.
const REPEATS: [&str; 4] = [
    "openraft::core::heartbeat",
    "openraft::engine::handler::replication_handler",
    "openraft::raft",
    "openraft::replication",
];

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// Lines for people.
    Text,
    /// One object of JSON a line.
    Json,
}

fn level() -> impl TypedValueParser<Value = LevelFilter> {
    PossibleValuesParser::new(["off", "error", "warn", "info"])
        .map(|name| name.parse().unwrap_or(LevelFilter::INFO))
}

impl LogFormat {
    /// Writes events from now on.
    fn start(self, level: LevelFilter) {
        let events = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level);
        // What openraft does all the time is for its developers.
        let engine = level.min(LevelFilter::WARN);
        let quiet = REPEATS.map(|target| (target, level.min(LevelFilter::ERROR)));
        let targets =
            Targets::new().with_default(level).with_target("openraft", engine).with_targets(quiet);
        // Only one in a process writes them, and this is the only one.
        let _ = match self {
            Self::Text => events.with_ansi(false).finish().with(targets).try_init(),
            Self::Json => events.json().flatten_event(true).finish().with(targets).try_init(),
        };
    }

    /// Says something of the server itself: a sentence, or an event of JSON.
    fn tell(self, sentence: &str) {
        match self {
            Self::Text => complain(sentence),
            Self::Json => tracing::info!("{sentence}"),
        }
    }

    /// The same of what may be a mistake.
    fn warn(self, sentence: &str) {
        match self {
            Self::Text => complain(&format!("warning: {sentence}")),
            Self::Json => tracing::warn!("{sentence}"),
        }
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::NoThreads | ServeError::NoAddress => Self::usage(error.to_string()),
            #[cfg(feature = "cluster")]
            ServeError::Node(error) => error.into(),
            _ => Self::failed(error.to_string()),
        }
    }
}

/// The first line of a file.
fn password(path: &Path) -> Result<Vec<u8>, Failure> {
    let text = read_setting_file(path)
        .map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))?;
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    match line {
        [] => Err(Failure::failed(format!(
            "{} holds no password; write one into its first line",
            path.display()
        ))),
        line => Ok(line.to_vec()),
    }
}

/// Whether other machines can use an address without a password.
fn is_open<'a>(mut addresses: impl Iterator<Item = &'a Address>, has_password: bool) -> bool {
    !has_password && addresses.any(Address::is_exposed)
}

/// Refuses a pool with keys that clients would look for and not see.
fn refuse_hidden_keys(store: &Store, pool: &Path) -> Outcome {
    if store.key_type() == KeyType::U64 || store.first()?.is_none() {
        return Ok(()); // The first have no named trees, and are refused for that.
    }
    let pool = pool.display();
    Err(Failure::usage(format!(
        "{pool} has keys, which clients would not see: a server keeps its rows in a tree of its \
         own; serve a new pool and send it these keys by a client (`everleaf scan {pool}` prints \
         them), or add --beside to leave them where they are"
    )))
}

/// Refuses a longest value that says nothing.
fn check_max_value(max: u64, pool_bytes: u64) -> Outcome {
    const LEAST: u64 = 1 << 10;
    let most = pool_bytes.min(MAX_VALUE_BYTES);
    if (LEAST..=most).contains(&max) {
        return Ok(());
    }
    let [max, most] = [max, most].map(display_size);
    Err(Failure::usage(format!(
        "--max-value {max} is not served: this pool can hold values from 1 KiB to {most}; choose \
         one of these, or make a larger pool (everleaf create --max-size)"
    )))
}

/// Serves until a signal comes.
pub fn run(args: Args) -> Outcome {
    run_with(args, OpenOptions::new())
}

/// The same of a pool that is opened so.
pub fn run_with(args: Args, mut open: OpenOptions) -> Outcome {
    let log = args.log_format;
    log.start(args.log_level);
    let users = args.memcached_auth_file.as_deref().map(Users::read).transpose();
    let tls = args.tls_cert.zip(args.tls_key);
    let tls = tls.map(|(certificate, key)| Tls::read(&certificate, &key)).transpose();
    let options = ServeOptions {
        memcached: args.memcached,
        redis: args.redis,
        tls_memcached: args.tls_memcached,
        tls_redis: args.tls_redis,
        tls: tls.map_err(Failure::failed)?,
        backups: args.backups,
        metrics: args.metrics,
        redis_password: args.password_file.as_deref().map(password).transpose()?,
        memcached_users: users.map_err(Failure::failed)?,
        limits: Limits {
            value_bytes: args.max_value.map(|max| usize::try_from(max).unwrap_or(usize::MAX)),
            connections: args.max_connections,
            script_time: Duration::from_secs(args.script_time.into()),
            script_bytes: args.script_memory,
            ..Limits::default()
        },
        evict: args.evict,
        idle: (args.timeout > 0).then(|| Duration::from_secs(args.timeout)),
        ..ServeOptions::default()
    };
    let threads = args.threads.map_or(options.threads, usize::from);
    let options = ServeOptions { threads, ..options };
    let memcached = options.memcached.iter().chain(&options.tls_memcached);
    let redis = options.redis.iter().chain(&options.tls_redis);
    for (open, option) in [
        (is_open(memcached, options.memcached_users.is_some()), "--memcached-auth-file"),
        (is_open(redis, options.redis_password.is_some()), "--password-file"),
    ] {
        if open {
            log.warn(&format!(
                "other machines can reach this server without a password; use {option}, or an \
                address of the loopback"
            ));
        }
    }
    #[cfg(feature = "cluster")]
    if let Some(node) = args.node.options()? {
        return serve_node(node, options, log);
    }
    let Some(pool) = args.pool else { return Ok(()) }; // It is required.
    (open.durability, open.memory_bytes, open.prefault) =
        (args.durability, args.memory, args.prefault);
    let open = open.control_socket(true);
    let store = open.open(&pool)?;
    if !args.beside {
        refuse_hidden_keys(&store, &pool)?;
    }
    if let Some(max) = args.max_value {
        check_max_value(max, store.statistics()?.max_bytes)?;
    }
    let data = Arc::new(Database::over(store, open.clock)?);
    if let Some(why) = data.store().no_control_socket() {
        log.warn(&why);
    }
    // Whoever reads the addresses may send one at once.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(unusable)?;
    let mode = data.store().capabilities().durability_mode;
    let server = Server::start(Arc::clone(&data), options)?;
    tell_addresses(&server, &format!("durability {mode}"), log);
    let signal = signals.forever().next().and_then(signal_name).unwrap_or("a signal");
    log.tell(&format!("{signal}: closing"));
    server.stop();
    match Arc::into_inner(data) {
        Some(data) => Ok(data.close()?),
        // A connection that was cut still has it; it is closed when that ends.
        None => Ok(()),
    }
}

/// Says where the server listens.
fn tell_addresses(server: &Server, promise: &str, log: LogFormat) {
    for (protocol, addresses) in [
        ("memcached", server.memcached_addresses()),
        ("redis", server.redis_addresses()),
        ("memcached by TLS", server.tls_memcached_addresses()),
        ("redis by TLS", server.tls_redis_addresses()),
    ] {
        for address in addresses {
            log.tell(&format!("{protocol} at {address}, {promise}"));
        }
    }
    for address in server.metrics_addresses() {
        log.tell(&format!("metrics at {address}"));
    }
}

/// Serves a node of a cluster until a signal comes, or until it ends by itself.
#[cfg(feature = "cluster")]
fn serve_node(
    node: everleaf_server::ClusterOptions,
    options: ServeOptions,
    log: LogFormat,
) -> Outcome {
    /// How often it is looked whether the node has ended by itself.
    const LOOK: Duration = Duration::from_millis(100);
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(unusable)?;
    let server = Server::start_node(node, options)?;
    tell_addresses(&server, "on a majority", log);
    loop {
        if let Some(signal) = signals.pending().next() {
            log.tell(&format!("{}: closing", signal_name(signal).unwrap_or("a signal")));
            server.stop();
            return Ok(());
        }
        if let Some(why) = server.failure() {
            server.stop();
            return Err(Failure::failed(format!("the node has ended: {why}")));
        }
        std::thread::sleep(LOOK);
    }
}
