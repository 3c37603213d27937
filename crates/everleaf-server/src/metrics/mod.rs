//! What an operator wants to know of a server while it runs.
//!
//! Map of the files: `histogram` (numbers by their size) · `rates` (what is done in a second).

mod histogram;
mod rates;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use histogram::{GROUPS, Histogram, Seen, TIMES_NS};
pub use rates::{Rates, STEP};

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

/// What is counted of the requests of a command.
#[derive(Debug)]
struct Counted {
    times: Histogram,
    failed: AtomicU64,
    rejected: AtomicU64,
}

/// What was counted of the requests of a command at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// How long those took that were done.
    pub times: Seen,
    /// Of these, that ended with an error.
    pub failed: u64,
    /// Those that were not begun.
    pub rejected: u64,
}

/// How long requests took, by command, and how many had an error. Each thread writes to memory of
/// its own.
#[derive(Debug)]
pub struct Times {
    names: Vec<&'static str>,
    threads: Vec<Box<[Counted]>>,
}

impl Times {
    /// Of commands with these names, for so many threads.
    pub fn of(names: Vec<&'static str>, threads: usize) -> Self {
        let counted = || Counted {
            times: Histogram::new(&TIMES_NS),
            failed: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
        };
        let all = || names.iter().map(|_| counted()).collect();
        Self { threads: (0..threads.max(1)).map(|_| all()).collect(), names }
    }

    fn own(&self, command: usize) -> &Counted {
        &self.threads[THREAD.get() % self.threads.len()][command]
    }

    /// A request took so long; `command` is its place among the names.
    pub fn add(&self, command: usize, took: Duration) {
        self.own(command).times.add_time(took);
    }

    /// It ended with an error.
    pub fn fail(&self, command: usize) {
        self.own(command).failed.fetch_add(1, Ordering::Relaxed);
    }

    /// A request was not begun.
    pub fn reject(&self, command: usize) {
        self.own(command).rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// What all threads have counted, by command; those without a request are left out.
    pub fn commands(&self) -> Vec<Command> {
        let all = self.names.iter().enumerate().map(|(at, name)| {
            let none = Histogram::new(&TIMES_NS).seen();
            let mut command = Command { name, times: none, failed: 0, rejected: 0 };
            for Counted { times, failed, rejected } in self.threads.iter().map(|all| &all[at]) {
                command.times = command.times.and(&times.seen());
                command.failed += failed.load(Ordering::Relaxed);
                command.rejected += rejected.load(Ordering::Relaxed);
            }
            command
        });
        all.filter(|command| command.times.count() + command.rejected > 0).collect()
    }

    /// What all threads have counted, by name; names without a request are left out.
    pub fn seen(&self) -> Vec<(&'static str, Seen)> {
        let commands = self.commands().into_iter().map(|command| (command.name, command.times));
        commands.filter(|(_, seen)| seen.count() > 0).collect()
    }

    /// Begins anew.
    pub fn reset(&self) {
        for Counted { times, failed, rejected } in self.threads.iter().flatten() {
            times.reset();
            failed.store(0, Ordering::Relaxed);
            rejected.store(0, Ordering::Relaxed);
        }
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
    /// What is done in a second.
    pub rates: Rates,
}

impl Metrics {
    /// Nothing was counted; the names are those of the commands of both protocols.
    pub fn new(redis: Vec<&'static str>, memcached: Vec<&'static str>, threads: usize) -> Self {
        Self {
            redis: Times::of(redis, threads),
            memcached: Times::of(memcached, threads),
            syncs: Histogram::new(&TIMES_NS),
            groups: Histogram::new(&GROUPS),
            rates: Rates::default(),
        }
    }
}
