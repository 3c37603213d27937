//! The inner nodes that many threads read and change, in DRAM: parents of leaves, and above them
//! one sorted array, the root. Nothing of it is persistent.
//!
//! # Layout
//! A parent has up to `fanout` lower bounds and the leaves to them; the root has the first bound
//! that each parent had when it was made, and the parents. Both are blocks of one arena, found by
//! number. A block is never changed once it can be found, but for two kinds of words: that of a
//! leaf in a parent, and that of a parent in the root.
//!
//! # Readers
//! A pinned thread reads the root's number, one parent, and seldom some before it. It waits for
//! nobody and never begins again. One that is not pinned does the same in a glance (`reuse`), and
//! what it saw counts if no block was made free meanwhile. That it sees what was there at one
//! moment:
//! * A parent is replaced whole, by one store, so what is read of it was there together.
//! * An entry is put behind its left neighbour, into the same parent. So a parent's first bound
//!   never becomes smaller, and what its key in the root promises stays right. A key below the
//!   first bound belongs to a parent before; it still does when that one is read, because nothing
//!   comes in front of the first entry meanwhile.
//! * A root that was replaced is not changed any more. Who still reads it sees what was there
//!   between the moment at which it found the root and that at which the root was replaced.
//!
//! # Changes
//! One thread at a time changes inner nodes, for some hundred nanoseconds and without a flush: a
//! change comes once a split. A full parent becomes two, an empty one goes, and two whose leaves
//! are merged become one or two others, each with a new root, which is a copy: what concerns two
//! parents changes by the one store of the root. So a split copies `2 * fanout` words of a parent,
//! and every `fanout / 2` splits one root, `2 / fanout` words a leaf. There is nothing to be
//! rebuilt, and nothing that a change could miss meanwhile.
//!
//! What is replaced is free when all threads that were pinned then have left; that is looked at
//! when there are some dozens, since it voids the glances of others. Memory for a change
//! is [promised](Parents::reserve) before the change is durable.
//!
//! Map of the files: `block` (one parent, or a root) · `check` (what must hold).

mod block;
mod check;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crossbeam_utils::CachePadded;
use everleaf_index::{IndexError, Result};
use everleaf_pmem::{DramArena, DramSource, MapError};
use everleaf_pool::{Pinned, Pins, PoolError};
use parking_lot::{Mutex, MutexGuard};

use block::{Block, Entry, WORDS, cell, root_lines};
use everleaf_tree::reuse::Reuse;

/// Addresses reserved for blocks: memory is taken as it is needed.
const RESERVED_BYTES: u64 = 64 << 30;
/// Parents' worth of blocks that were replaced before those that nobody reads are made free.
const LIMBO: u32 = 64;
/// What holds for a pinned thread.
const THERE: &str = "the arena has all blocks that can be found";

/// Where a leaf stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    root: u32,
    /// The parent in the root, and its block.
    at: usize,
    parent: u32,
    /// The entry of the parent.
    index: usize,
    pub leaf: u64,
    /// The leaf's lower bound.
    pub lower: u64,
}

/// Parents and the root.
pub(super) struct Parents {
    fanout: usize,
    arena: DramArena,
    root: CachePadded<AtomicU64>,
    memory: Mutex<Memory>,
    reuse: Reuse,
    /// So many lines of replaced blocks are kept.
    kept_lines: u32,
}

/// What of the arena is in use. The one who holds it is the one who changes inner nodes.
#[derive(Default)]
struct Memory {
    used_lines: u32,
    /// Free blocks, by their lines.
    free: BTreeMap<u32, Vec<u32>>,
    /// Blocks that were replaced: when, where, and how many lines.
    limbo: VecDeque<(u64, u32, u32)>,
    limbo_lines: u32,
    /// Changes that were promised memory.
    promised: u32,
    leaves: usize,
}

impl Memory {
    fn retire(&mut self, blocks: impl Iterator<Item = (u64, u32, u32)>) {
        for block in blocks {
            self.limbo_lines = self.limbo_lines.saturating_add(block.2);
            self.limbo.push_back(block);
        }
    }
}

/// Memory for one change. Dropped, it is given back.
#[must_use]
pub(super) struct Room<'p>(&'p Parents);

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.0.memory.lock().promised -= 1;
    }
}

fn no_memory(error: MapError) -> IndexError {
    IndexError::Pool(PoolError::Map(error))
}

