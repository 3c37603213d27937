//! Allocation: the order of persistence, in one place.
//!
//! An allocation, a release and a replacement are the same thing: an *exchange* of what a cell
//! points to, from `old` to `new`, where either may be null. The worker's intent line says what is
//! being done; the destination cell itself says whether it was done.
//!
//! ```text
//! A1  intent := {old, new, destination}           flush, fence
//!     Crash: the destination still holds old: undone by recovery.
//! A2  COMMIT destination := new; bit(new) := 1, bit(old) := 0    flush each, fence
//!     Crash: in any mixture; recovery sets both bits as the destination tells.
//! A3  intent := nothing                           flush
//!     Crash: recovery repeats A2, which changes nothing.
//! ```
//!
//! A3 needs no fence where only something was allocated: the worker's next fence, which every
//! caller makes before it lets others see its structure, keeps a stale intent from being read after
//! the destination has changed again. Where a block was freed, A3 is fenced before the block may be
//! used again: until then no other worker gets it, although its bit is clear (`chunks/freeing.rs`).
//!
//! A *link* is an exchange whose destination is an entry of an index (any index, wherever the entry
//! moves): see [`Worker::begin_link`]; an index that takes part in it saves two fences: `doubt.rs`.
//! A *batch* is many links with one commit point: `batch.rs`.

use std::sync::Arc;

use everleaf_pmem::{Counter, Media, PCell, PPtr, planted, site};

use crate::batch::Staged;
use crate::chunks::Block;
use crate::classes::{Class, Usage};
use crate::intent::{Pair, write_intent};
use crate::layout::{CHUNK, LINK_TAG};
use crate::pool::Run;
use crate::record::{Owner, RECORD_HEADER_BYTES, content_bytes};
use crate::word::Sealed;
use crate::{Content, Corruption, Node, NodeKind, Pool, PoolError, Record};

/// The handle of one thread: its intent line, and the chunks that it alone allocates blocks from.
/// Handing a worker to another thread needs a fence of the old one in between; a lock under which
/// each operation ends durably is enough.
pub struct Worker<M: Media> {
    pub(crate) pool: Arc<Pool<M>>,
    pub(crate) slot: usize,
    /// The chunk that blocks are taken from, by what it holds and class.
    pub(crate) owned: [[Option<u64>; Class::COUNT]; Usage::LISTS],
    link: Option<Pair>,
    /// The intent may name blocks of something that is not finished: from its first store until it
    /// is retired.
    pub(crate) in_doubt: bool,
    /// The batch that is being gathered or was committed.
    pub(crate) batch: Option<Staged>,
    /// The records of a link that an index takes part in.
    pub(crate) pair: Option<Pair>,
    /// The block that the next record of an entry goes to.
    pub(crate) place: Option<Block>,
}

impl<M: Media> Worker<M> {
    pub(crate) fn new(pool: Arc<Pool<M>>, slot: usize) -> Self {
        Self {
            pool,
            slot,
            owned: [[None; Class::COUNT]; Usage::LISTS],
            link: None,
            in_doubt: false,
            batch: None,
            pair: None,
            place: None,
        }
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// Which of the pool's 64 workers this is: no two at a time have the same number, so it can
    /// choose a micro-log.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Whether an exchange, a link or a batch was begun and not ended.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_doubt || self.batch.is_some()
    }

    /// The intent of this worker is free to be written.
    pub(crate) fn ready(&self) -> Result<(), PoolError> {
        if self.in_doubt { Err(PoolError::WorkerBusy { slot: self.slot }) } else { Ok(()) }
    }

    // ---- exchanges
    // ---------------------------------------------------------------------------------------------

    /// Allocates memory for a `T`, whose content is undefined, and writes its address to
    /// `destination`, which must be null and belong to a structure that recovery reaches. 4
    /// flushes, 2 fences. A crash leaves `destination` null and nothing allocated, or the block
    /// allocated and `destination` pointing to it.
    ///
    /// # Errors
    /// [`PoolError::PoolFull`]; nothing has changed then. [`PoolError::Corrupt`].
    pub fn alloc_node_into<T: Node>(
        &mut self,
        destination: &PCell<PPtr<T>>,
    ) -> Result<(), PoolError> {
        self.alloc_sized_node_into(destination, size_of::<T>() as u64)
    }

    /// As [`alloc_node_into`](Worker::alloc_node_into), for a node of `bytes` bytes that begins
    /// with a `T`. A whole chunk and more is a run.
    ///
    /// # Errors
    /// Those of [`alloc_node_into`](Worker::alloc_node_into).
    pub fn alloc_sized_node_into<T: Node>(
        &mut self,
        destination: &PCell<PPtr<T>>,
        bytes: u64,
    ) -> Result<(), PoolError> {
        let bytes = bytes.max(size_of::<T>() as u64);
        let block = self.reserve(Some(T::KIND), bytes, align_of::<T>() as u64)?;
        self.exchange(destination.as_word(), None, Some(block))
    }

