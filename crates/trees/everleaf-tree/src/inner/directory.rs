//! From a number to the bottom node that covers it, without a descent: a hint that is verified.
//!
//! ```text
//! cell    of 64 bits: the bottom nodes that cover the first and the last number of its range; or a
//!         table of cells for the same range
//! root    cells for all numbers: two to four times as many as there are bottom nodes
//! table   a line that says how numbers lead to its cells, and those: again two to four for a node
//! ```
//! Numbers lead to cells by their distance from a base, in steps of a power of two, so that the
//! cells are shared out over the lower bounds of the nodes that there are; what is before the first
//! cell is in the first, what is behind the last in the last. A cell with many nodes has a table of
//! its own, and so on: keys that cluster find their nodes by a few steps more.
//!
//! **Nothing depends on what a cell says.** Whoever comes to a node by a cell asks its
//! [head](super::heads) whether it covers the number, under the version of the node. A wrong cell
//! costs a descent. So one word is all that a reader must see at once, a directory may be made anew
//! while others read it, and its memory is never given back.
//!
//! **Who stores.** One thread at a time: the one that changes the structure of the tree. It stores
//! the cells of a bottom node that came or grew before it lets go of the structure, so that another
//! one's stores are never older than what they say. When the tree has an eighth more nodes or a
//! fourth of them is left, or no cell leads to some of those that came, the whole is made anew.
//!
//! A reader that is on its way while it is made anew may take anything for a cell or for the head
//! of a table, also a key. So it reads lines that there are, goes down no more tables than there
//! can be one below the other, and takes what it has found for a node, which is verified as ever.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::{DramArena, DramSource, MapError};

use super::Inner;
use super::heads::Head;
use super::nodes::WORDS;
use crate::key::TreeKey;

/// In the first half of a cell: the rest is the line of a table.
const TABLE: u32 = 1 << 31;
/// Tables one below the other at most: each has cells of a fourth of the one above, or less.
const MOST_LEVELS: usize = 32;
/// Cells that one change stores at either end of a node's range: those in the middle of a very long
/// one are told by the next ends, or when the directory is made anew.
const MOST_STORES: u64 = 32;
/// Cells of the root, or of a table.
const FEWEST_CELLS: u64 = 8;
const MOST_CELLS: u64 = 1 << 20;
/// Lines of all tables at most, for each node.
const MOST_TABLE_LINES: u32 = 2;
/// The root has cells for an eighth more numbers before the first node and behind the last one, for
/// the nodes that ascending or descending keys make before the next root.
const MARGIN: u64 = 8;
/// A cell that leads to more nodes gets a table.
const CROWDED: usize = 3;
/// Addresses reserved for cells.
const RESERVED_BYTES: u64 = 1 << 30;

/// A bottom node, and the first number that it covers.
pub(super) type Lower = (u64, u32);

/// The directory of the bottom nodes of a tree of numbers. Empty at first: no cell leads anywhere.
#[derive(Debug)]
pub(super) struct Directory {
    arena: DramArena,
    /// How numbers lead to the cells of the root.
    base: AtomicU64,
    shape: AtomicU64,
    /// Nodes that the tree had when it was made; `u64::MAX` if it shall never be.
    made_for: AtomicU64,
    /// How often a node came since to which no cell leads, or took the place of such a one.
    lost: AtomicU64,
}

/// How numbers lead to cells: by their distance from a base, shifted right by so many bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spread {
    base: u64,
    cells: u64,
    shift: u32,
}

impl Spread {
    /// Over numbers from `first` to `last`, and as much before the first as a cell has: at most so
    /// many cells, and more than half as many where the numbers are not too few.
    fn over(first: u64, last: u64, most_cells: u64) -> Self {
        let is_enough = |shift: &u32| (last - first) >> shift < most_cells - 2;
        let shift = (0..u64::BITS).find(is_enough).unwrap_or(u64::BITS - 1);
        let base = first.saturating_sub(1 << shift);
        Self { base, cells: ((last - base) >> shift) + 1, shift }
    }

    /// As a word, but for the base; 0 if there is no cell.
    fn shape(self) -> u64 {
        (self.cells - 1) << 8 | 1 << 7 | u64::from(self.shift)
    }

    /// By that word; of no cells it makes one.
    #[inline(always)]
    fn of(base: u64, shape: u64) -> Self {
        Self { base, cells: (shape >> 8) + 1, shift: shape as u32 % u64::BITS }
    }

    /// The cell of a number.
    #[inline(always)]
    fn cell(self, number: u64) -> u64 {
        (number.saturating_sub(self.base) >> self.shift).min(self.cells - 1)
    }

    /// Lines of its cells.
    fn lines(self) -> u32 {
        self.cells.div_ceil(WORDS as u64) as u32
    }

    /// The first number of a cell; none for the first cell, and behind the last one.
    fn first_of(self, cell: u64) -> Option<u64> {
        (1..self.cells).contains(&cell).then(|| self.base.wrapping_add(cell << self.shift))
    }
}

/// The word of a cell that leads to these nodes.
fn leading_to(first: u32, last: u32) -> u64 {
    u64::from(first + 1) | u64::from(last + 1) << 32
}