impl Parents {
    /// Inner nodes over leaves with their lower bounds, ascending, of which the first is the least
    /// key. Parents are half full.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if bounds do not ascend or there is no leaf, [`IndexError::Pool`]
    /// when there is no memory.
    pub fn build(
        fanout: usize,
        dram: DramSource<'_>,
        leaves: impl Iterator<Item = Result<Entry>>,
    ) -> Result<Self> {
        let mut entries: Vec<Entry> = Vec::with_capacity(leaves.size_hint().0);
        for entry in leaves {
            let (bound, leaf) = entry?;
            if entries.last().is_some_and(|(before, _)| *before >= bound) {
                let what = "the lower bounds of leaves do not ascend";
                return Err(IndexError::Corrupt { offset: leaf, what });
            }
            entries.push((bound, leaf));
        }
        if entries.is_empty() {
            return Err(IndexError::Corrupt { offset: 0, what: "a tree has no leaf" });
        }
        let parents = Self {
            fanout,
            arena: dram.reserve(RESERVED_BYTES).map_err(no_memory)?,
            root: CachePadded::default(),
            memory: Mutex::new(Memory { leaves: entries.len(), ..Memory::default() }),
            reuse: Reuse::default(),
            kept_lines: LIMBO * (1 + 2 * fanout.div_ceil(WORDS) as u32),
        };
        let each = fanout / 2;
        let count = entries.len().div_ceil(each);
        let lines = parents.parent_lines() as usize * count + root_lines(count) as usize;
        parents.arena.ensure(lines).map_err(no_memory)?;
        let mut memory = parents.memory.lock();
        let block = |part: &[Entry]| (part[0].0, parents.make_parent(&mut memory, part));
        let of_root: Vec<Entry> = entries.chunks(each).map(block).collect();
        parents.root.store(parents.make_root(&mut memory, &of_root), Release);
        drop(memory);
        Ok(parents)
    }

    /// Keeps no replaced block that nobody reads: for the explorer, whose trees are small.
    pub fn keeping_nothing(self) -> Self {
        Self { kept_lines: 0, ..self }
    }

    // ---- reading

