//! Memory for nodes and records: arenas, which threads take from one at a time, over runs of the
//! pool.
//!
//! An arena has a list of free blocks for each size, and a run that was not handed out yet. What
//! was freed may be handed out at once, although another thread still looks at it: it loads words,
//! which are defined whatever they hold, and finds by versions that what it read does not count.
//! The version of a node is in a word that no other use of the block writes, and only grows; the
//! words by which a block is listed mean nothing to readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use everleaf_index::IndexError;
use everleaf_pmem::{LINE, Media, PPtr, site};
use everleaf_pool::{Pool, Run, Worker};
use parking_lot::{Mutex, MutexGuard};

use super::layout::{
    Anchor, Arena, Block, FreeList, KIND, Meta, NODE_BYTES, Node, Permutation, RunHead, SIZES,
    Stamp, Version, class_for,
};

/// Address space of a pool for which there is one arena more.
const BYTES_OF_ARENA: u64 = 16 << 20;
/// The most arenas.
const MOST_ARENAS: u64 = 64;
/// The smallest run.
const LEAST_RUN: u64 = 4096;
/// The largest run that is taken ahead of need.
const LARGEST_RUN: u64 = 1 << 20;
/// A run is this part of what there is.
const RUN_DIVISOR: u64 = 8;

/// An arena, for the thread that holds it.
#[derive(Debug)]
pub(super) struct Slot {
    arena: u64,
}

/// The memory of a tree.
pub(super) struct Memory<M: Media> {
    pool: Arc<Pool<M>>,
    slots: Box<[CachePadded<Mutex<Slot>>]>,
    worker: Mutex<Worker<M>>,
    /// Bytes of all runs.
    bytes: AtomicU64,
}

impl<M: Media> Memory<M> {
    /// Makes the arenas and an empty root behind them, if there are none yet; returns the root's
    /// place as well. What a cut attempt has left is free memory.
    ///
    /// ```text
    /// N1  a run with the arenas and the root   its lines, fence   Crash: nothing leads to the run.
    /// N2  COMMIT the anchor                    flush, fence
    /// ```
    pub fn create(pool: &Arc<Pool<M>>) -> Result<(Self, u64), IndexError> {
        let count = (pool.media().region().max_len() / BYTES_OF_ARENA).clamp(1, MOST_ARENAS);
        let mut worker = pool.worker()?;
        for run in pool.runs(KIND)? {
            worker.free_run(KIND, run.offset)?;
        }
        let root = count * size_of::<Arena>() as u64;
        let run = worker.alloc_run(KIND, root + NODE_BYTES, |pool, run| {
            clear(pool, run.offset, root + NODE_BYTES);
            if let Some(node) = pool.media().region().get::<Node>(PPtr::at(run.offset + root)) {
                write_empty_border(pool.media(), node, Version::fresh(true));
                pool.media().flush_object(site!("masstree.create.N1.root"), node);
            }
            Ok(())
        })?;
        let anchor = pool.index_root::<Anchor>()?;
        pool.media().store(&anchor.arena_count, count);
        pool.media().store(&anchor.arenas, run.offset);
        pool.media().flush(site!("masstree.create.N2.anchor"), &anchor.arenas);
        pool.media().fence(site!("masstree.create.N2.fence"));
        let slots = (0..count).map(|arena| run.offset + arena * size_of::<Arena>() as u64);
        let slots = slots.map(|arena| CachePadded::new(Mutex::new(Slot { arena }))).collect();
        let (pool, bytes) = (Arc::clone(pool), AtomicU64::new(run.bytes));
        Ok((Self { pool, slots, worker: Mutex::new(worker), bytes }, run.offset + root))
    }

