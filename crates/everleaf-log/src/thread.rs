//! What happens while nobody waits: the group behind the last one, segments ahead of need,
//! checkpoints; and by a thread of its own, which none of that holds up, the groups of a buffered
//! log.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::core::Core;

/// After so long without a group an empty one is written behind the last.
const IDLE: Duration = Duration::from_millis(100);

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
