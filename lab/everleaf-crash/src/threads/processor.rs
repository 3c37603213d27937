//! One processor for threads that take turns.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Keeps this thread, and those that it starts, on the processor where it is; dropped, it lets this
/// thread go where it might go before.
///
/// Only one of the threads runs at a time, so a second processor is of no use to them, and handing
/// the turn to a thread on another processor means waking that up, which takes longer than most
/// turns.
pub(super) struct OneProcessor(Option<CpuSet>);

impl OneProcessor {
    /// What the system refuses costs only time.
    pub fn keep() -> Self {
        let mut here = CpuSet::new();
        here.set(sched_getcpu());
        let before = sched_getaffinity(None).ok();
        Self(before.filter(|_| sched_setaffinity(None, &here).is_ok()))
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}
