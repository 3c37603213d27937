//! What all connections of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everleaf::Error;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore};

use crate::backup::Backups;
use crate::data::{Database, Work};
use crate::metrics::Metrics;
use crate::options::ServeOptions;
use crate::random::Random;

/// Requests that take long and are served at a time, for each thread that answers.
const LONG_REQUESTS: usize = 2;

/// A number that only grows, until it is reset.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts.
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// How much it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Begins anew.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What was done since the server began.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Counters {
            /// All of them, with their names.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get()),)*]
            }

            /// Begins anew.
            pub fn reset(&self) {
                $(self.$name.reset();)*
            }
        }
    };
}

counters! {
    /// Connections that were opened.
    connections,
    /// Connections that were refused because there were too many.
    refused_connections,
    /// Connections by TLS that were never agreed on.
    refused_handshakes,
    /// Bytes that came.
    bytes_read,
    /// Bytes that were sent.
    bytes_written,
    /// Requests of Redis clients.
    redis_commands,
    /// Keys that Redis clients looked for and that were there.
    keyspace_hits,
    /// Keys that they looked for and that were not there.
    keyspace_misses,
    /// Keys that memcached clients asked for.
    gets,
    /// Of these, that were there.
    get_hits,
    /// Values that memcached clients stored or tried to.
    sets,
    /// Keys whose time was set and that were there.
    touch_hits,
    /// Keys whose time was to be set and that were not there.
    touch_misses,
    /// Keys that were deleted.
    delete_hits,
    /// Keys that were to be deleted and not there.
    delete_misses,
    /// Numbers that were counted up.
    incr_hits,
    /// Numbers to be counted up that were not there.
    incr_misses,
    /// Numbers that were counted down.
    decr_hits,
    /// Numbers to be counted down that were not there.
    decr_misses,
    /// Writes whose CAS number was right.
    cas_hits,
    /// Writes with a CAS number whose key was not there.
    cas_misses,
    /// Writes whose CAS number was another one.
    cas_others,
    /// Connections that were closed because nothing came.
    idle_connections,
    /// Times that everything was emptied.
    flushes,
    /// Names and passwords that were given.
    authentications,
    /// Of these, that were wrong.
    refused_authentications,
}

impl Counters {
    /// Something was counted up or down.
    pub fn counted(&self, up: bool, hit: bool) {
        let counter = match (up, hit) {
            (true, true) => &self.incr_hits,
            (true, false) => &self.incr_misses,
            (false, true) => &self.decr_hits,
            (false, false) => &self.decr_misses,
        };
        counter.add(1);
    }
}

/// Memory that all connections share.
#[derive(Debug)]
pub struct Room {
    limit: u64,
    taken: AtomicU64,
    /// Tells who waits that there is room again: below the limit, and below half of it.
    freed: Notify,
}

impl Room {
    /// Nothing of it is taken.
    pub fn of(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, taken: AtomicU64::new(0), freed: Notify::new() })
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether no more than the limit is taken.
    pub(crate) fn has_room(&self) -> bool {
        self.taken() <= self.limit
    }

    /// Whether no more than half of the limit is taken.
    pub(crate) fn has_half(&self) -> bool {
        self.taken() <= self.limit / 2
    }

    /// Returns when one of these has become true that was not when this was called.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    fn give_back(&self, bytes: u64) {
        let before = self.taken.fetch_sub(bytes, Ordering::Relaxed);
        let is_crossed = |limit| before > limit && before - bytes <= limit;
        if is_crossed(self.limit) || is_crossed(self.limit / 2) {
            self.freed.notify_waiters();
        }
    }

    /// Bytes that are not taken.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// A part of it, of no bytes.
    pub fn part(self: &Arc<Self>) -> Part {
        Part { room: Arc::clone(self), bytes: 0 }
    }
}

