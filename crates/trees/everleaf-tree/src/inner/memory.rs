//! The memory of nodes: what is free, what is in use, and what was promised to insertions that are
//! under way.
//!
//! A node, once taken from the arena, stays a node for ever: a reader that follows a stale number
//! finds words of the same kind there, and then that the version has changed. So nodes are freed
//! and reused at once, without epochs.

use parking_lot::{Mutex, MutexGuard};

/// Held for a few instructions, or to grow the arena; its holder waits for nothing.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<MemoryState>);

#[derive(Debug, Default)]
pub(super) struct MemoryState {
    pub(super) used_lines: u32,
    /// Nodes that are free. The list stands beside the nodes, so that what is free is never
    /// written.
    pub(super) free: Vec<u32>,
    /// Nodes in use.
    pub(super) live: u32,
    /// Insertions that were promised memory.
    pub(super) promised: usize,
}

impl MemoryState {
    /// A node of so many lines.
    pub(super) fn take(&mut self, lines: usize) -> u32 {
        self.live += 1;
        let fresh = || {
            self.used_lines += lines as u32;
            self.used_lines - lines as u32
        };
        self.free.pop().unwrap_or_else(fresh)
    }
}

/// Memory for one insertion, whatever the others do meanwhile. Dropped, it is given back.
#[derive(Debug)]
pub(super) struct Promised<'a>(pub(super) &'a Memory);

impl Drop for Promised<'_> {
    fn drop(&mut self) {
        self.0.state().promised -= 1;
    }
}

impl Memory {
    pub(super) fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.0.lock()
    }
}
