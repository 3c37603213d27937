//! Memory for nodes and records: arenas, which threads take from one at a time, over runs of the
//! pool.
//!
//! An arena has a list of free blocks for each size, and a run that was not handed out yet. In the
//! transient tree what was freed may be handed out at once, although another thread still looks at
//! it: it loads words, which are defined whatever they hold, and finds by versions that what it
//! read does not count. The version of a node is in a word that no other use of the block writes,
//! and only grows; the words by which a block is listed mean nothing to readers.
//!
//! # The durable tree
//! After a crash the memory is what it was at the end of the last epoch that ended. Everything of
//! it is a line with undo words and a stamp: they are written before the first change in an epoch,
//! and after a crash the line is what they say if the epoch of the stamp has failed.
//! ```text
//! A1  undo words := the words                order
//!     Crash: the stamp is an old one, which did not fail, or whose undo says the same.
//! A2  stamp := the epoch                     order
//!     Crash: the undo words are what the words are.
//! A3  the words change
//!     Crash: the epoch has failed; the undo words count.
//! ```
//! * A block is freed to the list of the *pending*; these are handed out when the epoch in which
//!   they were freed has ended. So what is handed out was free when the epoch began: its content
//!   needs no undo.
//! * Handing a block out writes its undo word, so that it may be freed again in the same epoch.
//! * The last pending block leads to nothing: the list ends there whatever it says. So pending
//!   blocks are put before the others by one store to it.
//! * A run of the pool is never given back by a crash. Its first line says whether an arena took
//!   it; where that was undone, it is free.
//! * Lists and runs are recovered when the pool is opened, blocks when they are handed out.
//!
//! Notes say which lines were changed in an epoch; they are flushed before its end, one flush a
//! line, and once more what changes after that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use everleaf_index::{EpochPart, EpochStatistics, IndexError, Result};
use everleaf_pmem::{LINE, Media, PCell, PPtr, site};
use everleaf_pool::{Pool, Run, Worker, slot_of_thread};
use parking_lot::{Mutex, MutexGuard};

use super::epochs::{Changes, Epochs, Left, Note, Sizes, Step, store_ended};
use super::layout::{
    Anchor, Arena, Block, FreeList, Fresh, KIND, Meta, NODE_BYTES, NODE_LINES, Node, Permutation,
    Run as RunOfTree, RunHead, SIZES, Stamp, ValueUndo, Version, class_for,
};
use super::log::{self, Segment};

/// Address space of a pool for which there is one arena more.
const BYTES_OF_ARENA: u64 = 16 << 20;
/// The most arenas.
const MAX_ARENAS: u64 = 64;
/// The smallest run.
const MIN_RUN: u64 = 4096;
/// The largest run that is taken ahead of need.
const LARGEST_RUN: u64 = 1 << 20;
/// Nodes that the change of a key mostly logs at most: its own, and the one above.
const LOGGED_OF_CHANGE: u64 = 2;
/// A run is this part of what there is.
const RUN_DIVISOR: u64 = 8;

/// What a thread works with that holds it: an arena, notes, and a part of the external log.
#[derive(Debug, Default)]
pub(super) struct Slot {
    arena: u64,
    notes: Vec<Note>,
    log: Option<Segment>,
    full: Vec<Segment>,
}

/// The memory of a tree.
pub(super) struct Memory<M: Media, const DURABLE: bool> {
    pool: Arc<Pool<M>>,
    pub epochs: Epochs<M>,
    /// What ends together with the epochs.
    pub part: Option<Arc<dyn EpochPart>>,
    slots: Box<[CachePadded<Mutex<Slot>>]>,
    worker: Mutex<Worker<M>>,
    /// Runs that no arena took.
    spare_runs: Mutex<Vec<Run>>,
    /// Segments of the log that no slot has.
    segments: Mutex<Vec<Segment>>,
    segment_count: AtomicU64,
    /// Nodes that were copied to the log in this run.
    logged: AtomicU64,
    /// Bytes of all runs.
    bytes: AtomicU64,
}