impl Directory {
    pub(super) fn new(dram: DramSource<'_>) -> Result<Self, MapError> {
        let [base, shape, made_for, lost] = [const { AtomicU64::new(0) }; 4];
        Ok(Self { arena: dram.reserve(RESERVED_BYTES)?, base, shape, made_for, lost })
    }

    /// From now on it leads nowhere.
    pub(super) fn turn_off(&self) {
        self.made_for.store(u64::MAX, Relaxed);
        self.shape.store(0, Relaxed);
        self.arena.all().first().into_iter().for_each(|line| line.0[0].store(0, Relaxed));
    }

    /// Whether it is worth its while to make it anew for a tree of so many nodes.
    pub(super) fn is_outgrown(&self, nodes: u64) -> bool {
        let (made_for, lost) = (self.made_for.load(Relaxed), self.lost.load(Relaxed));
        if made_for == u64::MAX {
            return false;
        }
        let is_too_large = made_for > 64 && nodes < made_for / 4;
        let is_too_small = nodes > made_for + made_for / 8 || lost > made_for / 32 + 2;
        is_too_small || is_too_large
    }

    /// Whether it leads nowhere.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.shape.load(Relaxed) == 0
    }

    /// The two nodes that may cover a number; each may be any number.
    #[inline(always)]
    pub(super) fn look_up(&self, number: u64) -> [u32; 2] {
        let root = Spread::of(self.base.load(Relaxed), self.shape.load(Relaxed));
        let mut cell = self.load(0, root.cell(number));
        if cell as u32 & TABLE != 0 {
            cell = self.look_up_below(cell, number);
        }
        [(cell as u32).wrapping_sub(1), ((cell >> 32) as u32).wrapping_sub(1)]
    }

    /// The cell of the tables below one: apart, so that the usual way is short.
    #[inline(never)]
    fn look_up_below(&self, mut cell: u64, number: u64) -> u64 {
        for _ in 0..MOST_LEVELS {
            if cell as u32 & TABLE == 0 {
                return cell;
            }
            let table = cell as u32 & !TABLE;
            cell = self.load(table + 1, self.spread_of(table).cell(number));
        }
        0
    }

    /// How numbers lead to the cells of a table.
    fn spread_of(&self, table: u32) -> Spread {
        let [base, shape] = [0, 1].map(|word| self.load(table, word));
        Spread::of(base, shape)
    }

    /// A cell of those that begin at a line; 0, which leads nowhere, if there is none.
    #[inline(always)]
    fn load(&self, first_line: u32, cell: u64) -> u64 {
        let line = u64::from(first_line) + cell / WORDS as u64;
        match self.arena.get(u32::try_from(line).unwrap_or(u32::MAX), 1) {
            Some([line]) => line.0[cell as usize % WORDS].load(Relaxed),
            _ => 0,
        }
    }

    fn store(&self, first_line: u32, cell: u64, word: u64) {
        let line = self.arena.line(first_line + (cell / WORDS as u64) as u32);
        line.0[cell as usize % WORDS].store(word, Relaxed);
    }

    /// Makes it anew, for these nodes in the order of their lower bounds, where the tree has
    /// `all_nodes`. Where there is no memory it stays as it is.
    pub(super) fn make(&self, nodes: &[Lower], all_nodes: u64) {
        // Also where it fails: the next attempt is not worth its while before the tree has grown.
        self.made_for.store(all_nodes, Relaxed);
        self.lost.store(0, Relaxed);
        let spread = spread_over(nodes, MARGIN);
        let root_lines = spread.lines();
        if nodes.is_empty() || self.arena.ensure(root_lines as usize).is_err() {
            return;
        }
        let last_line =
            root_lines.saturating_add(MOST_TABLE_LINES.saturating_mul(nodes.len() as u32));
        Making { directory: self, next_table: root_lines, last_line }.fill(0, spread, nodes);
        self.base.store(spread.base, Relaxed);
        self.shape.store(spread.shape(), Relaxed);
    }

    /// Bottom node `node` covers the numbers from `first` to `last` from now on.
    pub(super) fn set(&self, first: u64, last: u64, node: u32) {
        if !self.is_empty() && first <= last {
            let root = Spread::of(self.base.load(Relaxed), self.shape.load(Relaxed));
            let reaches = [first == 0, last >= Head::GREATEST];
            if !self.set_in(0, root, ([first, last], reaches), node) {
                self.lost.store(self.lost.load(Relaxed) + 1, Relaxed);
            }
        }
    }

    /// The same of the cells that begin at a line; whether all nodes are still known.
    /// `reaches`: whether the node covers the first number of all these cells, and the last.
    fn set_in(
        &self,
        first_line: u32,
        spread: Spread,
        ([first, last], reaches): ([u64; 2], [bool; 2]),
        node: u32,
    ) -> bool {
        let mut is_known = false;
        let (from, to) = (spread.cell(first), spread.cell(last));
        let begin = from..=to.min(from + MOST_STORES - 1);
        let end = (from + MOST_STORES).max(to.saturating_sub(MOST_STORES - 1))..=to;
        for cell in begin.chain(end) {
            let reaches = [
                spread.first_of(cell).map_or(reaches[0], |at| first <= at),
                spread.first_of(cell + 1).map_or(reaches[1], |at| last >= at - 1),
            ];
            let word = self.load(first_line, cell);
            if word as u32 & TABLE != 0 {
                let table = word as u32 & !TABLE;
                let spread = self.spread_of(table);
                is_known |= self.set_in(table + 1, spread, ([first, last], reaches), node);
                continue;
            }
            let [begin, end] = [word as u32, (word >> 32) as u32];
            // Where two nodes share a cell already, the one in the middle is not known any more.
            let is_there = begin == node + 1 || end == node + 1;
            is_known |= is_there || reaches[0] || reaches[1] && begin == end;
            let begin = if reaches[0] { node + 1 } else { begin };
            let end = if reaches[1] { node + 1 } else { end };
            self.store(first_line, cell, u64::from(begin) | u64::from(end) << 32);
        }
        is_known
    }

    /// All its lines.
    #[cfg(test)]
    pub(super) fn lines(&self) -> &[everleaf_pmem::DramLine] {
        self.arena.all()
    }

    /// Bytes of memory taken.
    pub(super) fn dram_bytes(&self) -> u64 {
        self.arena.bytes()
    }
}

