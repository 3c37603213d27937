//! How a scheduler decides which thread accesses recorded memory next.

/// Decides whose turn it is, where several threads share a [`Traced`](crate::Traced) and one may
/// run at a time. Only the thread that has the turn may call it, so it knows who calls.
pub trait Scheduler: Send + Sync {
    /// Called right before each access (a line write is one access, a line match eight) by the
    /// thread that makes it. Returns when that thread has the turn again, with the thread's number,
    /// which the events of the access will carry.
    ///
    /// `relaxes`: the access is a turn of a spin loop, so the caller waits for somebody else.
    /// `events`: so many were recorded and not taken so far.
    fn turn(&self, relaxes: bool, events: usize) -> u16;
}