    /// Bytes taken from the pool.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        size_of_val(&*self.slots) as u64
    }

    /// An arena that no other thread has. It is held for no longer than it takes to hand a block
    /// out.
    fn lock_slot(&self) -> MutexGuard<'_, Slot> {
        let here = 0u8;
        // Threads have stacks of their own: where this one's lies spreads them.
        let stack = (&raw const here).addr() as u64 >> 16;
        let start = if M::REPEATABLE { 0 } else { stack.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 };
        loop {
            for i in 0..self.slots.len() {
                let slot = &self.slots[(start as usize + i) % self.slots.len()];
                if let Some(guard) = slot.try_lock() {
                    return guard;
                }
            }
            self.pool.media().relax();
        }
    }

    fn arena(&self, slot: &Slot) -> Result<&Arena, IndexError> {
        Ok(self.pool.node(PPtr::at(slot.arena))?)
    }

    /// The first line of a block.
    pub fn block(&self, offset: u64) -> Result<&Block, IndexError> {
        Ok(self.pool.node(PPtr::at(offset))?)
    }

    /// A block of at least `bytes`, whose content is undefined but for its version.
    ///
    /// # Errors
    /// [`IndexError::Pool`] when the pool is full.
    pub fn alloc(&self, bytes: u64) -> Result<u64, IndexError> {
        let class =
            class_for(bytes).ok_or(IndexError::Corrupt { offset: 0, what: "its length" })?;
        let media = self.pool.media();
        let slot = self.lock_slot();
        let arena = self.arena(&slot)?;
        let list = &arena.lists[class];
        let head = media.load(&list.head);
        if head != 0 {
            media.store(&list.head, media.load(&self.block(head)?.free_next));
            return Ok(head);
        }
        let fresh = &arena.fresh;
        let (mut at, mut end) = (media.load(&fresh.at), media.load(&fresh.end));
        if end - at < SIZES[class] {
            self.list_rest(arena, at, end)?;
            let run = self.new_run(SIZES[class]);
            // What is left of the old run is listed; it must not be handed out again.
            (at, end) = match &run {
                Ok(run) => (run.offset + size_of::<RunHead>() as u64, run.offset + run.bytes),
                Err(_) => (end, end),
            };
            media.store(&fresh.at, at);
            media.store(&fresh.end, end);
            run?;
        }
        media.store(&fresh.at, at + SIZES[class]);
        let block = self.block(at)?;
        media.store(&block.version, Version::fresh(false));
        media.store(&block.stamp, Stamp::of(0));
        Ok(at)
    }

    /// Gives a block back that was allocated with as many bytes.
    pub fn free(&self, offset: u64, bytes: u64) -> Result<(), IndexError> {
        let class = class_for(bytes).ok_or(IndexError::Corrupt { offset, what: "its length" })?;
        let slot = self.lock_slot();
        self.push(&self.arena(&slot)?.lists[class], offset)
    }

    fn push(&self, list: &FreeList, offset: u64) -> Result<(), IndexError> {
        let media = self.pool.media();
        media.store(&self.block(offset)?.free_next, media.load(&list.head));
        media.store(&list.head, offset);
        Ok(())
    }

    /// Lists what is left of a run that is too short for what is wanted.
    fn list_rest(&self, arena: &Arena, mut at: u64, end: u64) -> Result<(), IndexError> {
        while let Some(class) = SIZES.partition_point(|size| *size <= end - at).checked_sub(1) {
            let block = self.block(at)?;
            self.pool.media().store(&block.version, Version::fresh(false));
            self.push(&arena.lists[class], at)?;
            at += SIZES[class];
        }
        Ok(())
    }

    /// A run with room for a block of `bytes`; of the least size if the pool has no more.
    fn new_run(&self, bytes: u64) -> Result<Run, IndexError> {
        let least = (bytes + LINE as u64).next_multiple_of(LEAST_RUN);
        let usual = (self.bytes() / RUN_DIVISOR).clamp(LEAST_RUN, LARGEST_RUN);
        let mut wish = usual.next_multiple_of(LEAST_RUN).max(least);
        let mut worker = loop {
            match self.worker.try_lock() {
                Some(worker) => break worker,
                None => self.pool.media().relax(),
            }
        };
        loop {
            match worker.alloc_run(KIND, wish, |pool, run| {
                clear(pool, run.offset, LINE as u64);
                Ok(())
            }) {
                Ok(run) => {
                    self.bytes.fetch_add(run.bytes, Ordering::Relaxed);
                    return Ok(run);
                }
                Err(_) if wish > least => wish = least,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A new border node, empty and as yet seen by no thread.
    pub fn alloc_border(&self) -> Result<u64, IndexError> {
        let offset = self.alloc(NODE_BYTES)?;
        let (node, media) = (self.node(offset)?, self.pool.media());
        write_empty_border(media, node, media.load(&node.version).reborn(true));
        Ok(offset)
    }

    /// A new inner node without keys.
    pub fn alloc_inner(&self) -> Result<u64, IndexError> {
        let offset = self.alloc(NODE_BYTES)?;
        let (node, media) = (self.node(offset)?, self.pool.media());
        media.store(&node.meta, Meta::inner(0));
        media.store(&node.version, media.load(&node.version).reborn(false));
        Ok(offset)
    }

    /// The node at a place.
    pub fn node(&self, offset: u64) -> Result<&Node, IndexError> {
        Ok(self.pool.node(PPtr::at(offset))?)
    }

    /// Calls `visit` with the place and the length of everything that is free. No other operation
    /// may run meanwhile.
    pub fn for_each_free(&self, mut visit: impl FnMut(u64, u64)) -> Result<(), IndexError> {
        let media = self.pool.media();
        for slot in &self.slots {
            let arena = self.arena(&slot.lock())?;
            let (at, end) = (media.load(&arena.fresh.at), media.load(&arena.fresh.end));
            if at < end {
                visit(at, end - at);
            }
            for (list, size) in arena.lists.iter().zip(SIZES) {
                let (mut block, mut left) = (media.load(&list.head), self.bytes() / size);
                while block != 0 {
                    visit(block, size);
                    let circle = IndexError::Corrupt { offset: block, what: "a free list" };
                    left = left.checked_sub(1).ok_or(circle)?;
                    block = media.load(&self.block(block)?.free_next);
                }
            }
        }
        Ok(())
    }

    /// The arenas with the root behind them: their place and length.
    pub fn base(&self) -> Result<(u64, u64), IndexError> {
        let (anchor, media) = (self.pool.index_root::<Anchor>()?, self.pool.media());
        let count = media.load(&anchor.arena_count);
        Ok((media.load(&anchor.arenas), count * size_of::<Arena>() as u64 + NODE_BYTES))
    }
}

/// Zeroes lines of a run, and flushes them.
fn clear<M: Media>(pool: &Pool<M>, offset: u64, bytes: u64) {
    for at in (offset..offset + bytes).step_by(LINE) {
        let Some(cells) = pool.media().region().cells(at, 8) else { return };
        cells.iter().for_each(|cell| pool.media().store(cell, 0));
        pool.media().flush(site!("masstree.memory.clear"), &cells[0]);
    }
}

/// An empty border node. The version comes last: it is what lets readers that know the place from
/// before see that it is another node.
fn write_empty_border<M: Media>(media: &M, node: &Node, version: Version) {
    write_empty_words(media, node);
    media.store(&node.version, version);
}

/// The words of an empty border node with nothing to its right, but for its version.
pub(super) fn write_empty_words<M: Media>(media: &M, node: &Node) {
    media.store(&node.meta, Meta::border());
    media.store(&node.perm_undo, Permutation::EMPTY);
    media.store(&node.perm, Permutation::EMPTY);
    media.store(&node.next, PPtr::NULL);
}