/// A part of a room; it is given back when this is dropped.
#[derive(Debug)]
pub struct Part {
    room: Arc<Room>,
    bytes: u64,
}

impl Part {
    /// Takes so much instead of what it took before; false if the room has not as much more.
    #[must_use]
    pub fn set(&mut self, bytes: u64) -> bool {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes == before {
            return true;
        }
        if bytes < before {
            self.room.give_back(before - bytes);
            return true;
        }
        let grown = bytes - before;
        let taken = self.room.taken.fetch_add(grown, Ordering::Relaxed);
        taken.saturating_add(grown) <= self.room.limit
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.room.give_back(self.bytes);
    }
}

/// What can be changed while a server runs.
#[derive(Debug)]
pub struct Settings {
    /// Milliseconds that a connection may be idle; 0: for ever.
    idle_ms: AtomicU64,
    /// Connections at a time.
    pub connections: AtomicU64,
    /// Microseconds from which on a command is slow; negative: none is.
    pub slow_micros: AtomicI64,
    /// Slow commands that are remembered.
    pub slow_entries: AtomicU64,
}

impl Settings {
    fn of(options: &ServeOptions) -> Self {
        let settings = Self {
            idle_ms: AtomicU64::new(0),
            connections: AtomicU64::new(options.limits.connections as u64),
            slow_micros: AtomicI64::new(10_000),
            slow_entries: AtomicU64::new(128),
        };
        settings.set_idle(options.idle.unwrap_or_default());
        settings
    }

    /// How long a connection may be idle; no time: for ever.
    pub fn set_idle(&self, idle: Duration) {
        let ms = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        self.idle_ms.store(ms, Ordering::Relaxed);
    }

