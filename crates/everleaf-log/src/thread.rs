//! What happens while nobody waits: groups of a buffered log, the group behind the last one,
//! segments ahead of need, checkpoints.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::core::Core;
use crate::writer::Writer;

/// After so long without a group an empty one is written behind the last.
const IDLE: Duration = Duration::from_millis(100);

/// What the thread is told.
#[derive(Default)]
pub(crate) struct Signals {
    wanted: Mutex<Wanted>,
    wake: Condvar,
    /// Notified after each checkpoint.
    room: Condvar,
    /// A group was committed that the thread does not know of.
    committed: AtomicBool,
}

#[derive(Clone, Copy, Default)]
struct Wanted {
    stop: bool,
    checkpoint: bool,
}

impl Signals {
    /// A group was committed.
    pub(crate) fn note_commit(&self) {
        if !self.committed.load(Acquire) && !self.committed.swap(true, AcqRel) {
            let _wanted = self.wanted.lock();
            self.wake.notify_one();
        }
    }

    pub(crate) fn want_checkpoint(&self) {
        let mut wanted = self.wanted.lock();
        if !wanted.checkpoint {
            wanted.checkpoint = true;
            self.wake.notify_one();
        }
    }

    /// Returns after a checkpoint, or after `at_most`.
    pub(crate) fn wait_for_room(&self, at_most: Duration) {
        let mut wanted = self.wanted.lock();
        if wanted.checkpoint {
            self.room.wait_for(&mut wanted, at_most);
        }
    }

    fn stop(&self) {
        self.wanted.lock().stop = true;
        self.wake.notify_one();
    }
}

/// The thread behind a media; it ends when this is dropped.
pub(crate) struct Background {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start(core: &Arc<Core>) -> std::io::Result<Self> {
        let core = Arc::clone(core);
        let named = std::thread::Builder::new().name("everleaf-log".to_owned());
        let thread = named.spawn({
            let core = Arc::clone(&core);
            move || run(&core)
        })?;
        Ok(Self { core, thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.core.signals.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Until it is told to stop, or something has failed: those who wait hear of that.
fn run(core: &Core) {
    let interval = core.options.interval;
    let mut active = false;
    loop {
        let wanted = {
            let mut wanted = core.signals.wanted.lock();
            let timeout = interval.or(active.then_some(IDLE));
            if !wanted.stop && !wanted.checkpoint {
                match timeout {
                    Some(timeout) => _ = core.signals.wake.wait_for(&mut wanted, timeout),
                    None if !core.signals.committed.load(Acquire) => {
                        core.signals.wake.wait(&mut wanted);
                    }
                    None => {}
                }
            }
            *wanted
        };
        if wanted.stop || core.check().is_err() {
            return;
        }
        if wanted.checkpoint || core.length_bytes() > core.options.log_bytes {
            let _ = core.checkpoint(); // Its failure is kept.
            core.signals.wanted.lock().checkpoint = false;
            core.signals.room.notify_all();
            continue;
        }
        make_spare(core);
        let committed = core.signals.committed.swap(false, AcqRel);
        let _ = match interval {
            Some(_) => core.wait_for(core.point()),
            None if active && !committed => core.seal(),
            None => Ok(()),
        };
        active = committed;
    }
}

/// A segment ahead of need. Without room for it, whoever needs one hears of that.
fn make_spare(core: &Core) {
    let parts = {
        let log = core.log.lock();
        log.wants_spare().then(|| log.spare_parts())
    };
    if let Some((disk, says)) = parts
        && let Ok(file) = Writer::make_spare(&*disk, says)
    {
        core.log.lock().put_spare(file);
    }
}
