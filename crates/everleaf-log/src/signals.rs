//! What the threads behind a log are told, and by what those wait who need them.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// What the thread is told.
#[derive(Default)]
pub(crate) struct Signals {
    pub(crate) wanted: Mutex<Wanted>,
    pub(crate) wake: Condvar,
    /// Notified after each checkpoint.
    pub(crate) room: Condvar,
    /// Notified when the threads are to end.
    stopped: Condvar,
    /// A group was committed that the thread does not know of.
    pub(crate) committed: AtomicBool,
    /// The thread sleeps until a group is committed. Otherwise it looks by itself after a while,
    /// and who commits makes no system call for it.
    pub(crate) asleep: AtomicBool,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub(crate) stop: bool,
    pub(crate) checkpoint: bool,
    pub(crate) spare: bool,
}

impl Signals {
    /// A group was committed; whether a segment should be made ahead of need.
    pub(crate) fn note_commit(&self, wants_spare: bool) {
        let is_first = !self.committed.load(Acquire) && !self.committed.swap(true, SeqCst);
        if wants_spare || is_first && self.asleep.load(SeqCst) {
            let _wanted = self.wanted.lock();
            self.wake.notify_one();
        }
    }

    /// A segment ahead of need is waited for.
    pub(crate) fn want_spare(&self) {
        let mut wanted = self.wanted.lock();
        wanted.spare = true;
        self.wake.notify_one();
    }

    pub(crate) fn want_checkpoint(&self) {
        let mut wanted = self.wanted.lock();
        if !wanted.checkpoint {
            wanted.checkpoint = true;
            self.wake.notify_one();
        }
    }

    /// Returns after a checkpoint, when there is a segment ahead of need, or after `at_most`.
    pub(crate) fn wait_for_room(&self, at_most: Duration) {
        let mut wanted = self.wanted.lock();
        if wanted.checkpoint || wanted.spare {
            self.room.wait_for(&mut wanted, at_most);
        }
    }

    pub(crate) fn stop(&self) {
        self.wanted.lock().stop = true;
        self.wake.notify_one();
        self.stopped.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.wanted.lock().stop
    }

    /// Whether the threads are to end, at once or within this time.
    pub(crate) fn stops_within(&self, time: Duration) -> bool {
        let mut wanted = self.wanted.lock();
        if !wanted.stop {
            self.stopped.wait_for(&mut wanted, time);
        }
        wanted.stop
    }
}
