//! What happens while nobody waits: the group behind the last one, segments ahead of need,
//! checkpoints; and by a thread of its own, which none of that holds up, the groups of a buffered
//! log.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::core::Core;

/// After so long without a group an empty one is written behind the last.
const IDLE: Duration = Duration::from_millis(100);

/// What the thread is told.
#[derive(Default)]
pub(crate) struct Signals {
    wanted: Mutex<Wanted>,
    wake: Condvar,
    /// Notified after each checkpoint.
    room: Condvar,
    /// Notified when the threads are to end.
    stopped: Condvar,
    /// A group was committed that the thread does not know of.
    committed: AtomicBool,
    /// The thread sleeps until a group is committed. Otherwise it looks by itself after a while,
    /// and who commits makes no system call for it.
    asleep: AtomicBool,
}

#[derive(Clone, Copy, Default)]
struct Wanted {
    stop: bool,
    checkpoint: bool,
    spare: bool,
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

    fn stop(&self) {
        self.wanted.lock().stop = true;
        self.wake.notify_one();
        self.stopped.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.wanted.lock().stop
    }

    /// Whether the threads are to end, at once or within this time.
    fn stops_within(&self, time: Duration) -> bool {
        let mut wanted = self.wanted.lock();
        if !wanted.stop {
            self.stopped.wait_for(&mut wanted, time);
        }
        wanted.stop
    }
}

/// The threads behind a media; they end when this is dropped.
pub(crate) struct Background {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start(core: &Arc<Core>) -> std::io::Result<Self> {
        let mut started = Self { core: Arc::clone(core), threads: Vec::new() };
        started.spawn("everleaf-log", run)?;
        if let Some(interval) = core.options.interval {
            started.spawn("everleaf-commit", move |core| commit_every(core, interval))?;
        }
        Ok(started)
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(&Core) + Send + 'static,
    ) -> std::io::Result<()> {
        let (core, named) = (Arc::clone(&self.core), std::thread::Builder::new().name(name.into()));
        self.threads.push(named.spawn(move || work(&core))?);
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.core.signals.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Makes durable what was captured, again and again. Who waits hears of a failure.
fn commit_every(core: &Core, interval: Duration) {
    while !core.signals.stops_within(interval) && core.wait_for(core.point()).is_ok() {}
}

/// Until it is told to stop, or something has failed: those who wait hear of that.
fn run(core: &Core) {
    let mut active = false;
    loop {
        let wanted = {
            let mut wanted = core.signals.wanted.lock();
            if !wanted.stop && !wanted.checkpoint && !wanted.spare {
                if active {
                    core.signals.wake.wait_for(&mut wanted, IDLE);
                } else {
                    // Either this sees the commit, or who commits sees that it sleeps.
                    core.signals.asleep.store(true, SeqCst);
                    if !core.signals.committed.load(SeqCst) {
                        core.signals.wake.wait(&mut wanted);
                    }
                    core.signals.asleep.store(false, SeqCst);
                }
            }
            *wanted
        };
        if wanted.stop || core.check().is_err() {
            return;
        }
        if wanted.checkpoint || core.length_bytes() > core.log_bytes() {
            let _ = core.checkpoint(); // Its failure is kept.
            core.signals.wanted.lock().checkpoint = false;
            core.signals.room.notify_all();
            continue;
        }
        let _ = core.get_spare(); // A failure is kept.
        core.signals.wanted.lock().spare = false;
        core.signals.room.notify_all();
        let committed = core.signals.committed.swap(false, AcqRel);
        if active && !committed {
            let _ = core.seal();
        }
        active = committed;
    }
}