    /// Writes a record of the concatenated `parts` and then its address to `destination`, which
    /// must be null. 4 flushes and one for each line of the record, 2 fences. A crash leaves
    /// `destination` null and nothing allocated, or pointing to the whole record.
    ///
    /// # Errors
    /// [`PoolError::PoolFull`], [`PoolError::TooLarge`]; nothing has changed then.
    /// [`PoolError::Corrupt`].
    pub fn alloc_record_into(
        &mut self,
        destination: &PCell<PPtr<Record>>,
        parts: &[&[u8]],
    ) -> Result<(), PoolError> {
        let block = self.reserve_record(Owner::Cell, parts)?;
        self.exchange(destination.as_word(), None, Some(block))
    }

    /// As [`alloc_record_into`](Worker::alloc_record_into), of the record of an entry: its parts
    /// begin with the [head](crate::EntryHead) and the key.
    ///
    /// # Errors
    /// Those of [`alloc_record_into`](Worker::alloc_record_into).
    pub fn alloc_entry_into(
        &mut self,
        destination: &PCell<PPtr<Record>>,
        parts: &[&[u8]],
    ) -> Result<(), PoolError> {
        let block = self.reserve_record(Owner::Entry, parts)?;
        self.exchange(destination.as_word(), None, Some(block))
    }

    /// Frees the block that `destination` points to and makes `destination` null; nothing if it is
    /// null already. 4 flushes, 3 fences.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if it points to no block that holds such content.
    pub fn free_from<T: Content>(&mut self, destination: &PCell<PPtr<T>>) -> Result<(), PoolError> {
        let old = self.pool.media().load(destination);
        if old.is_null() {
            return Ok(());
        }
        let block = self.pool.chunks().block_at(self.pool.media(), old.offset(), T::NODE)?;
        self.exchange(destination.as_word(), Some(block), None)
    }

    pub(crate) fn exchange(
        &mut self,
        destination: &PCell,
        old: Option<Block>,
        new: Option<Block>,
    ) -> Result<(), PoolError> {
        self.ready()?;
        let pool = &*self.pool;
        let media = pool.media();
        let intent = pool.intent(self.slot)?;
        if let Some(block) = old {
            pool.chunks().begin_freeing(media, self.slot, block)?;
        }

        // A1: the intent. The record behind `new` was flushed by the caller and becomes durable
        // with the same fence. Crash: the destination holds `old`; recovery clears bit(new) and
        // keeps bit(old).
        let place = media.region().pointer_to(destination).offset();
        self.in_doubt = true;
        write_intent(media, intent, place, old, new);
        media.flush(site!("pool.exchange.A1.intent"), &intent.tag);
        media.fence(site!("pool.exchange.A1.fence"));

        // A2 COMMIT: the destination; with it both bits, in any order. Crash: recovery makes the
        // bits agree with the destination.
        for (block, allocated) in [(new, true), (old, false)] {
            if let Some(block) = block.filter(|_| allocated || !planted(101)) {
                pool.chunks().mark(
                    media,
                    self.slot,
                    site!("pool.exchange.A2.blocks"),
                    block,
                    allocated,
                )?;
            }
        }
        media.store(destination, pool.destination_word(place, new));
        media.flush(site!("pool.exchange.A2.destination"), destination);
        media.fence(site!("pool.exchange.A2.fence"));

        // A3: retired. Crash: recovery finds the exchange done, or nothing to do.
        media.store(&intent.tag, Sealed::ZERO);
        media.flush(site!("pool.exchange.A3.retire"), &intent.tag);
        self.in_doubt = false;
        if let Some(block) = old {
            // From here on any worker may take the freed block; a stale intent would free it again.
            if !(planted(102) && block.run.is_some()) {
                media.fence(site!("pool.exchange.A3.fence"));
            }
            pool.chunks().freed(media, self.slot, block)?;
        }
        Ok(())
    }

    // ---- links
    // ---------------------------------------------------------------------------------------------