/// Cells for these nodes, spread over where they begin, but for the first one, and over this part
/// of that on either side.
fn spread_over(nodes: &[Lower], margin: u64) -> Spread {
    let begin = nodes.get(1).or(nodes.first()).map_or(0, |node| node.0);
    let end = nodes.last().map_or(0, |node| node.0);
    let margin = (end - begin) / margin;
    let most_cells = (4 * nodes.len() as u64).clamp(FEWEST_CELLS, MOST_CELLS);
    Spread::over(begin.saturating_sub(margin), end.saturating_add(margin), most_cells)
}

impl<K: TreeKey, const CAPACITY: usize> Inner<K, CAPACITY> {
    /// Makes the directory anew if the tree has outgrown it. For who changes the structure.
    #[inline]
    pub(super) fn tend_directory(&self) {
        if !K::RECORDS && self.directory.is_outgrown(self.inner_nodes()) {
            let mut bottoms = Vec::new();
            if self.height() > 0 {
                self.collect_bottoms((0, self.root().node()), self.height(), &mut bottoms);
            }
            self.directory.make(&bottoms, self.inner_nodes());
        }
    }

    /// The bottom nodes below a node with so many levels of nodes, itself included.
    fn collect_bottoms(&self, node: Lower, height: u32, bottoms: &mut Vec<Lower>) {
        if height == 1 {
            return bottoms.push(node);
        }
        for slot in 0..self.nodes.count(node.1) {
            let child = self.nodes.child(node.1, slot) as u32;
            self.collect_bottoms((self.nodes.word(node.1, slot), child), height - 1, bottoms);
        }
    }

    /// All bottom nodes that were built, in the order of their lower bounds.
    pub(super) fn enter_bottoms(&self, bottoms: &[Lower]) {
        if K::RECORDS {
            return;
        }
        let lasts = bottoms.iter().skip(1).map(|(first, _)| first - 1).chain([u64::MAX]);
        bottoms
            .iter()
            .zip(lasts)
            .for_each(|((_, node), last)| self.nodes.head(*node).set_last(last));
        self.directory.make(bottoms, self.inner_nodes());
    }
}

/// A directory that is being made.
struct Making<'d> {
    directory: &'d Directory,
    next_table: u32,
    last_line: u32,
}

impl Making<'_> {
    /// Fills the cells that begin at a line. The first node covers the first number.
    fn fill(&mut self, first_line: u32, spread: Spread, nodes: &[Lower]) {
        let (mut before, mut next) = (0, 1);
        for cell in 0..spread.cells {
            let begin = next;
            while nodes.get(next).is_some_and(|node| spread.cell(node.0) == cell) {
                next += 1;
            }
            // A node that begins where the cell does covers all of it, until the next one begins.
            let is_first = |node: &Lower| spread.first_of(cell) == Some(node.0);
            if begin < next && is_first(&nodes[begin]) {
                before = begin;
            }
            let inside = &nodes[before..next];
            let table = (inside.len() > CROWDED).then(|| self.table(inside)).flatten();
            let word = table.unwrap_or_else(|| leading_to(inside[0].1, nodes[next - 1].1));
            self.directory.store(first_line, cell, word);
            before = next - 1;
        }
    }

    /// A table for these nodes; none if there is no room.
    fn table(&mut self, nodes: &[Lower]) -> Option<u64> {
        let (table, spread) = (self.next_table, spread_over(nodes, u64::MAX));
        let next_table = table + 1 + spread.lines();
        if next_table > self.last_line || self.directory.arena.ensure(next_table as usize).is_err()
        {
            return None;
        }
        self.next_table = next_table;
        self.fill(table + 1, spread, nodes);
        let head = self.directory.arena.line(table);
        head.0[0].store(spread.base, Relaxed);
        head.0[1].store(spread.shape(), Relaxed);
        Some(u64::from(TABLE | table))
    }
}
