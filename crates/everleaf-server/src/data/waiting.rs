//! Clients that wait for a key to have something, in the order in which they came.
//!
//! Whoever waits stands in one line for each of its keys, by what it wants the key to hold. Its
//! request is done again when it is woken, so nothing is removed for a client that is gone.
//!
//! I1. A line is entered, and what is there is looked at, under the lock of its key. So a writer
//!     sees the line, or who enters it sees what was written.
//! I2. Where a key has something and a line is not empty, somebody was woken who is to look at it,
//!     or who will wake the next one: a writer wakes the first in line, who leaves wakes the next
//!     ones, and who has entered looks once more: the one before it may have left meanwhile. A wake
//!     counts from the moment on at which who is woken begins to look.
//! I3. Only the first in line takes something.
//!
//! Streams differ: who reads one takes nothing, so each write wakes all of its readers, and each
//! group of consumers has a line of its own among the others.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::record::Kind;
use super::stream::Id;

/// One who waits.
struct Waiter {
    woken: AtomicBool,
    notify: Arc<Notify>,
    /// The group that it reads for.
    group: Option<Vec<u8>>,
}

impl Waiter {
    fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.notify.notify_one();
    }
}

/// What of streams is waited for.
#[derive(Debug, Default)]
pub struct Awaited {
    /// The ids that new entries lie behind, in the order of the keys.
    pub since: Vec<Id>,
    /// The group that they are to be given to; none: each who waits gets them.
    pub group: Option<Vec<u8>>,
}

/// All lines. A writer looks at one number where nobody waits.
#[derive(Default)]
pub struct Waiting {
    clients: AtomicU64,
    lines: Mutex<HashMap<Vec<u8>, VecDeque<Arc<Waiter>>>>,
}

/// A place in lines; it is given up when this is dropped.
pub struct Place {
    all: Arc<Waiting>,
    waiter: Arc<Waiter>,
    lines: Vec<Vec<u8>>,
    /// The ids that new entries of streams lie behind.
    pub since: Vec<Id>,
}

fn line_of(row: &[u8], kind: Kind) -> Vec<u8> {
    [&[kind as u8], row].concat()
}

impl Waiting {
    /// Waits for one of some keys to hold something of a kind; `notify` tells when. The caller
    /// holds their locks.
    pub fn wait(
        self: &Arc<Self>,
        rows: &[Vec<u8>],
        (kind, awaited): (Kind, &Awaited),
        notify: &Arc<Notify>,
    ) -> Place {
        let mut lines: Vec<Vec<u8>> = rows.iter().map(|row| line_of(row, kind)).collect();
        lines.sort_unstable();
        lines.dedup();
        // It looks once more when it stands in line: who was before it may have left meanwhile.
        let group = awaited.group.clone();
        let waiter = Waiter { woken: AtomicBool::new(true), notify: Arc::clone(notify), group };
        notify.notify_one();
        let waiter = Arc::new(waiter);
        // The lock of a key is what orders this before the next writer's look.
        self.clients.fetch_add(1, Ordering::Relaxed);
        let mut all = self.lines.lock();
        for line in &lines {
            all.entry(line.clone()).or_default().push_back(Arc::clone(&waiter));
        }
        drop(all);
        Place { all: Arc::clone(self), waiter, lines, since: awaited.since.clone() }
    }

    /// How many clients wait.
    pub fn clients(&self) -> u64 {
        self.clients.load(Ordering::Relaxed)
    }

    /// Whether who has this place, or none yet, is the first in line for a key, of its group.
    pub fn is_turn(
        &self,
        row: &[u8],
        (kind, group): (Kind, Option<&[u8]>),
        place: Option<&Place>,
    ) -> bool {
        if self.clients() == 0 {
            return true;
        }
        let lines = self.lines.lock();
        let line = lines.get(&line_of(row, kind)).into_iter().flatten();
        match line.into_iter().find(|waiter| waiter.group.as_deref() == group) {
            None => true,
            Some(first) => place.is_some_and(|place| Arc::ptr_eq(first, &place.waiter)),
        }
    }

    /// Says that a key was written, and of which kind it is now, if it is there. The caller holds
    /// its lock.
    pub fn written(&self, row: &[u8], kind: Option<Kind>) {
        let lines = self.lines.lock();
        let line = |kind| lines.get(&line_of(row, kind)).into_iter().flatten();
        match kind {
            Some(Kind::Stream) => {
                let mut groups = HashSet::new();
                for waiter in line(Kind::Stream) {
                    if waiter.group.as_ref().is_none_or(|group| groups.insert(group)) {
                        waiter.wake();
                    }
                }
                return;
            }
            Some(kind) => line(kind).take(1).for_each(|first| first.wake()),
            None => {}
        }
        // There is no such group any more.
        let of_groups = line(Kind::Stream).filter(|waiter| waiter.group.is_some());
        of_groups.for_each(|waiter| waiter.wake());
    }

    /// Says that a database was emptied. The caller holds all locks.
    pub fn emptied(&self) {
        let lines = self.lines.lock();
        let of_groups = lines.values().flatten().filter(|waiter| waiter.group.is_some());
        of_groups.for_each(|waiter| waiter.wake());
    }
}

impl Place {
    /// Whether there may be something.
    pub fn is_woken(&self) -> bool {
        self.waiter.woken.load(Ordering::Acquire)
    }

    /// It looks now: what wakes it from here on makes it look again.
    pub fn look(&self) {
        self.waiter.woken.store(false, Ordering::Release);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.all.lines.lock();
        for name in &self.lines {
            let Some(line) = all.get_mut(name) else { continue };
            line.retain(|other| !Arc::ptr_eq(other, &self.waiter));
            let next = line.iter().find(|other| other.group == self.waiter.group);
            next.into_iter().for_each(|next| next.wake());
            if line.is_empty() {
                all.remove(name);
            }
        }
        drop(all);
        self.all.clients.fetch_sub(1, Ordering::Relaxed);
    }
}