    /// Begins to replace the record `old` (or none) in an index by a new record of the concatenated
    /// `parts` (or by none), and returns the new record. The caller then changes its index durably,
    /// which is the commit, and calls [`end_link`](Worker::end_link).
    ///
    /// ```text
    /// L1  intent := {old, new, link}; the record      flush each, fence
    ///     Crash: the index does not hold new: new is freed.
    /// L2  bit(new) := 1                               flush
    ///     COMMIT the caller's index durably points to new, no longer to old
    ///     Crash: the owner looks into the index: resolve_link does what is left.
    /// L3  bit(old) := 0, if there is an old           flush, fence
    /// L4  intent := nothing                           flush, fence
    /// ```
    /// Insert: 3 flushes and the record's lines, 2 fences. Replace: 4 and the lines, 3. Remove: 3,
    /// 3.
    ///
    /// L4 is fenced even where nothing was freed: other threads see the new record already, and may
    /// free it before this thread fences again. The stale intent would then take back a block that
    /// another worker has.
    ///
    /// # Errors
    /// [`PoolError::PoolFull`], [`PoolError::TooLarge`]; nothing has changed then.
    /// [`PoolError::Corrupt`] if `old` is not a record.
    pub fn begin_link(
        &mut self,
        old: PPtr<Record>,
        parts: Option<&[&[u8]]>,
    ) -> Result<PPtr<Record>, PoolError> {
        self.ready()?;
        let old = match old.is_null() {
            true => None,
            false => Some(self.pool.chunks().block_at(self.pool.media(), old.offset(), None)?),
        };
        let new = parts.map(|parts| self.reserve_entry(parts)).transpose()?;
        let pool = &*self.pool;
        let media = pool.media();
        let intent = pool.intent(self.slot)?;
        self.in_doubt = true;
        write_intent(media, intent, LINK_TAG, old, new);
        media.flush(site!("pool.link.L1.intent"), &intent.tag);
        media.fence(site!("pool.link.L1.fence"));
        if let Some(block) = new.filter(|_| !planted(105)) {
            // Durable at the latest with the index's own fence, or set again by recovery.
            pool.chunks().mark(media, self.slot, site!("pool.link.L2.new"), block, true)?;
        }
        self.link = Some(Pair { old, new });
        Ok(PPtr::at(new.map_or(0, |block| block.offset)))
    }