impl<M: Media, const DURABLE: bool> Memory<M, DURABLE> {
    /// The memory of a fresh or an opened pool, and the place of the root. A pool of the transient
    /// tree is always a fresh one.
    pub fn open(pool: &Arc<Pool<M>>, left: Left) -> Result<(Self, u64)> {
        let mut worker = pool.worker()?;
        let anchor = pool.index_root::<Anchor>()?;
        if !DURABLE || pool.media().load(&anchor.arenas) == 0 {
            Self::make_base(pool, &mut worker)?;
        }
        let base = pool.media().load(&anchor.arenas);
        let count = pool.media().load(&anchor.arena_count);
        if !(1..=MAX_ARENAS).contains(&count) {
            return Err(IndexError::Corrupt { offset: base, what: "its number of arenas" });
        }
        let slots = (0..count).map(|arena| base + arena * size_of::<Arena>() as u64);
        let slot = |arena| CachePadded::new(Mutex::new(Slot { arena, ..Slot::default() }));
        let segments = log::segments(pool)?;
        let memory = Self {
            pool: Arc::clone(pool),
            epochs: Epochs::begin(pool, left),
            part: None,
            slots: slots.map(slot).collect(),
            worker: Mutex::new(worker),
            spare_runs: Mutex::default(),
            segment_count: AtomicU64::new(segments.len() as u64),
            segments: Mutex::new(segments),
            logged: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        };
        memory.recover(base)?;
        Ok((memory, base + count * size_of::<Arena>() as u64))
    }

    /// Makes the arenas and an empty root behind them. What a cut attempt has left is free memory.
    ///
    /// ```text
    /// N1  a run with the arenas and the root   its lines, fence   Crash: nothing leads to the run.
    /// N2  COMMIT the anchor                    flush, fence
    /// ```
    fn make_base(pool: &Arc<Pool<M>>, worker: &mut Worker<M>) -> Result<()> {
        let count = (pool.media().region().max_len() / BYTES_OF_ARENA).clamp(1, MAX_ARENAS);
        for run in pool.runs(KIND)? {
            worker.free_run(KIND, run.offset)?;
        }
        let root = count * size_of::<Arena>() as u64;
        let run = worker.alloc_run(KIND, root + NODE_BYTES, |pool, run| {
            clear(pool, run.offset, root + NODE_BYTES);
            if let Some(node) = pool.media().region().get::<Node>(PPtr::at(run.offset + root)) {
                let version = Version::fresh(true, RunOfTree::NONE);
                write_empty_border::<M, DURABLE>(pool.media(), node, version);
                pool.media().flush_object(site!("masstree.create.N1.root"), node);
            }
            Ok(())
        })?;
        let anchor = pool.index_root::<Anchor>()?;
        store_ended(pool.media(), &anchor.ended[0], pool.durable_epoch()?, Sizes::EMPTY);
        pool.media().store(&anchor.arena_count, count);
        pool.media().order(site!("masstree.create.N2.order"));
        pool.media().store(&anchor.arenas, run.offset);
        pool.media().flush(site!("masstree.create.N2.anchor"), &anchor.arenas);
        pool.media().fence(site!("masstree.create.N2.fence"));
        Ok(())
    }

