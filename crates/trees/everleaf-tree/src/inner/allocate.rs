//! Taking and giving back the memory of nodes.

use std::sync::atomic::{Ordering, fence};

use everleaf_pmem::{DramArena, MapError};

use super::memory::{MemoryState, Promised, Unit};
use super::nodes::{Nodes, WORDS};
use super::words::NodeWord;
use crate::key::TreeKey;

impl<K: TreeKey, const CAPACITY: usize> Nodes<K, CAPACITY> {
    /// Lines of a full node with all its segments.
    const FULL_LINES: usize = Self::NODE_LINES
        + if Self::SEGMENTS == 1 { 0 } else { Self::SEGMENTS * Self::SEGMENT_LINES };

    fn ensure(&self, state: &MemoryState, nodes: usize) -> Result<(), MapError> {
        let lines =
            (state.used_lines as usize).saturating_add(nodes.saturating_mul(Self::FULL_LINES));
        self.arena.ensure(lines)?;
        self.hints.ensure(Self::hint_lines(lines))
    }

    /// Makes sure that `nodes` full nodes can be allocated.
    pub(super) fn reserve(&self, nodes: usize) -> Result<(), MapError> {
        self.ensure(&self.memory.state(), nodes)
    }

    /// Whether so many nodes, the first of all, take huge pages.
    pub(super) fn fill_huge_pages(&self, nodes: usize) -> bool {
        DramArena::takes_huge_pages(nodes.saturating_mul(Self::FULL_LINES))
    }

    /// Sets memory aside for one change: an insertion, or a redistribution of entries. `height` is
    /// asked while the memory is locked.
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

    /// A unit, and whether it was never used before.
    fn take(&self, unit: Unit, lines: usize) -> (u32, bool) {
        let taken = self.memory.state().take(unit, lines);
        Self::taken();
        taken
    }

    /// What is now written to units that were taken may be read by threads that still hold a stale
    /// number: they must then find that the version has changed.
    fn taken() {
        fence(Ordering::Release);
    }

    fn give_back(&self, unit: Unit, index: u32) {
        let mut state = self.memory.state();
        state.live[unit as usize] -= 1;
        state.free[unit as usize].push(index);
    }

    /// A node without slots. The caller has reserved it.
    pub(super) fn allocate(&self) -> u32 {
        let (node, fresh) = self.take(Unit::Node, Self::NODE_LINES);
        self.empty(node, fresh);
        node
    }

    /// So many nodes without slots, the first of them last: for a thread that writes many, so that
    /// it does not meet others at the lock each time. The caller has reserved them.
    pub(super) fn allocate_many(&self, nodes: usize) -> Vec<u32> {
        let mut state = self.memory.state();
        let mut taken: Vec<_> =
            (0..nodes).map(|_| state.take(Unit::Node, Self::NODE_LINES)).collect();
        drop(state);
        Self::taken();
        taken.reverse();
        taken.iter().for_each(|(node, fresh)| self.empty(*node, *fresh));
        taken.into_iter().map(|(node, _)| node).collect()
    }

    /// Makes memory that was taken for a node one.
    fn empty(&self, node: u32, fresh: bool) {
        let pivot_lines = if Self::SEGMENTS == 1 { Self::PIVOT_LINES } else { 1 };
        for place in 0..pivot_lines * WORDS {
            let (line, word) = (node + Self::BODY + (place / WORDS) as u32, place % WORDS);
            if (line, word) != (node + Self::COUNT_LINE, WORDS - 1) {
                self.store(line, word, u64::MAX);
            }
        }
        if fresh {
            // else it keeps its version, which never goes back
            self.set_node_word(node, NodeWord::EMPTY);
        }
        if K::RECORDS {
            self.fill(node, 0);
        }
    }

    /// Gives a node back with all its segments.
    pub(super) fn free(&self, node: u32) {
        self.set_count(node, 0);
        self.give_back(Unit::Node, node);
    }

    /// A segment without slots. The caller has reserved it.
    pub(super) fn allocate_segment(&self) -> u32 {
        let (segment, _) = self.take(Unit::Segment, Self::SEGMENT_LINES);
        (0..Self::PIVOT_LINES).for_each(|line| self.fill(segment + line as u32, u64::MAX));
        segment
    }

    /// Gives a segment back.
    pub(super) fn free_segment(&self, segment: u32) {
        self.give_back(Unit::Segment, segment);
    }

    /// Nodes in use.
    pub(super) fn live_nodes(&self) -> u32 {
        self.memory.state().live[Unit::Node as usize]
    }

    /// Segments in use by all nodes.
    pub(super) fn live_segments(&self) -> u32 {
        self.memory.state().live[Unit::Segment as usize]
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
        let state = self.memory.state();
        self.arena.bytes()
            + self.hints.bytes()
            + state.free.iter().map(|list| list.capacity() * size_of::<u32>()).sum::<usize>() as u64
    }

    /// Lines of the arena that are neither in use nor free: 0, or a leak.
    pub(super) fn lost_lines(&self) -> i64 {
        let state = self.memory.state();
        let units =
            |unit: Unit| state.free[unit as usize].len() + state.live[unit as usize] as usize;
        let lines =
            units(Unit::Node) * Self::NODE_LINES + units(Unit::Segment) * Self::SEGMENT_LINES;
        i64::from(state.used_lines) - lines as i64
    }
}
