//! What all connections of a server share.
//!
//! Map of the files: `settings` (what can be changed) · `cursors` (of SCAN) · `channels` (messages
//! between clients) · `notify` (what happens to keys) · `tracking` (keys that clients keep) ·
//! `monitors` (clients that see all commands) · `clients` (who is connected) · `connections` (of
//! memcached) · `errors` (that clients were told) · `slowlog` `latency` (what took long) · `uses`
//! `prefixes` (of memcached's items).

mod channels;
mod clients;
mod connections;
mod cursors;
mod errors;
mod latency;
mod monitors;
mod notify;
pub mod prefixes;
mod settings;
mod slowlog;
mod tracking;
mod uses;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::authentication::Attempts;
use crate::backup::Backups;
use crate::counters::Counters;
use crate::data::Database;
use crate::memory::MemoryBudget;
use crate::metrics::Metrics;
use crate::options::{Longest, ServeOptions};
use crate::random::Random;
#[cfg(feature = "scripts")]
use crate::scripts::Scripts;
use crate::view::{Look, View};

pub use channels::{Channels, Subscribed, Subscriber};
#[cfg(feature = "scripts")]
pub use channels::{MESSAGE_BYTES, WAITING_BYTES};
pub use clients::{Chosen, ClientKind, Clients, Ends, Entry, Flags, Numbers, Paused, Unblocked};
pub use connections::{Connected, Connections, State};
pub use cursors::Cursors;
pub use errors::Errors;
pub use latency::{Events, Latency};
pub use monitors::{Monitor, Monitors};
pub use notify::{Classes, Event, Notifications};
pub use prefixes::Prefixes;
pub use settings::Settings;
pub use slowlog::Slowlog;
pub use tracking::{Mode, Tracked, Tracking};
pub use uses::{Used, Uses};

/// What all connections of a server share.
pub struct Shared {
    /// The pool.
    pub data: Arc<Database>,
    /// How it is served.
    pub options: ServeOptions,
    /// The longest values.
    pub(crate) longest: Longest,
    /// Who has given wrong passwords.
    pub(crate) attempts: Attempts,
    /// What of it can be changed.
    pub settings: Settings,
    /// What was done.
    pub counters: Counters,
    /// How long it took.
    pub(crate) metrics: Metrics,
    /// Dumps of the pool.
    pub(crate) backups: Arc<Backups>,
    /// Connections that are open.
    pub open_connections: Arc<AtomicU64>,
    /// Memory of requests that have not come to their end.
    pub requests: Arc<MemoryBudget>,
    /// Memory of replies that were not sent yet, and of the requests behind them.
    pub unsent: Arc<MemoryBudget>,
    /// Memory of replies that are made whole.
    pub replies: Arc<MemoryBudget>,
    /// Memory of what changed since a reply was begun that is sent in parts.
    pub images: Arc<MemoryBudget>,
    /// Requests that take long and may be served at a time.
    pub(crate) long_requests: Semaphore,
    /// Scripts that take long and may run at a time.
    pub(crate) long_scripts: Semaphore,
    /// Scripts that clients have asked for.
    #[cfg(feature = "scripts")]
    pub(crate) scripts: Scripts,
    /// What cursors of SCAN stand for.
    pub(crate) cursors: Cursors,
    /// Who has subscribed to what.
    pub(crate) channels: Arc<Channels>,
    /// Redis clients that are connected.
    pub(crate) clients: Arc<Clients>,
    /// memcached's connections.
    pub(crate) connections: Arc<Connections>,
    /// Commands that took long.
    pub(crate) slowlog: Slowlog,
    /// Errors that Redis clients were told.
    pub(crate) errors: Errors,
    /// Clients that are told of every command.
    pub(crate) monitors: Arc<Monitors>,
    /// Which events of keys are told.
    pub(crate) notifications: Arc<Notifications>,
    /// Keys that clients keep.
    pub(crate) tracking: Arc<Tracking>,
    /// Events that took long.
    pub(crate) latency: Latency,
    /// The most bytes of the pool that were in use when they were looked at.
    pub(crate) peak_bytes: AtomicU64,
    /// What tells this run of the server from others: forty digits.
    pub(crate) run_id: String,
    pub(crate) random: Random,
    /// When memcached's clients have used items.
    pub(crate) uses: Uses,
    /// What they have done by prefix.
    pub(crate) prefixes: Prefixes,
    /// When it began.
    pub began: Instant,
}

impl Shared {
    /// Whether clients have set how many bytes of the pool may be used.
    pub(crate) fn has_limit(&self) -> bool {
        self.settings.max_bytes.load(Relaxed) > 0
    }

    /// Whether more bytes of the pool are used than clients have set as the most, as was seen when
    /// the store was last asked.
    pub(crate) fn is_beyond_limit(&self) -> bool {
        let most = self.settings.max_bytes.load(Relaxed);
        most > 0 && self.data.statistics().is_ok_and(|store| store.used_bytes > most)
    }

    /// The cluster as it is now, if the server is a node of one.
    pub(crate) fn view(&self) -> Option<View> {
        self.options.look.as_ref().map(|Look(look)| look())
    }

    /// A number below `limit` that no client can foretell.
    pub(crate) fn random_below(&self, limit: u64) -> u64 {
        self.random.below(limit)
    }
}
