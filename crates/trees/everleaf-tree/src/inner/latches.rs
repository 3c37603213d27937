//! How the nodes that a change touches are locked. The changes themselves are written once, for one
//! thread and for many.

/// Told of every node in use before it is changed, or read so that the change depends on it.
pub(super) trait Latches {
    fn change(&mut self, node: u32);
}

/// There is no other thread.
pub(super) struct Alone;

impl Latches for Alone {
    #[inline(always)]
    fn change(&mut self, _node: u32) {}
}
