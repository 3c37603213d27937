//! Taking and giving back the memory of nodes.

use std::sync::atomic::{Ordering, fence};

use everleaf_pmem::{DramArena, MapError};

use super::memory::{MemoryState, Promised};
use super::nodes::Nodes;
use crate::key::TreeKey;

impl<K: TreeKey, const CAPACITY: usize> Nodes<K, CAPACITY> {
    fn ensure(&self, state: &MemoryState, nodes: usize) -> Result<(), MapError> {
        let lines =
            (state.used_lines as usize).saturating_add(nodes.saturating_mul(Self::NODE_LINES));
        self.arena.ensure(lines)?;
        self.heads.ensure(Self::head_lines(lines))
    }

    /// Makes sure that `nodes` nodes can be allocated.
    pub(super) fn reserve(&self, nodes: usize) -> Result<(), MapError> {
        self.ensure(&self.memory.state(), nodes)
    }

    /// Whether so many nodes, the first of all, take huge pages.
    pub(super) fn fill_huge_pages(&self, nodes: usize) -> bool {
        DramArena::takes_huge_pages(nodes.saturating_mul(Self::NODE_LINES))
    }

    /// Sets memory aside for one change: an insertion. `height` is asked while the memory is
    /// locked.
    ///
    /// An insertion takes at most a node a level and a new root. If others are under way, they may
    /// make the tree higher first: once, and then again whenever a root of two slots has been
    /// filled up, which takes `CAPACITY - 1` of them.
    pub(super) fn promise(&self, height: impl Fn() -> u32) -> Result<Promised<'_>, MapError> {
        let mut state = self.memory.state();
        let promised = state.promised + 1;
        let nodes_each = height() as usize + 1 + (promised - 1).div_ceil(CAPACITY - 1);
        self.ensure(&state, promised * nodes_each)?;
        state.promised = promised;
        Ok(Promised(&self.memory))
    }

    /// What is now written to nodes that were taken may be read by threads that still hold a stale
    /// number: they must then find that the version has changed.
    fn taken() {
        fence(Ordering::Release);
    }

    /// A node without slots. The caller has reserved it.
    pub(super) fn allocate(&self) -> u32 {
        let node = self.memory.state().take(Self::NODE_LINES);
        Self::taken();
        self.empty(node);
        node
    }

    /// So many nodes without slots, the first of them last: for a thread that writes many, so that
    /// it does not meet others at the lock each time. The caller has reserved them.
    pub(super) fn allocate_many(&self, nodes: usize) -> Vec<u32> {
        let mut state = self.memory.state();
        let mut taken: Vec<_> = (0..nodes).map(|_| state.take(Self::NODE_LINES)).collect();
        drop(state);
        Self::taken();
        taken.reverse();
        taken.iter().for_each(|node| self.empty(*node));
        taken
    }

    /// Makes memory that was taken for a node one. It keeps its version, which never goes back.
    fn empty(&self, node: u32) {
        self.head(node).cover_nothing();
        if K::RECORDS {
            self.fill(node, 0);
            self.fill(node + 1, u64::MAX);
        }
    }

    /// Gives a node back.
    pub(super) fn free(&self, node: u32) {
        self.set_count(node, 0);
        self.head(node).cover_nothing();
        let mut state = self.memory.state();
        state.live -= 1;
        state.free.push(node);
    }

    /// Nodes in use.
    pub(super) fn live_nodes(&self) -> u32 {
        self.memory.state().live
    }

    /// Insertions that were promised memory and are still under way.
    pub(super) fn promised(&self) -> usize {
        self.memory.state().promised
    }

    #[cfg(test)]
    pub(super) fn used_lines(&self) -> usize {
        self.memory.state().used_lines as usize
    }

    /// Bytes of memory taken.
    pub(super) fn dram_bytes(&self) -> u64 {
        let free = self.memory.state().free.capacity() * size_of::<u32>();
        self.arena.bytes() + self.heads.bytes() + free as u64
    }

    /// Lines of the arena that are neither in use nor free: 0, or a leak.
    pub(super) fn lost_lines(&self) -> i64 {
        let state = self.memory.state();
        let nodes = state.free.len() + state.live as usize;
        i64::from(state.used_lines) - (nodes * Self::NODE_LINES) as i64
    }
}