    /// Takes back what was done to lists and runs in failed epochs. Nothing is flushed: it is taken
    /// back again if it is lost. The stamps stay until the next change.
    fn recover(&self, base: u64) -> Result<()> {
        let media = self.pool.media();
        let undo = |stamp: &PCell<Stamp>, words: &[[&PCell; 2]]| {
            if DURABLE && self.epochs.has_failed(media.load(stamp).epoch()) {
                words.iter().for_each(|[word, undo]| media.store(word, media.load(undo)));
            }
        };
        let runs = self.pool.runs(KIND)?;
        for slot in &self.slots {
            let slot = slot.lock();
            let arena = self.arena(&slot)?;
            let fresh = &arena.fresh;
            undo(&fresh.stamp, &[[&fresh.at, &fresh.at_undo], [&fresh.end, &fresh.end_undo]]);
            let (at, end) = (media.load(&fresh.at), media.load(&fresh.end));
            let holds = |run: &Run| run.offset <= at && at <= end && end <= run.offset + run.bytes;
            if at != end && !runs.iter().any(holds) {
                let what = "memory that was never handed out is in no run";
                return Err(IndexError::Corrupt { offset: slot.arena, what });
            }
            for list in &arena.lists {
                let (head, pending) = (&list.head, &list.pending);
                let words = [
                    [head, &list.head_undo],
                    [pending, &list.pending_undo],
                    [&list.tail, &list.tail_undo],
                ];
                undo(&list.stamp, &words);
            }
        }
        for run in runs {
            self.bytes.fetch_add(run.bytes, Ordering::Relaxed);
            if run.offset != base {
                let head = self.pool.node::<RunHead>(PPtr::at(run.offset))?;
                undo(&head.stamp, &[[&head.taken, &head.taken_undo]]);
                if media.load(&head.taken) == 0 {
                    self.spare_runs.lock().push(run);
                }
            }
        }
        Ok(())
    }

    /// Bytes taken from the pool.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// More nodes than this there cannot be at one time.
    pub fn max_nodes(&self) -> u64 {
        self.bytes() / NODE_BYTES + 1
    }

