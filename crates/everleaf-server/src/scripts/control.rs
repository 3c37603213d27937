//! When a run of a script ends that does not end by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

/// Why a run was stopped. Nothing of what it did is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It takes longer, or more memory, than a short request may.
    Long,
    /// Somebody has asked for it.
    Killed,
    /// It took longer than any script may.
    TimedOut,
    /// What it asked for cannot be done in this run.
    Refused,
}

/// What one run may take.
#[derive(Clone)]
pub struct Bounds {
    /// When it is stopped.
    pub until: Instant,
    /// Whether it is a short request: then it is done once more where it may take long.
    pub is_short: bool,
    /// Memory, beside its arguments.
    pub memory_bytes: u64,
    /// Whether somebody has asked for its end.
    pub killed: Arc<AtomicBool>,
}

/// The bounds of the run that a state is at, and whether it has passed them.
pub struct Control {
    bounds: Mutex<Bounds>,
    stop: Mutex<Option<Stop>>,
}

impl Default for Control {
    fn default() -> Self {
        let killed = Arc::default();
        let bounds = Bounds { until: Instant::now(), is_short: false, memory_bytes: 0, killed };
        Self { bounds: Mutex::new(bounds), stop: Mutex::default() }
    }
}

impl Control {
    /// A run begins.
    pub fn begin(&self, bounds: &Bounds) {
        *self.bounds.lock() = bounds.clone();
        *self.stop.lock() = None;
    }

    /// The run ends here: what was first stays.
    pub fn stop(&self, why: Stop) {
        self.stop.lock().get_or_insert(why);
    }

    pub fn stopped(&self) -> Option<Stop> {
        *self.stop.lock()
    }

    pub fn memory_bytes(&self) -> u64 {
        self.bounds.lock().memory_bytes
    }

    /// There was no memory: if it is a short request, it is done once more with as much as a long
    /// one has. Whether that is so.
    pub fn is_short_of_memory(&self) -> bool {
        let is_short = self.bounds.lock().is_short;
        if is_short {
            self.stop(Stop::Long);
        }
        is_short
    }

    /// Whether the run is within its bounds.
    pub fn may_go_on(&self) -> bool {
        if self.stopped().is_some() {
            return false;
        }
        let bounds = self.bounds.lock();
        let why = if bounds.killed.load(Ordering::Relaxed) {
            Stop::Killed
        } else if Instant::now() < bounds.until {
            return true;
        } else if bounds.is_short {
            Stop::Long
        } else {
            Stop::TimedOut
        };
        drop(bounds);
        self.stop(why);
        false
    }
}