    /// Ends what [`begin_link`](Worker::begin_link) began: frees `old` if the index changed, else
    /// `new`.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn end_link(&mut self, changed: bool) -> Result<(), PoolError> {
        let Some(Pair { old, new }) = self.link.take() else { return Ok(()) };
        let pool = &*self.pool;
        let media = pool.media();
        let freed = if changed || planted(104) { old } else { new };
        if let Some(block) = freed {
            pool.chunks().begin_freeing(media, self.slot, block)?;
            pool.chunks().mark(media, self.slot, site!("pool.link.L3.blocks"), block, false)?;
            media.fence(site!("pool.link.L3.fence"));
        }
        let intent = pool.intent(self.slot)?;
        media.store(&intent.tag, Sealed::ZERO);
        media.flush(site!("pool.link.L4.retire"), &intent.tag);
        media.fence(site!("pool.link.L4.fence"));
        self.in_doubt = false;
        match freed {
            Some(block) => pool.chunks().freed(media, self.slot, block),
            None => Ok(()),
        }
    }

    // ---- runs
    // ---------------------------------------------------------------------------------------------

    /// Allocates a run of at least `bytes` for nodes of this kind. `prepare` gets it, initialises
    /// what readers rely on, and flushes that; then the run is published p-atomically in the chunk
    /// table, and [`Pool::runs`] lists it: nothing else has to point to it, so it cannot leak. 1
    /// flush and those of `prepare`, 2 fences.
    ///
    /// # Errors
    /// [`PoolError::PoolFull`], or what `prepare` returns; nothing has changed then.
    pub fn alloc_run(
        &mut self,
        kind: NodeKind,
        bytes: u64,
        prepare: impl FnOnce(&Pool<M>, Run) -> Result<(), PoolError>,
    ) -> Result<Run, PoolError> {
        let block = self.reserve_run(Usage::NodeRun(kind, bytes.div_ceil(CHUNK).max(1)))?;
        self.publish_run(block, prepare)
    }

    /// R1 and R2.
    pub(crate) fn publish_run(
        &mut self,
        block: Block,
        prepare: impl FnOnce(&Pool<M>, Run) -> Result<(), PoolError>,
    ) -> Result<Run, PoolError> {
        let pool = &*self.pool;
        let media = pool.media();
        let run = Run { offset: block.offset, bytes: block.run.map_or(0, Usage::chunks) * CHUNK };
        if let Err(e) = prepare(pool, run) {
            pool.chunks().freed(media, self.slot, block)?;
            return Err(e);
        }
        // R1: what was prepared is durable. Crash: the chunks are free.
        media.fence(site!("pool.run.R1.fence"));
        // R2 COMMIT: the descriptor of the first chunk.
        pool.chunks().mark(media, self.slot, site!("pool.run.R2.publish"), block, true)?;
        media.fence(site!("pool.run.R2.fence"));
        media.count(Counter::Allocations, 1);
        Ok(run)
    }

    /// Gives a run back, p-atomically. 1 flush, 1 fence.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if no run of this kind begins at `offset`.
    pub fn free_run(&mut self, kind: NodeKind, offset: u64) -> Result<(), PoolError> {
        let pool = &*self.pool;
        let block = pool.chunks().block_at(pool.media(), offset, Some(kind))?;
        if block.run.is_none() {
            return Err(PoolError::corrupt(offset, Corruption::Pointer));
        }
        pool.chunks().begin_freeing(pool.media(), self.slot, block)?;
        pool.chunks().mark(pool.media(), self.slot, site!("pool.run.free"), block, false)?;
        pool.media().fence(site!("pool.run.free.fence"));
        pool.chunks().freed(pool.media(), self.slot, block)
    }

    // ---- reserving, in DRAM
    // -----------------------------------------------------------------------------------------

    /// A block whose bit is clear, in a chunk that only this worker allocates from: nothing
    /// persistent leads to it yet.
    pub(crate) fn reserve(
        &mut self,
        content: Option<NodeKind>,
        bytes: u64,
        align: u64,
    ) -> Result<Block, PoolError> {
        self.pool.media().count(Counter::Allocations, 1);
        let Some(class) = Class::for_bytes(bytes, align) else {
            return self.reserve_run(Usage::run(content, bytes.div_ceil(CHUNK)));
        };
        let usage = Usage::blocks(content, class);
        let list = usage.list().map_or(0, |(list, _)| list);
        loop {
            let (chunks, media) = (self.pool.chunks(), self.pool.media());
            let owned = &mut self.owned[list][class.index()];
            if let Some(chunk) = *owned {
                let from = self.batch.as_ref().map_or(0, |staged| staged.next_in(chunk, class));
                if let Some(block) = chunks.free_block_from(media, chunk, class, from)? {
                    return Ok(block);
                }
                *owned = None;
                if let Some(staged) = &mut self.batch {
                    staged.look_at_all(class);
                }
                chunks.disown(media, chunk)?;
            }
            let end = chunks.end();
            *owned = chunks.own_chunk(media, self.slot, usage)?;
            if owned.is_none() && !chunks.reclaim_all(media)? {
                self.grow_or_release(1, end)?;
            }
        }
    }

    pub(crate) fn reserve_run(&mut self, usage: Usage) -> Result<Block, PoolError> {
        loop {
            let end = self.pool.chunks().end();
            let (chunks, media) = (self.pool.chunks(), self.pool.media());
            if let Some(block) = chunks.take_run(media, usage, chunks.reserve())? {
                return Ok(block);
            }
            if !chunks.reclaim_all(media)? {
                self.grow_or_release(usage.chunks(), end)?;
            }
        }
    }

    /// Grows the pool. Where it cannot grow, the chunks that this worker keeps for blocks of other
    /// sizes are given up: some may be empty.
    fn grow_or_release(&mut self, run: u64, before: u64) -> Result<(), PoolError> {
        let Err(full) = self.pool.grow_or_wait(run, before) else { return Ok(()) };
        let kept: Vec<u64> = self.owned.iter_mut().flatten().filter_map(Option::take).collect();
        if kept.is_empty() {
            return Err(full);
        }
        if let Some(staged) = &mut self.batch {
            staged.look_at_all_chunks();
            // Another worker may link a record in a chunk that was typed for this batch: its own
            // fences would not make the type durable.
            self.pool.media().fence(site!("pool.batch.B1.given"));
        }
        kept.iter().try_for_each(|chunk| self.pool.chunks().disown(self.pool.media(), *chunk))
    }

    pub(crate) fn reserve_record(
        &mut self,
        owner: Owner,
        parts: &[&[u8]],
    ) -> Result<Block, PoolError> {
        let block = self.reserve(None, RECORD_HEADER_BYTES + content_bytes(parts)?, 8)?;
        self.pool.write_record(block.offset, owner, parts)?;
        Ok(block)
    }
}

impl<M: Media> Drop for Worker<M> {
    /// A worker whose intent is in doubt leaves its slot taken until the pool is opened again: the
    /// next worker would overwrite the intent, and with it what recovery goes by. A batch that was
    /// not committed is abandoned.
    fn drop(&mut self) {
        if self.in_doubt {
            return;
        }
        // A damaged table is reported by the next operation or check; here blocks and chunks merely
        // stay unlisted.
        let _ = self.abandon_batch();
        for chunk in self.owned.iter().flatten().flatten() {
            let _ = self.pool.chunks().disown(self.pool.media(), *chunk);
        }
        let _ = self.pool.chunks().disown_spares(self.pool.media(), self.slot);
        *self.pool.slots.lock() &= !(1 << self.slot);
    }
}