    /// What its epochs came to in this run.
    pub fn statistics(&self) -> EpochStatistics {
        let nodes_logged = self.logged.load(Ordering::Relaxed);
        EpochStatistics { nodes_logged, ..self.epochs.statistics() }
    }

    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        size_of_val(&*self.slots) as u64
    }

    /// An arena that no other thread has. It is held for no longer than it takes to hand a block
    /// out.
    pub fn lock_slot(&self) -> MutexGuard<'_, Slot> {
        let start = slot_of_thread(self.pool.media(), self.slots.len());
        loop {
            for i in 0..self.slots.len() {
                let slot = &self.slots[(start + i) % self.slots.len()];
                if let Some(guard) = slot.try_lock() {
                    return guard;
                }
            }
            self.pool.media().relax();
        }
    }

    fn arena(&self, slot: &Slot) -> Result<&Arena> {
        Ok(self.pool.node(PPtr::at(slot.arena))?)
    }

    /// The first line of a block.
    pub fn block(&self, offset: u64) -> Result<&Block> {
        Ok(self.pool.node(PPtr::at(offset))?)
    }

    /// A block of at least `bytes`, whose content is undefined but for its version.
    ///
    /// # Errors
    /// [`IndexError::Pool`] when the pool is full.
    pub fn alloc(&self, bytes: u64) -> Result<u64> {
        let class =
            class_for(bytes).ok_or(IndexError::Corrupt { offset: 0, what: "its length" })?;
        let media = self.pool.media();
        let mut slot = self.lock_slot();
        let arena = self.arena(&slot)?;
        let (list, line) = (&arena.lists[class], Arena::place_of(slot.arena, class));
        self.touch_list(&mut slot, line, list)?;
        let head = media.load(&list.head);
        if head != 0 {
            let block = self.block(head)?;
            let noted = slot.notes.len();
            self.touch_block(&mut slot, head, block);
            slot.notes.truncate(noted); // All its lines are noted when it is handed out.
            media.store(&list.head, media.load(&block.free_next));
            self.handed_out(&mut slot, head, block, bytes);
            return Ok(head);
        }
        let fresh = &arena.fresh;
        self.touch_fresh(&mut slot, fresh);
        let (mut at, mut end) = (media.load(&fresh.at), media.load(&fresh.end));
        let what = "the rest of its run is less than nothing";
        let rest = end.checked_sub(at).ok_or(IndexError::Corrupt { offset: slot.arena, what })?;
        if rest < SIZES[class] {
            self.list_rest(&mut slot, arena, at, end)?;
            let run = self.new_run(&mut slot, SIZES[class]);
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
        media.store(&block.version, Version::fresh(false, self.epochs.run()));
        media.store(&block.stamp, Stamp::NEVER);
        self.handed_out(&mut slot, at, block, bytes);
        Ok(at)
    }

    /// Gives a block back that was allocated with as many bytes. In the durable tree its stamp is
    /// of this run, or of an epoch that has not failed.
    pub fn free(&self, offset: u64, bytes: u64) -> Result<()> {
        let class = class_for(bytes).ok_or(IndexError::Corrupt { offset, what: "its length" })?;
        let mut slot = self.lock_slot();
        let arena = self.arena(&slot)?;
        self.push(&mut slot, arena, class, offset)
    }

    fn push(&self, slot: &mut Slot, arena: &Arena, class: usize, offset: u64) -> Result<()> {
        let (media, list) = (self.pool.media(), &arena.lists[class]);
        let block = self.block(offset)?;
        if !DURABLE {
            media.store(&block.free_next, media.load(&list.head));
            media.store(&list.head, offset);
            return Ok(());
        }
        let line = Arena::place_of(slot.arena, class);
        self.touch_list(slot, line, list)?;
        let pending = media.load(&list.pending);
        media.store(&block.free_next, pending);
        slot.notes.push((offset, 1));
        if pending == 0 {
            media.store(&list.tail, offset);
        }
        media.store(&list.pending, offset);
        Ok(())
    }

    /// Lists what is left of a run that is too short for what is wanted.
    fn list_rest(&self, slot: &mut Slot, arena: &Arena, mut at: u64, end: u64) -> Result<()> {
        while let Some(class) = SIZES.partition_point(|size| *size <= end - at).checked_sub(1) {
            let block = self.block(at)?;
            let version = Version::fresh(false, self.epochs.run());
            self.pool.media().store(&block.version, version);
            self.pool.media().store(&block.stamp, Stamp::NEVER);
            self.push(slot, arena, class, at)?;
            at += SIZES[class];
        }
        Ok(())
    }

    /// A run with room for a block of `bytes`; of the least size if the pool has no more.
    fn new_run(&self, slot: &mut Slot, bytes: u64) -> Result<Run> {
        let run = match self.spare_run(bytes) {
            Some(run) => run,
            None => self.run_of_pool(bytes)?,
        };
        if DURABLE {
            let head = self.pool.node::<RunHead>(PPtr::at(run.offset))?;
            self.touch(slot, run.offset, &head.stamp, &[[&head.taken, &head.taken_undo]]);
            self.pool.media().store(&head.taken, 1);
        }
        Ok(run)
    }

    fn spare_run(&self, bytes: u64) -> Option<Run> {
        let mut spare = self.spare_runs.lock();
        let fits = |run: &Run| run.bytes >= bytes + LINE as u64;
        let at = spare.iter().position(fits)?;
        Some(spare.swap_remove(at))
    }

    fn run_of_pool(&self, bytes: u64) -> Result<Run> {
        let least = (bytes + LINE as u64).next_multiple_of(MIN_RUN);
        let usual = (self.bytes() / RUN_DIVISOR).clamp(MIN_RUN, LARGEST_RUN);
        let mut wish = usual.next_multiple_of(MIN_RUN).max(least);
        let mut worker = self.lock_worker();
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

    fn lock_worker(&self) -> MutexGuard<'_, Worker<M>> {
        loop {
            match self.worker.try_lock() {
                Some(worker) => return worker,
                None => self.pool.media().relax(),
            }
        }
    }

    /// A new border node, empty and as yet seen by no thread.
    pub fn alloc_border(&self) -> Result<u64> {
        let offset = self.alloc(NODE_BYTES)?;
        let (node, media) = (self.node(offset)?, self.pool.media());
        let version = media.load(&node.version).reborn(true, self.epochs.run());
        write_empty_border::<M, DURABLE>(media, node, version);
        Ok(offset)
    }

    /// A new inner node without keys.
    pub fn alloc_inner(&self) -> Result<u64> {
        let offset = self.alloc(NODE_BYTES)?;
        let (node, media) = (self.node(offset)?, self.pool.media());
        media.store(&node.meta, Meta::inner(0));
        let version = media.load(&node.version).reborn(false, self.epochs.run());
        media.store(&node.version, version);
        Ok(offset)
    }

    /// The node at a place.
    pub fn node(&self, offset: u64) -> Result<&Node> {
        Ok(self.pool.node(PPtr::at(offset))?)
    }

    /// Calls `visit` with the place and the length of everything that is free. No other operation
    /// may run meanwhile.
    pub fn for_each_free(&self, mut visit: impl FnMut(u64, u64)) -> Result<()> {
        let media = self.pool.media();
        for slot in &self.slots {
            let arena = self.arena(&slot.lock())?;
            let (at, end) = (media.load(&arena.fresh.at), media.load(&arena.fresh.end));
            if at < end {
                visit(at, end - at);
            }
            for (list, size) in arena.lists.iter().zip(SIZES) {
                let tail = media.load(&list.tail);
                for (first, last) in [(&list.head, 0), (&list.pending, tail)] {
                    let (mut block, mut left) = (media.load(first), self.bytes() / size);
                    while block != 0 {
                        visit(block, size);
                        let circle = IndexError::Corrupt { offset: block, what: "a free list" };
                        left = left.checked_sub(1).ok_or(circle)?;
                        block = if block == last { 0 } else { self.next_free(block)? };
                    }
                }
            }
        }
        for run in self.spare_runs.lock().iter() {
            visit(run.offset + LINE as u64, run.bytes - LINE as u64);
        }
        Ok(())
    }

    /// What comes behind a free block.
    fn next_free(&self, offset: u64) -> Result<u64> {
        let (media, block) = (self.pool.media(), self.block(offset)?);
        let failed = DURABLE && self.epochs.has_failed(media.load(&block.stamp).epoch());
        Ok(media.load(if failed { &block.free_undo } else { &block.free_next }))
    }

    // ---- undo, of the durable tree
    // --------------------------------------------------------------------------------------------

    /// A1 and A2 of a line with these words and their undo words. What was undone of an epoch that
    /// failed is in the words already. Whether that was the first change in the epoch.
    fn touch(
        &self,
        slot: &mut Slot,
        line: u64,
        stamp: &PCell<Stamp>,
        words: &[[&PCell; 2]],
    ) -> bool {
        let (media, now) = (self.pool.media(), self.epochs.now());
        let last = media.load(stamp);
        if !DURABLE || last.moment() == now {
            return false;
        }
        slot.notes.push((line, 1));
        if last.epoch() == now.epoch() {
            // It was written back, or is being written back, and changes again.
            media.store(stamp, last.noted(now));
            return false;
        }
        words.iter().for_each(|[word, undo]| media.store(undo, media.load(word)));
        media.order(site!("masstree.memory.A1.order"));
        media.store(stamp, Stamp::of(now));
        media.order(site!("masstree.memory.A2.order"));
        true
    }

    fn touch_fresh(&self, slot: &mut Slot, fresh: &Fresh) {
        let words = [[&fresh.at, &fresh.at_undo], [&fresh.end, &fresh.end_undo]];
        let line = slot.arena;
        self.touch(slot, line, &fresh.stamp, &words);
    }

    /// The same of a free block.
    fn touch_block(&self, slot: &mut Slot, offset: u64, block: &Block) {
        let media = self.pool.media();
        if !DURABLE {
            return;
        }
        if self.epochs.has_failed(media.load(&block.stamp).epoch()) {
            media.store(&block.free_next, media.load(&block.free_undo));
        }
        self.touch(slot, offset, &block.stamp, &[[&block.free_next, &block.free_undo]]);
    }

    /// The same of a list. What was freed in epochs that have ended can be handed out.
    fn touch_list(&self, slot: &mut Slot, line: u64, list: &FreeList) -> Result<()> {
        let media = self.pool.media();
        let words = [
            [&list.head, &list.head_undo],
            [&list.pending, &list.pending_undo],
            [&list.tail, &list.tail_undo],
        ];
        if !self.touch(slot, line, &list.stamp, &words) {
            return Ok(());
        }
        let pending = media.load(&list.pending);
        if pending != 0 {
            let tail = media.load(&list.tail);
            let block = self.block(tail)?;
            self.touch_block(slot, tail, block);
            media.store(&block.free_next, media.load(&list.head));
            media.store(&list.head, pending);
            media.store(&list.pending, 0);
        }
        Ok(())
    }

    /// Gives everything that is free a stamp of this epoch. No other operation may run meanwhile.
    pub fn touch_all(&self) -> Result<()> {
        let media = self.pool.media();
        for slot in &self.slots {
            let slot = &mut *slot.lock();
            let arena = self.arena(slot)?;
            self.touch_fresh(slot, &arena.fresh);
            for (class, list) in arena.lists.iter().enumerate() {
                let line = Arena::place_of(slot.arena, class);
                self.touch_list(slot, line, list)?;
                let (mut block, mut left) = (media.load(&list.head), self.bytes() / SIZES[class]);
                while block != 0 {
                    self.touch_block(slot, block, self.block(block)?);
                    let circle = IndexError::Corrupt { offset: block, what: "a free list" };
                    left = left.checked_sub(1).ok_or(circle)?;
                    block = media.load(&self.block(block)?.free_next);
                }
            }
        }
        let (base, _) = self.base()?;
        for run in self.pool.runs(KIND)?.into_iter().filter(|run| run.offset != base) {
            let head = self.pool.node::<RunHead>(PPtr::at(run.offset))?;
            let words = [[&head.taken, &head.taken_undo]];
            self.touch(&mut self.lock_slot(), run.offset, &head.stamp, &words);
        }
        Ok(())
    }

    /// A block that was free when the epoch began: its content needs no undo.
    fn handed_out(&self, slot: &mut Slot, offset: u64, block: &Block, bytes: u64) {
        if DURABLE {
            self.pool.media().store(&block.stamp, Stamp::logged(self.epochs.now()));
            slot.notes.push((offset, bytes.div_ceil(LINE as u64) as u32));
        }
    }

    /// Notes that lines were changed.
    pub fn note(&self, offset: u64, lines: u32) {
        self.lock_slot().notes.push((offset, lines));
    }

    /// Copies a node to the external log.
    pub fn log(&self, node: &Node, offset: u64) -> Result<()> {
        let slot = &mut *self.lock_slot();
        if !slot.log.as_ref().is_some_and(Segment::has_room) {
            let spare = self.segments.lock().pop();
            let segment = match spare {
                Some(segment) => segment,
                None => self.new_segment()?,
            };
            slot.full.extend(slot.log.replace(segment));
        }
        self.logged.fetch_add(1, Ordering::Relaxed);
        match &mut slot.log {
            Some(segment) => segment.write(&self.pool, node, offset, self.epochs.current()),
            None => Ok(()),
        }
    }

    fn new_segment(&self) -> Result<Segment> {
        let count = self.segment_count.load(Ordering::Relaxed) as usize;
        let segment = Segment::add(&mut self.lock_worker(), count)?;
        self.segment_count.fetch_add(1, Ordering::Relaxed);
        Ok(segment)
    }

    /// Makes room in the external log for the changes of so many keys: of each its node, and the
    /// one above. A node is logged once in an epoch, so there are never more entries than nodes.
    pub fn reserve_log(&self, changes: usize) -> Result<()> {
        let entries = (LOGGED_OF_CHANGE * changes as u64).min(self.max_nodes());
        loop {
            let room: u64 = self.segments.lock().iter().map(Segment::room).sum();
            if room >= entries {
                return Ok(());
            }
            let segment = self.new_segment()?;
            self.segments.lock().push(segment);
        }
    }

    /// Ends an epoch, unless another thread has. `sizes` tells what there is while all threads
    /// stand.
    pub fn end_epoch(&self, epoch: u64, sizes: &dyn Fn() -> Sizes) -> Result<()> {
        self.epochs.end(epoch, &Ending { memory: self, sizes })
    }

    /// Gives segments back that were drawn from the reserve of a full pool. The epoch has ended: no
    /// recovery reads them.
    fn give_drawn_back(&self) -> Result<()> {
        let drawn: Vec<Segment> =
            self.segments.lock().extract_if(.., |segment| segment.is_drawn()).collect();
        for segment in drawn {
            segment.give_back(&mut self.lock_worker())?;
            self.segment_count.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Flushes the lines of one object.
    fn write_back(&self, (offset, lines): Note, step: Step) -> Result<()> {
        let media = self.pool.media();
        let of_stamp = match lines {
            0 => Some(media.load(&self.block(offset)?.stamp)),
            _ => None,
        };
        let count = if lines == 0 { NODE_LINES } else { lines as usize };
        let is_changed = |line: &usize| of_stamp.is_none_or(|stamp| stamp.has_line(*line));
        let lines = (0..count).filter(is_changed).map(|line| offset + (line * LINE) as u64);
        let site = match step {
            Step::E0 => site!("masstree.epoch.E0.lines"),
            Step::E1 => site!("masstree.epoch.E1.lines"),
        };
        media.flush_lines(site, lines);
        Ok(())
    }

    /// The arenas with the root behind them: their place and length.
    pub fn base(&self) -> Result<(u64, u64)> {
        let (anchor, media) = (self.pool.index_root::<Anchor>()?, self.pool.media());
        let count = media.load(&anchor.arena_count);
        Ok((media.load(&anchor.arenas), count * size_of::<Arena>() as u64 + NODE_BYTES))
    }
}

/// The end of an epoch.
struct Ending<'e, M: Media, const DURABLE: bool> {
    memory: &'e Memory<M, DURABLE>,
    sizes: &'e dyn Fn() -> Sizes,
}

impl<M: Media, const DURABLE: bool> Changes for Ending<'_, M, DURABLE> {
    fn take(&self) -> (Vec<Note>, usize) {
        let mut taken = Vec::new();
        for slot in &self.memory.slots {
            taken.append(&mut slot.lock().notes);
        }
        (taken, self.memory.part.as_ref().map_or(0, |part| part.take_written()))
    }

    fn write_back(&self, notes: &[Note], step: Step) -> Result<()> {
        if let Some(part) = &self.memory.part {
            part.write_back();
        }
        notes.iter().try_for_each(|note| self.memory.write_back(*note, step))
    }

    fn prepare(&self, epoch: u64) -> Result<Sizes> {
        self.memory.part.as_ref().map_or(Ok(()), |part| part.prepare(epoch))?;
        Ok((self.sizes)())
    }

    /// No thread writes to the log before the gates open.
    fn finish(&self) -> Result<()> {
        let memory = self.memory;
        for slot in &memory.slots {
            let slot = &mut *slot.lock();
            slot.full.extend(slot.log.take());
            slot.full.iter_mut().for_each(Segment::empty);
            memory.segments.lock().append(&mut slot.full);
        }
        memory.give_drawn_back()?;
        memory.part.as_ref().map_or(Ok(()), |part| part.finish())
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
fn write_empty_border<M: Media, const DURABLE: bool>(media: &M, node: &Node, version: Version) {
    write_empty_words::<M, DURABLE>(media, node);
    media.store(&node.version, version);
}

/// The words of an empty border node with nothing to its right, but for its version.
pub(super) fn write_empty_words<M: Media, const DURABLE: bool>(media: &M, node: &Node) {
    media.store(&node.meta, Meta::border());
    media.store(&node.perm_undo, Permutation::EMPTY);
    media.store(&node.perm, Permutation::EMPTY);
    media.store(&node.next, PPtr::NULL);
    if DURABLE {
        for half in [0, 1] {
            media.store(node.undo_of_half(half), ValueUndo::NONE);
        }
    }
}