    /// A block; none if there cannot be one. A thread that is not pinned may see anything.
    #[inline(always)]
    fn block(&self, number: u32, key_lines: usize) -> Option<Block<'_>> {
        let lines = self.arena.get(number, key_lines.checked_mul(2)?.checked_add(1)?)?;
        let (keys, words) = lines[1..].split_at(key_lines);
        let count = (lines[0].0[0].load(Relaxed) as usize).min(key_lines * WORDS);
        Some(Block { count, keys, words })
    }

    #[inline(always)]
    fn parent_seen(&self, number: u32) -> Option<Block<'_>> {
        self.block(number, self.fanout.div_ceil(WORDS))
    }

    #[inline(always)]
    fn root_seen(&self, number: u32) -> Option<Block<'_>> {
        let key_lines = self.arena.get(number, 1)?[0].0[1].load(Relaxed) as usize;
        self.block(number, key_lines)
    }

    #[inline(always)]
    fn parent(&self, number: u32) -> Block<'_> {
        self.parent_seen(number).expect(THERE)
    }

    #[inline(always)]
    fn root_at(&self, number: u32) -> Block<'_> {
        self.root_seen(number).expect(THERE)
    }

    /// The place of the leaf that covers `key`.
    #[inline(always)]
    pub fn find(&self, _: &Pinned<'_>, key: u64) -> Place {
        self.find_in(self.root.load(Acquire) as u32, key)
    }

    #[inline(always)]
    fn find_in(&self, root: u32, key: u64) -> Place {
        self.seen_in(root, key).expect(THERE)
    }

    /// The same for a thread that is not pinned, but has begun a glance before: nothing, or a place
    /// that is right if the glance is current.
    #[inline(always)]
    pub fn look(&self, key: u64) -> Option<Place> {
        self.seen_in(self.root.load(Acquire) as u32, key)
    }

    #[inline(always)]
    fn seen_in(&self, root: u32, key: u64) -> Option<Place> {
        let array = self.root_seen(root)?;
        let mut at = array.up_to(key).max(1) - 1;
        loop {
            let parent = array.words.get(at / WORDS)?.0[at % WORDS].load(Acquire) as u32;
            let block = self.parent_seen(parent)?;
            match block.up_to(key) {
                0 if at > 0 => at -= 1,
                before => {
                    let index = before.max(1) - 1;
                    let (leaf, lower) = (block.word(index).load(Acquire), block.key(index));
                    return Some(Place { root, at, parent, index, leaf, lower });
                }
            }
        }
    }

    #[inline(always)]
    fn place(&self, root: u32, at: usize, parent: u32, index: usize) -> Place {
        let block = self.parent(parent);
        let (leaf, lower) = (block.word(index).load(Acquire), block.key(index));
        Place { root, at, parent, index, leaf, lower }
    }

    /// Whether `place`, which this thread has found in a glance that is asked afterwards, is still
    /// that of its leaf. Else it may be all the same.
    #[inline(always)]
    pub fn is_current(&self, place: &Place) -> bool {
        let word = |block: Option<Block<'_>>, index: usize| {
            Some(block?.words.get(index / WORDS)?.0[index % WORDS].load(Acquire))
        };
        let parent = |word: u64| word as u32 == place.parent;
        self.root.load(Acquire) as u32 == place.root
            && word(self.root_seen(place.root), place.at).is_some_and(parent)
            && word(self.parent_seen(place.parent), place.index) == Some(place.leaf)
    }

    /// The place before one that was found since this thread was pinned; none if it is the first.
    pub fn previous(&self, _: &Pinned<'_>, place: &Place) -> Option<Place> {
        if place.index > 0 {
            return Some(self.place(place.root, place.at, place.parent, place.index - 1));
        }
        let at = place.at.checked_sub(1)?;
        let parent = self.root_at(place.root).word(at).load(Acquire) as u32;
        Some(self.place(place.root, at, parent, self.parent(parent).count - 1))
    }

    /// The place behind one that was found since this thread was pinned; none if it is the last.
    pub fn next(&self, _: &Pinned<'_>, place: &Place) -> Option<Place> {
        if place.index + 1 < self.parent(place.parent).count {
            return Some(self.place(place.root, place.at, place.parent, place.index + 1));
        }
        let (at, root) = (place.at + 1, self.root_at(place.root));
        let parent = (at < root.count).then(|| root.word(at).load(Acquire) as u32)?;
        Some(self.place(place.root, at, parent, 0))
    }

    /// All leaves and their bounds. No other thread changes inner nodes.
    pub fn entries(&self) -> Vec<Entry> {
        let root = self.root_at(self.root.load(Acquire) as u32);
        let parents = root.entries().into_iter();
        parents.flat_map(|(_, parent)| self.parent(parent as u32).entries()).collect()
    }

    /// Leaves.
    pub fn len(&self) -> usize {
        self.memory.lock().leaves
    }

    /// Nodes: parents and the root.
    pub fn nodes(&self, _: &Pinned<'_>) -> u64 {
        self.root_at(self.root.load(Acquire) as u32).count as u64 + 1
    }

    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        self.arena.bytes()
    }

    // ---- memory

    fn parent_lines(&self) -> u32 {
        1 + 2 * self.fanout.div_ceil(WORDS) as u32
    }

    /// Promises memory for one change.
    ///
    /// # Errors
    /// [`IndexError::Pool`] when the system gives none.
    pub fn reserve(&self) -> Result<Room<'_>> {
        let mut memory = self.memory.lock();
        let promised = memory.promised + 1;
        let parents = self.root_at(self.root.load(Relaxed) as u32).count + promised as usize;
        // Each may split a parent, with a root that all before it have made longer.
        let one = 2 * self.parent_lines() as usize + root_lines(parents) as usize;
        let lines = memory.used_lines as usize + promised as usize * one;
        self.arena.ensure(lines).map_err(no_memory)?;
        memory.promised = promised;
        Ok(Room(self))
    }

    /// How often blocks were made free.
    #[inline(always)]
    pub fn reuse(&self) -> &Reuse {
        &self.reuse
    }

    fn take(&self, memory: &mut Memory, lines: u32) -> u32 {
        self.reuse.taken();
        if let Some(block) = memory.free.get_mut(&lines).and_then(Vec::pop) {
            return block;
        }
        memory.used_lines += lines;
        memory.used_lines - lines
    }

    fn fill(&self, number: u32, key_lines: usize, entries: &[Entry]) {
        let head = &self.arena.line(number).0;
        head[0].store(entries.len() as u64, Relaxed);
        head[1].store(key_lines as u64, Relaxed);
        let block = self.block(number, key_lines).expect(THERE);
        for (index, (key, word)) in entries.iter().enumerate() {
            cell(block.keys, index).store(*key, Relaxed);
            block.word(index).store(*word, Relaxed);
        }
    }

    fn make_parent(&self, memory: &mut Memory, entries: &[Entry]) -> u64 {
        let number = self.take(memory, self.parent_lines());
        self.fill(number, self.fanout.div_ceil(WORDS), entries);
        u64::from(number)
    }

    fn make_root(&self, memory: &mut Memory, entries: &[Entry]) -> u64 {
        let lines = root_lines(entries.len());
        let number = self.take(memory, lines);
        self.fill(number, lines as usize / 2, entries);
        u64::from(number)
    }

    // ---- changes

    /// Holds other changes off, and makes blocks free that nobody reads any more: many at a time,
    /// as each time voids what threads see that are not pinned.
    fn begin(&self, pins: &Pins) -> MutexGuard<'_, Memory> {
        let mut memory = self.memory.lock();
        if memory.limbo_lines <= self.kept_lines {
            return memory;
        }
        let horizon = pins.horizon();
        self.reuse.freed();
        while let Some((moment, block, lines)) = memory.limbo.front().copied() {
            if moment >= horizon {
                break;
            }
            memory.limbo.pop_front();
            memory.limbo_lines -= lines;
            memory.free.entry(lines).or_default().push(block);
        }
        memory
    }

    /// Puts another leaf in the place of the one with this bound.
    pub fn replace(&self, pins: &Pins, bound: u64, leaf: u64) {
        let _memory = self.begin(pins);
        let place = self.find_in(self.root.load(Relaxed) as u32, bound);
        self.parent(place.parent).word(place.index).store(leaf, Release);
    }

    /// Puts a leaf behind the one with this bound, and another one into the place of that, at the
    /// same moment. Whether a parent became two.
    pub fn split(
        &self,
        pins: &Pins,
        room: Room<'_>,
        bound: u64,
        first: Option<u64>,
        second: Entry,
    ) -> bool {
        let mut memory = self.begin(pins);
        let place = self.find_in(self.root.load(Relaxed) as u32, bound);
        let mut entries = self.parent(place.parent).entries();
        if let Some(first) = first {
            entries[place.index].1 = first;
        }
        entries.insert(place.index + 1, second);
        memory.leaves += 1;
        let became_two = entries.len() > self.fanout;
        self.exchange(&mut memory, pins, &place, 1, &entries);
        drop(memory);
        drop(room);
        became_two
    }

    /// Takes a leaf out that is not the first. Its range falls to the one before.
    pub fn remove(&self, pins: &Pins, room: Room<'_>, bound: u64) {
        let mut memory = self.begin(pins);
        let place = self.find_in(self.root.load(Relaxed) as u32, bound);
        let mut entries = self.parent(place.parent).entries();
        entries.remove(place.index);
        memory.leaves -= 1;
        self.exchange(&mut memory, pins, &place, 1, &entries);
        drop(memory);
        drop(room);
    }

    /// Puts one leaf in the place of that with this bound and of the one behind it, at the same
    /// moment: were the one behind still led to, its keys would stand in two leaves.
    pub fn merge(&self, pins: &Pins, room: Room<'_>, bound: u64, leaf: u64) {
        let mut memory = self.begin(pins);
        let place = self.find_in(self.root.load(Relaxed) as u32, bound);
        let root = self.root_at(place.root);
        let mut entries = self.parent(place.parent).entries();
        entries[place.index].1 = leaf;
        let mut parents = 1;
        if place.index + 1 == entries.len() && place.at + 1 < root.count {
            parents = 2;
            entries.extend(self.parent(root.word(place.at + 1).load(Relaxed) as u32).entries());
        }
        entries.remove(place.index + 1);
        memory.leaves -= 1;
        self.exchange(&mut memory, pins, &place, parents, &entries);
        drop(memory);
        drop(room);
    }

    /// Puts another parent with these entries in the place of one or of two neighbours, the first
    /// of which is that of `place`: two if they are too many, none if there are none.
    fn exchange(
        &self,
        memory: &mut Memory,
        pins: &Pins,
        place: &Place,
        parents: usize,
        entries: &[Entry],
    ) {
        let root = self.root_at(place.root);
        // Two become one that is not full, or the next split would make two of it again.
        let most = if parents == 1 { self.fanout } else { self.fanout - self.fanout / 4 };
        let each = if entries.len() > most { entries.len().div_ceil(2) } else { self.fanout };
        let made: Vec<Entry> =
            entries.chunks(each).map(|part| (part[0].0, self.make_parent(memory, part))).collect();
        if let ([(_, parent)], 1) = (&made[..], parents) {
            root.word(place.at).store(*parent, Release);
            memory.retire([(pins.moment(), place.parent, self.parent_lines())].into_iter());
        } else {
            let mut of_root = root.entries();
            let key = of_root[place.at].0;
            let gone: Vec<Entry> = of_root.splice(place.at..place.at + parents, made).collect();
            if let Some(first) = of_root.get_mut(place.at).filter(|_| !entries.is_empty()) {
                first.0 = key;
            }
            self.raise_keys(&mut of_root, place.at);
            let new = self.make_root(memory, &of_root);
            self.root.store(new, Release);
            let moment = pins.moment();
            let parents = gone.iter().map(|(_, parent)| (*parent as u32, self.parent_lines()));
            let blocks = parents.chain([(place.root, root_lines(root.count))]);
            memory.retire(blocks.map(|(block, lines)| (moment, block, lines)));
        }
    }

    /// Makes the keys of a root ascend, where some parents were put in the place of the one at
    /// `at`: those that had lost their first entries may have smaller keys than others got now.
    fn raise_keys(&self, of_root: &mut [Entry], at: usize) {
        for next in at + 1..of_root.len() {
            if of_root[next].0 <= of_root[next - 1].0 {
                of_root[next].0 = self.parent(of_root[next].1 as u32).key(0);
            } else if next > at + 1 {
                break;
            }
        }
    }
}
