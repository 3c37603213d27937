//! The memory of nodes: what is free, what is in use, and what was promised to insertions that are
//! under way.
//!
//! A node, once taken from the arena, stays a node for ever, and a segment a segment: a reader that
//! follows a stale number finds words of the same kind there, and then that the version has
//! changed. So nodes are freed and reused at once, without epochs.

use std::sync::atomic::{Ordering, fence};

use everleaf_pmem::{DramArena, MapError};
use parking_lot::{Mutex, MutexGuard};

use super::InnerKey;
use super::nodes::{Nodes, WORDS};
use super::words::NodeWord;

/// What is allocated.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Node = 0,
    Segment = 1,
}

/// Held for a few instructions, or to grow the arena; its holder waits for nothing.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    used_lines: u32,
    /// Nodes that are free, and segments (of large nodes). The lists stand beside the nodes, so
    /// that what is free is never written.
    free: [Vec<u32>; 2],
    /// Nodes in use, and segments of large nodes in use.
    live: [u32; 2],
    /// Insertions that were promised memory.
    promised: usize,
}

impl Books {
    /// A unit, and whether it was never used before.
    fn take(&mut self, unit: Unit, lines: usize) -> (u32, bool) {
        self.live[unit as usize] += 1;
        let fresh = || {
            self.used_lines += lines as u32;
            (self.used_lines - lines as u32, true)
        };
        self.free[unit as usize].pop().map_or_else(fresh, |first| (first, false))
    }
}

/// Memory for one insertion, whatever the others do meanwhile. Dropped, it is given back.
#[derive(Debug)]
pub(super) struct Room<'a>(&'a Memory);

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.0.books().promised -= 1;
    }
}

impl Memory {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock()
    }
}

impl<K: InnerKey, const CAPACITY: usize> Nodes<K, CAPACITY> {
    /// Lines of a full node with all its segments.
    const FULL_LINES: usize = Self::NODE_LINES
        + if Self::SEGMENTS == 1 { 0 } else { Self::SEGMENTS * Self::SEGMENT_LINES };

    fn ensure(&self, books: &Books, nodes: usize) -> Result<(), MapError> {
        let lines =
            (books.used_lines as usize).saturating_add(nodes.saturating_mul(Self::FULL_LINES));
        self.arena.ensure(lines)?;
        self.sketches.ensure(Self::sketch_lines(lines))
    }

    /// Makes sure that `nodes` full nodes can be allocated.
    pub(super) fn reserve(&self, nodes: usize) -> Result<(), MapError> {
        self.ensure(&self.memory.books(), nodes)
    }

    /// Whether so many nodes, the first of all, take huge pages.
    pub(super) fn fill_huge_pages(&self, nodes: usize) -> bool {
        DramArena::takes_huge_pages(nodes.saturating_mul(Self::FULL_LINES))
    }

    /// Sets memory aside for one change: an insertion, or a redistribution of entries. `height` is
    /// asked while the books are open.
    ///
    /// An insertion takes at most a node a level and a new root. If others are under way, they may
    /// raise the tree first: once, and then again whenever a root of two slots has been filled up,
    /// which takes `CAPACITY - 1` of them.
    pub(super) fn promise(&self, height: impl Fn() -> u32) -> Result<Room<'_>, MapError> {
        let mut books = self.memory.books();
        let promised = books.promised + 1;
        let nodes_each = height() as usize + 1 + (promised - 1).div_ceil(CAPACITY - 1);
        self.ensure(&books, promised * nodes_each)?;
        books.promised = promised;
        Ok(Room(&self.memory))
    }

    /// A unit, and whether it was never used before.
    fn take(&self, unit: Unit, lines: usize) -> (u32, bool) {
        let taken = self.memory.books().take(unit, lines);
        Self::taken();
        taken
    }

    /// What is now written to units that were taken may be read by those who still hold a stale
    /// number: they must then find that the version has changed.
    fn taken() {
        fence(Ordering::Release);
    }

    fn give_back(&self, unit: Unit, index: u32) {
        let mut books = self.memory.books();
        books.live[unit as usize] -= 1;
        books.free[unit as usize].push(index);
    }

    /// A node without slots. The caller has reserved it.
    pub(super) fn allocate(&self) -> u32 {
        let (node, fresh) = self.take(Unit::Node, Self::NODE_LINES);
        self.empty(node, fresh);
        node
    }

    /// So many nodes without slots, the first of them last: for one who writes many, so that he
    /// does not meet others at the books each time. The caller has reserved them.
    pub(super) fn allocate_many(&self, nodes: usize) -> Vec<u32> {
        let mut books = self.memory.books();
        let mut taken: Vec<_> =
            (0..nodes).map(|_| books.take(Unit::Node, Self::NODE_LINES)).collect();
        drop(books);
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
        if !K::EXACT {
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
        self.memory.books().live[Unit::Node as usize]
    }

    /// Segments in use by all nodes.
    pub(super) fn live_segments(&self) -> u32 {
        self.memory.books().live[Unit::Segment as usize]
    }

    /// Insertions that were promised memory and are still under way.
    pub(super) fn promised(&self) -> usize {
        self.memory.books().promised
    }

    #[cfg(test)]
    pub(super) fn used_lines(&self) -> usize {
        self.memory.books().used_lines as usize
    }

    /// Bytes of memory taken.
    pub(super) fn dram_bytes(&self) -> u64 {
        let books = self.memory.books();
        self.arena.bytes()
            + self.sketches.bytes()
            + books.free.iter().map(|list| list.capacity() * size_of::<u32>()).sum::<usize>() as u64
    }

    /// Lines of the arena that are neither in use nor free: 0, or a leak.
    pub(super) fn lost_lines(&self) -> i64 {
        let books = self.memory.books();
        let units =
            |unit: Unit| books.free[unit as usize].len() + books.live[unit as usize] as usize;
        let lines =
            units(Unit::Node) * Self::NODE_LINES + units(Unit::Segment) * Self::SEGMENT_LINES;
        i64::from(books.used_lines) - lines as i64
    }
}
