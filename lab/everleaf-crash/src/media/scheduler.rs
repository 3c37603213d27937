//! How a scheduler decides which thread accesses recorded memory next.

/// Decides which thread runs, where several share a [`Traced`](super::Traced) and one may run at a
/// time. Only the thread that runs calls it, so the scheduler knows its caller.
pub trait Scheduler: Send + Sync {
    /// Called right before each access (a line write is one access, a line match eight) by the
    /// thread that makes it. Returns when that thread may run again, with the thread's number,
    /// which the events of the access will carry.
    ///
    /// `relaxes`: the access is an iteration of a spin loop, so the caller waits for another
    /// thread. `events`: so many were recorded and not taken so far.
    fn schedule(&self, relaxes: bool, events: usize) -> u16;
}
