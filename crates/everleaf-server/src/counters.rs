//! What is counted while a server runs.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::thread;

/// Threads that count in a place of their own; more threads share these.
const PLACES: usize = 8;

/// A number in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place(AtomicU64);

/// A number that only grows, until it is reset. Threads that answer do not write to one line.
#[derive(Debug, Default)]
pub struct Counter([Place; PLACES]);

impl Counter {
    /// Counts.
    pub fn add(&self, by: u64) {
        self.0[thread() % PLACES].0.fetch_add(by, Ordering::Relaxed);
    }

    /// How much it is.
    pub fn get(&self) -> u64 {
        self.0.iter().map(|place| place.0.load(Ordering::Relaxed)).sum()
    }

    /// Begins anew.
    pub fn reset(&self) {
        self.0.iter().for_each(|place| place.0.store(0, Ordering::Relaxed));
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
    /// Of these, that had expired.
    get_expired,
    /// Of these, that `flush_all` had emptied.
    get_flushed,
    /// Meta commands.
    meta_commands,
    /// Values that memcached clients stored or tried to.
    sets,
    /// Of these, that were stored.
    stored,
    /// Of these, that were longer than a value may be.
    too_large,
    /// Of these, that found no room.
    no_memory,
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
    /// Times that a connection let others go first, because its replies were a part.
    yields,
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