    /// How long a connection may be idle.
    pub fn idle(&self) -> Option<Duration> {
        let ms = self.idle_ms.load(Ordering::Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// The same in seconds; 0: for ever, as both protocols have it.
    pub fn idle_seconds(&self) -> u64 {
        self.idle().map_or(0, |idle| idle.as_secs())
    }
}

/// What all connections of a server share.
pub struct Shared {
    /// The pool.
    pub data: Arc<Database>,
    /// How it is served.
    pub options: ServeOptions,
    /// What of it can be changed.
    pub settings: Settings,
    /// What was done.
    pub counters: Counters,
    /// How long it took.
    pub(crate) metrics: Metrics,
    /// Dumps of the pool.
    pub(crate) backups: Arc<Backups>,
    /// Connections that are open.
    pub open_connections: AtomicU64,
    /// Memory of requests that have not come to their end.
    pub requests: Arc<Room>,
    /// Memory of replies that were not sent yet, and of the requests behind them.
    pub unsent: Arc<Room>,
    /// Memory of replies that are made whole.
    pub replies: Arc<Room>,
    /// Memory of what changed since a reply was begun that is sent in parts.
    pub images: Arc<Room>,
    /// Requests that take long and may be served at a time.
    pub(crate) long_requests: Semaphore,
    /// What cursors of SCAN stand for.
    pub(crate) cursors: crate::redis::Cursors,
    /// Who has subscribed to what.
    pub(crate) channels: crate::redis::Channels,
    /// Commands that took long.
    pub(crate) slowlog: crate::redis::Slowlog,
    random: Random,
    /// When it began.
    pub began: Instant,
}

impl Shared {
    /// Nothing was done yet.
    pub fn new(data: Arc<Database>, options: ServeOptions) -> Arc<Self> {
        let limits = &options.limits;
        Arc::new(Self {
            requests: Room::of(limits.buffered_bytes),
            unsent: Room::of(limits.unsent_bytes),
            replies: Room::of(limits.whole_bytes),
            images: Room::of(limits.whole_bytes),
            backups: Backups::new(options.backups.clone(), data.now_ms()),
            data,
            settings: Settings::of(&options),
            long_requests: Semaphore::new(LONG_REQUESTS * options.threads.max(1)),
            metrics: Metrics::new(options.threads),
            options,
            counters: Counters::default(),
            open_connections: AtomicU64::new(0),
            cursors: crate::redis::Cursors::default(),
            channels: crate::redis::Channels::default(),
            slowlog: crate::redis::Slowlog::default(),
            random: Random::default(),
            began: Instant::now(),
        })
    }

    /// A number below `limit` that no client can foretell.
    pub(crate) fn random_below(&self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    /// The lines of memcached's `stats`.
    ///
    /// # Errors
    /// Damage.
    pub fn memcached_stats(&self) -> Result<Vec<(&'static str, String)>, Error> {
        let c = &self.counters;
        let store = self.data.statistics()?;
        let misses = c.gets.get().saturating_sub(c.get_hits.get());
        let numbers = [
            ("pid", u64::from(std::process::id())),
            ("uptime", self.began.elapsed().as_secs()),
            ("time", self.data.now_ms() / 1000),
            ("pointer_size", 64),
            ("curr_connections", self.open_connections.load(Ordering::Relaxed)),
            ("total_connections", c.connections.get()),
            ("max_connections", self.settings.connections.load(Ordering::Relaxed)),
            ("rejected_connections", c.refused_connections.get()),
            ("idle_kicks", c.idle_connections.get()),
            ("cmd_get", c.gets.get()),
            ("cmd_set", c.sets.get()),
            ("cmd_flush", c.flushes.get()),
            ("cmd_touch", c.touch_hits.get() + c.touch_misses.get()),
            ("get_hits", c.get_hits.get()),
            ("get_misses", misses),
            ("delete_hits", c.delete_hits.get()),
            ("delete_misses", c.delete_misses.get()),
            ("incr_hits", c.incr_hits.get()),
            ("incr_misses", c.incr_misses.get()),
            ("decr_hits", c.decr_hits.get()),
            ("decr_misses", c.decr_misses.get()),
            ("cas_hits", c.cas_hits.get()),
            ("cas_misses", c.cas_misses.get()),
            ("cas_badval", c.cas_others.get()),
            ("touch_hits", c.touch_hits.get()),
            ("touch_misses", c.touch_misses.get()),
            ("auth_cmds", c.authentications.get()),
            ("auth_errors", c.refused_authentications.get()),
            ("bytes_read", c.bytes_read.get()),
            ("bytes_written", c.bytes_written.get()),
            ("limit_maxbytes", self.data.evicts_beyond().unwrap_or(u64::MAX).min(store.max_bytes)),
            ("threads", self.options.threads as u64),
            ("bytes", store.used_bytes),
            ("curr_items", Work::new(&self.data, self.data.now_ms()).count_keys(0)?),
            ("total_items", c.sets.get()),
            ("evictions", self.data.evicted()),
        ];
        let mut lines = vec![("version", crate::memcached::VERSION.to_owned())];
        lines.extend(numbers.map(|(name, number)| (name, number.to_string())));
        Ok(lines)
    }

    /// The lines of memcached's `stats settings`.
    pub fn memcached_settings(&self) -> Vec<(&'static str, String)> {
        let limits = &self.options.limits;
        vec![
            ("maxconns", self.settings.connections.load(Ordering::Relaxed).to_string()),
            ("item_size_max", limits.value_bytes.to_string()),
            ("num_threads", self.options.threads.to_string()),
            ("idle_timeout", self.settings.idle_seconds().to_string()),
            ("cas_enabled", "yes".to_owned()),
            (
                "evictions",
                if self.data.evicts_beyond().is_some() { "on" } else { "off" }.to_owned(),
            ),
            ("flush_enabled", "yes".to_owned()),
            ("dump_enabled", "yes".to_owned()),
            ("binding_protocol", "ascii".to_owned()),
            ("auth_enabled_ascii", on_off(self.options.memcached_users.is_some())),
        ]
    }
}

fn on_off(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
}
