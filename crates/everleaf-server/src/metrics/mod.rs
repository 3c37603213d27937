//! What an operator wants to know of a server while it runs.
//!
//! Map of the files: `histogram` (numbers by their size).

mod histogram;

use std::cell::Cell;
use std::time::Duration;

pub use histogram::{GROUPS, Histogram, Seen, TIMES_NS};

thread_local! {
    /// Which of the threads that answer this is.
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// Says which of the threads that answer this is: it counts in a place of its own.
pub fn set_thread(number: usize) {
    THREAD.set(number);
}

/// Which of the threads that answer this is; 0 for the others.
pub fn thread() -> usize {
    THREAD.get()
}

/// How long requests took, by command. Each thread writes to memory of its own.
#[derive(Debug)]
pub struct Times {
    names: Vec<&'static str>,
    threads: Vec<Box<[Histogram]>>,
}

impl Times {
    /// Of commands with these names, for so many threads.
    pub fn of(names: Vec<&'static str>, threads: usize) -> Self {
        let all = || names.iter().map(|_| Histogram::new(&TIMES_NS)).collect();
        Self { threads: (0..threads.max(1)).map(|_| all()).collect(), names }
    }

    /// A request took so long; `command` is its place among the names.
    pub fn add(&self, command: usize, took: Duration) {
        self.threads[THREAD.get() % self.threads.len()][command].add_time(took);
    }

    /// What all threads have counted, by name; names without a request are left out.
    pub fn seen(&self) -> Vec<(&'static str, Seen)> {
        let named = self.names.iter().enumerate().map(|(at, name)| {
            let each = self.threads.iter().map(|thread| thread[at].seen());
            let none = Histogram::new(&TIMES_NS).seen();
            (*name, each.fold(none, |all, seen| all.and(&seen)))
        });
        named.filter(|(_, seen)| seen.count() > 0).collect()
    }
}

/// What is counted for the operator alone.
#[derive(Debug)]
pub struct Metrics {
    /// Requests of Redis clients.
    pub redis: Times,
    /// Requests of memcached clients.
    pub memcached: Times,
    /// How long the syncs took that replies waited for.
    pub syncs: Histogram,
    /// How many connections had replies that waited for one of them.
    pub groups: Histogram,
}

impl Metrics {
    /// Nothing was counted; the names are those of the commands of both protocols.
    pub fn new(redis: Vec<&'static str>, memcached: Vec<&'static str>, threads: usize) -> Self {
        Self {
            redis: Times::of(redis, threads),
            memcached: Times::of(memcached, threads),
            syncs: Histogram::new(&TIMES_NS),
            groups: Histogram::new(&GROUPS),
        }
    }
}
