//! Which chunks are free and which have free blocks: the search for memory, in DRAM.

use std::sync::atomic::Ordering;

use everleaf_pmem::{Media, planted, site};

use super::{
    Block, Chunks, Extent, Free, Hints, LISTED, OWNED, blocks_in_use, has_no_block, line_at,
    lock_relaxing, shadow, shadow_byte, usage_in,
};
use crate::classes::{Class, Usage};
use crate::layout::{CHUNK, WORKER_SLOTS};
use crate::reader_pins::Pin;
use crate::{Corruption, PoolError};

/// The smallest reserve (see `reserve.rs`), in chunks: a batch of two records, and its log.
const LEAST: u64 = 3;
/// The largest one: 256 KiB.
const MOST: u64 = 64;
/// Between them it is this part of the pool.
const DIVISOR: u64 = 16;

/// Chunks of the reserve of a pool of so many.
fn reserve_of(chunks: u64) -> u64 {
    (chunks / DIVISOR).clamp(LEAST, MOST)
}

impl Chunks {
    // ---- scanning
    // ---------------------------------------------------------------------------------------------

    /// Fills the shadow of one extent from its table: one line read a chunk.
    pub(super) fn scan<M: Media>(
        &self,
        media: &M,
        at: usize,
        free: &mut Free,
    ) -> Result<(), PoolError> {
        if self.extents.is_scanned(at) {
            return Ok(());
        }
        let extent = self.extents.get(at);
        self.fill(extent.start, extent.first_usable() - extent.start, shadow::SYSTEM);
        let mut chunk = extent.first_usable();
        while chunk < extent.end() {
            let line = media.region().get(extent.line_pointer(chunk));
            let line =
                line.ok_or_else(|| PoolError::corrupt(chunk * CHUNK, Corruption::Pointer))?;
            let usage = usage_in(media, line, chunk)?;
            if usage.chunks() > extent.end() - chunk {
                return Err(PoolError::corrupt(chunk * CHUNK, Corruption::Chunk));
            }
            let is_empty = has_no_block(media, line) && !self.is_awaited(chunk);
            if usage == Usage::Free || usage.class().is_some() && is_empty {
                self.fill(chunk, 1, shadow::FREE);
                free.chunks += 1;
            } else if let Some(class) = usage.class() {
                free.block_bytes += class.all_bytes();
                free.found_bytes += blocks_in_use(media, line) * class.block_bytes();
                // From here on bits of the chunk may change: it is counted.
                self.fill(chunk, 1, shadow_byte(usage));
                if self.free_block_in(media, line, chunk, class, 0)?.is_some() {
                    self.list(free, chunk, usage);
                }
            } else {
                self.fill(chunk, usage.chunks(), shadow_byte(usage));
            }
            chunk += usage.chunks();
        }
        self.extents.set_scanned(at);
        Ok(())
    }

    pub(super) fn scan_all<M: Media>(&self, media: &M, free: &mut Free) -> Result<(), PoolError> {
        (0..self.extents.count()).try_for_each(|at| self.scan(media, at, free))
    }

    pub(super) fn fill(&self, chunk: u64, chunks: u64, byte: u8) {
        for place in &self.shadow[chunk as usize..(chunk + chunks) as usize] {
            place.store(byte, Ordering::Relaxed);
        }
    }

    fn list(&self, free: &mut Free, chunk: u64, usage: Usage) {
        let Some((list, class)) = usage.list() else { return };
        // Unless a worker owns it meanwhile.
        if self.flags[chunk as usize]
            .compare_exchange(0, LISTED, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
        {
            free.partial[list][class.index()].push(chunk);
        }
    }

    // ---- taking and giving back chunks
    // ----------------------------------------------------------------------------

    /// A chunk of blocks of this usage for a worker to own: a spare one, a listed one, or a
    /// free one newly typed. None: the pool must grow.
    pub fn own_chunk<M: Media>(
        &self,
        media: &M,
        slot: usize,
        usage: Usage,
    ) -> Result<Option<u64>, PoolError> {
        let Some((list, class)) = usage.list() else { return Ok(None) };
        if let Some(chunk) = self.spares.take(media, slot, usage) {
            return Ok(Some(chunk));
        }
        let mut free = lock_relaxing(&self.free, media);
        loop {
            while let Some(chunk) = free.partial[list][class.index()].pop() {
                let flags = &self.flags[chunk as usize];
                if flags.load(Ordering::SeqCst) == LISTED && self.usage(media, chunk)? == usage {
                    flags.swap(OWNED, Ordering::SeqCst);
                    return Ok(Some(chunk)); // If it is full after all, its new owner lets go of it.
                }
            }
            if let Some(chunk) = self.find_free(&mut free, usage, self.reserve()) {
                free.block_bytes += class.all_bytes();
                self.fill(chunk, 1, shadow_byte(usage));
                self.flags[chunk as usize].store(OWNED, Ordering::Relaxed);
                self.type_chunk(media, chunk, usage)?;
                return Ok(Some(chunk));
            }
            if !self.find_more(media, &mut free)? {
                return Ok(None);
            }
        }
    }

    /// Makes a free chunk one of blocks. Its bitmap is zero: it was when the table was laid out,
    /// or was made so durably when its last block was freed. Bitmap and descriptor share a line, so
    /// the descriptor is durable no later than any bit that is set afterwards: one flush, no fence.
    fn type_chunk<M: Media>(&self, media: &M, chunk: u64, usage: Usage) -> Result<(), PoolError> {
        if !self.is_empty(media, chunk)? {
            return Err(PoolError::corrupt(chunk * CHUNK, Corruption::Chunk));
        }
        let line = self.line(media, chunk)?;
        media.store(&line.descriptor, usage.seal());
        media.flush(site!("pool.chunk.type"), &line.descriptor);
        Ok(())
    }

    /// Chunks that are held back for what frees memory, see `reserve.rs`.
    pub fn reserve(&self) -> u64 {
        reserve_of(self.extents.end())
    }

    /// How many free chunks the reserve of a pool of `chunks` chunks lacks.
    pub fn lacking_reserve<M: Media>(&self, media: &M, chunks: u64) -> u64 {
        reserve_of(chunks).saturating_sub(lock_relaxing(&self.free, media).chunks)
    }

    /// `chunks` free chunks in a row, taken in DRAM only, for a run of this usage; at least `kept`
    /// free ones are left. None: the pool must grow.
    pub fn take_run<M: Media>(
        &self,
        media: &M,
        run: Usage,
        kept: u64,
    ) -> Result<Option<Block>, PoolError> {
        let mut free = lock_relaxing(&self.free, media);
        loop {
            if let Some(chunk) = self.find_free(&mut free, run, kept) {
                self.fill(chunk, run.chunks(), shadow_byte(run));
                return Ok(Some(Block { offset: chunk * CHUNK, run: Some(run) }));
            }
            if !self.find_more(media, &mut free)? {
                return Ok(None);
            }
        }
    }

    /// Scans one more extent, or takes back the spare chunks of workers; false if there is nothing
    /// more to be found.
    fn find_more<M: Media>(&self, media: &M, free: &mut Free) -> Result<bool, PoolError> {
        if let Some(at) = (0..self.extents.count()).find(|at| !self.extents.is_scanned(*at)) {
            return self.scan(media, at, free).map(|()| true);
        }
        let taken = self.spares.take_all(media);
        self.let_go_of(media, free, &taken)?;
        Ok(!taken.is_empty())
    }

    /// Next fit for this usage among the scanned extents, where at least `kept` free chunks are
    /// left. Nodes are looked for from the front and records from the back: nodes stay where they
    /// are for long, and between them no long record would find room, whatever was removed.
    fn find_free(&self, free: &mut Free, usage: Usage, kept: u64) -> Option<u64> {
        let (chunks, kept) = (usage.chunks(), if planted(131) { 0 } else { kept });
        if free.chunks < chunks.saturating_add(kept) {
            return None;
        }
        let of = |hints: &Hints| if chunks == 1 { hints.chunk } else { hints.run };
        let found = if usage.is_of_records() {
            let before = |end| self.find_before(end, chunks);
            before(of(&free.for_records)).or_else(|| before(self.extents.end()))
        } else {
            let from = |start| self.find_from(start, chunks);
            from(of(&free.for_nodes)).or_else(|| from(0))
        }?;
        free.chunks -= chunks;
        let (hints, next) = if usage.is_of_records() {
            (&mut free.for_records, found)
        } else {
            (&mut free.for_nodes, found + chunks)
        };
        *(if chunks == 1 { &mut hints.chunk } else { &mut hints.run }) = next;
        Some(found)
    }

    /// The first free chunks in a row from `start` on.
    fn find_from(&self, start: u64, chunks: u64) -> Option<u64> {
        let first = self.extents.position(start).unwrap_or(0);
        (first..self.extents.count()).find_map(|at| {
            let extent = self.scanned_extent(at)?;
            self.find_in(extent.first_usable().max(start)..extent.end(), chunks)
        })
    }

    /// The last free chunks in a row before `end`.
    fn find_before(&self, end: u64, chunks: u64) -> Option<u64> {
        let last = self.extents.position(end.checked_sub(1)?)?;
        (0..=last).rev().find_map(|at| {
            let extent = self.scanned_extent(at)?;
            let places = (extent.first_usable()..extent.end().min(end)).rev();
            self.find_in(places, chunks).map(|last_found| last_found + 1 - chunks)
        })
    }

    fn scanned_extent(&self, at: usize) -> Option<Extent> {
        self.extents.is_scanned(at).then(|| self.extents.get(at))
    }

    /// The first one that was met of so many free places in a row.
    fn find_in(&self, places: impl Iterator<Item = u64>, chunks: u64) -> Option<u64> {
        let mut row = (0, 0);
        for place in places {
            row = match (self.shadow_of(place) == shadow::FREE, row) {
                (false, _) => (0, 0),
                (true, (_, 0)) => (place, 1),
                (true, (first, count)) => (first, count + 1),
            };
            if row.1 == chunks {
                return Some(row.0);
            }
        }
        None
    }

    /// The worker no longer allocates from this chunk. Takes no lock if the chunk is full.
    pub fn disown<M: Media>(&self, media: &M, chunk: u64) -> Result<(), PoolError> {
        self.flags[chunk as usize].swap(0, Ordering::SeqCst);
        let Some(class) = self.usage(media, chunk)?.class() else { return Ok(()) };
        // A block that is freed from here on finds the chunk without an owner; what was freed
        // before is seen here.
        if self.is_empty(media, chunk)? || self.first_free_block(media, chunk, class)?.is_some() {
            self.offer(media, &mut lock_relaxing(&self.free, media), chunk)?;
        }
        Ok(())
    }

    /// The worker in this place is gone.
    pub fn disown_spares<M: Media>(&self, media: &M, slot: usize) -> Result<(), PoolError> {
        match self.spares.take_of(media, slot) {
            chunks if chunks.is_empty() => Ok(()),
            chunks => self.let_go_of(media, &mut lock_relaxing(&self.free, media), &chunks),
        }
    }

    /// Chunks that were owned by workers no longer are.
    pub(super) fn let_go_of<M: Media>(
        &self,
        media: &M,
        free: &mut Free,
        chunks: &[u64],
    ) -> Result<(), PoolError> {
        chunks.iter().try_for_each(|chunk| {
            self.flags[*chunk as usize].swap(0, Ordering::SeqCst);
            self.offer(media, free, *chunk)
        })
    }

    /// A worker is about to free `block` while its intent names it: keeps the block from
    /// all workers until it is [`freed`](Chunks::freed).
    pub fn begin_freeing<M: Media>(
        &self,
        media: &M,
        slot: usize,
        block: Block,
    ) -> Result<(), PoolError> {
        // An extent that was scanned in between would count the block's chunks as free a first
        // time.
        self.known_shadow(media, block.offset / CHUNK)?;
        self.freeing.begin(slot, block.offset);
        Ok(())
    }

    /// A block was durably freed, and no intent names it any more: makes its memory known as
    /// free, or puts it into limbo while it may still be read.
    pub fn freed<M: Media>(&self, media: &M, slot: usize, block: Block) -> Result<(), PoolError> {
        if self.is_of_records(block) && self.limbo.is_needed() {
            let look = self.limbo.hold(media, slot, block, self.bytes_of(block));
            self.freeing.end(slot);
            return if look { self.reclaim(media, slot).map(|_| ()) } else { Ok(()) };
        }
        self.give_back(media, Some(slot), block, || self.freeing.end(slot))?;
        if self.limbo.is_empty() { Ok(()) } else { self.reclaim(media, slot).map(|_| ()) }
    }

    /// Gives back what a worker freed that no thread can be reading any more; whether there was
    /// anything.
    pub fn reclaim<M: Media>(&self, media: &M, slot: usize) -> Result<bool, PoolError> {
        self.reclaim_for(media, slot, Some(slot))
    }

    /// The same of all workers, for anybody: where memory runs out. Some of them may be gone.
    pub fn reclaim_all<M: Media>(&self, media: &M) -> Result<bool, PoolError> {
        if self.limbo.is_empty() {
            return Ok(false);
        }
        (0..WORKER_SLOTS)
            .try_fold(false, |any, slot| Ok(self.reclaim_for(media, slot, None)? || any))
    }

    /// Whether something is `done`, for which threads that read are given some time: one may have
    /// lost its processor. While a reader does not end, whoever meets what it holds is told at
    /// once if it was waited for in vain before, and soon if it seems to be the caller itself.
    pub fn wait_for_readers<M: Media>(
        &self,
        media: &M,
        mut done: impl FnMut() -> Result<bool, PoolError>,
    ) -> Result<bool, PoolError> {
        let readers = self.limbo.pins.oldest();
        let patience = self.limbo.patience_with(media, readers);
        for left in (0..=patience).rev() {
            if done()? {
                return Ok(true);
            }
            if left > 0 {
                media.relax();
                std::thread::yield_now();
            }
        }
        self.limbo.waited_in_vain(patience, readers);
        Ok(false)
    }

    fn reclaim_for<M: Media>(
        &self,
        media: &M,
        slot: usize,
        owner: Option<usize>,
    ) -> Result<bool, PoolError> {
        let unread = self.limbo.take_unread(media, slot);
        for block in &unread {
            self.give_back(media, owner, *block, || self.limbo.let_go(media, *block))?;
        }
        Ok(!unread.is_empty())
    }

    /// Bytes that were freed and are not to be had yet because they may still be read.
    pub fn bytes_in_limbo(&self) -> u64 {
        self.limbo.bytes()
    }

    /// Bytes of a block, or of a run, of records.
    fn bytes_of(&self, block: Block) -> u64 {
        let class = || self.shadow_of(block.offset / CHUNK).checked_sub(shadow::RECORD_CLASS);
        match block.run {
            Some(run) => run.chunks() * CHUNK,
            None => class()
                .and_then(|index| Class::from_index(u64::from(index)))
                .map_or(0, Class::block_bytes),
        }
    }

    /// Pins a thread that reads records. `first`: the slot that it tries first.
    #[inline]
    pub fn pin(&self, first: usize) -> Pin {
        self.limbo.pins.pin(first)
    }

    #[inline]
    pub fn unpin(&self, pin: &Pin) {
        self.limbo.pins.unpin(pin);
    }

    /// Makes a freed block known as free; `end` ends what kept it from all workers till now. A
    /// chunk without an owner is a spare one of `owner` then, or any worker's. Takes the lock of
    /// the free chunks only where a run was freed, a chunk has become empty or is any worker's, or
    /// the worker has too many spare ones.
    fn give_back<M: Media>(
        &self,
        media: &M,
        owner: Option<usize>,
        block: Block,
        end: impl Fn(),
    ) -> Result<(), PoolError> {
        let chunk = block.offset / CHUNK;
        if let Some(run) = block.run {
            let mut free = lock_relaxing(&self.free, media);
            end();
            self.release(&mut free, chunk, run.chunks());
            return Ok(());
        }
        let flags = &self.flags[chunk as usize];
        // The chunk is no free one: it is not given back while one of its blocks is being freed or
        // in limbo.
        if flags.compare_exchange(0, OWNED, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            end();
            let too_many = match owner {
                Some(slot) => self.spares.add(media, slot, self.usage(media, chunk)?, chunk),
                None => vec![chunk],
            };
            return if too_many.is_empty() {
                Ok(())
            } else {
                self.let_go_of(media, &mut lock_relaxing(&self.free, media), &too_many)
            };
        }
        end();
        match flags.fetch_or(0, Ordering::SeqCst) {
            OWNED => Ok(()), // Its owner finds the block, or the worker that gets the chunk next.
            LISTED if !self.is_empty(media, chunk)? => Ok(()),
            _ => self.offer(media, &mut lock_relaxing(&self.free, media), chunk),
        }
    }

    /// Keeps the blocks of a batch from all workers, whatever their bits say, until they are [let
    /// go](Chunks::let_go).
    pub fn keep<M: Media>(
        &self,
        media: &M,
        blocks: impl Iterator<Item = Block> + Clone,
    ) -> Result<(), PoolError> {
        for block in blocks.clone() {
            self.known_shadow(media, block.offset / CHUNK)?; // As in `begin_freeing`.
        }
        self.freeing.keep(blocks.map(|block| block.offset));
        Ok(())
    }

    /// Keeps blocks of records of which a crash left it open whether they are in use, before any
    /// chunk was looked at: those that are in doubt.
    pub fn keep_unseen(&self, offsets: impl Iterator<Item = u64>) {
        self.freeing.keep(offsets);
    }

    /// A batch is over, and no intent names its blocks any more. Those that `freed` names are
    /// free, or in limbo while they may still be read; of the others the rest of their chunks is
    /// made known.
    pub fn let_go<M: Media>(
        &self,
        media: &M,
        slot: usize,
        blocks: &[Block],
        freed: impl Fn(Block) -> bool,
    ) -> Result<(), PoolError> {
        let needed = self.limbo.is_needed();
        // Asked once: what was held may have been given back, and be something else, before the
        // lock is taken.
        let is_held = |block: &Block| needed && freed(*block) && self.is_of_records(*block);
        let held: Vec<bool> = blocks.iter().map(is_held).collect();
        for (block, _) in blocks.iter().zip(&held).filter(|(_, held)| **held) {
            self.limbo.hold(media, slot, *block, self.bytes_of(*block));
        }
        let mut free = lock_relaxing(&self.free, media);
        self.freeing.let_go(blocks.iter().map(|block| block.offset));
        let mut offered = None;
        for (block, held) in blocks.iter().zip(held) {
            let chunk = block.offset / CHUNK;
            match block.run {
                Some(run) if freed(*block) && !held => self.release(&mut free, chunk, run.chunks()),
                Some(_) => {}
                None if offered == Some(chunk) || self.shadow_of(chunk) == shadow::FREE => {}
                None => {
                    offered = Some(chunk);
                    self.offer(media, &mut free, chunk)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps the place that a record will return to from all workers, whatever its bit says.
    pub fn keep_place<M: Media>(&self, media: &M, place: Block) -> Result<(), PoolError> {
        self.known_shadow(media, place.offset / CHUNK)?; // As in `begin_freeing`.
        self.freeing.keep_place(place.offset);
        Ok(())
    }

    /// The record has returned to its place, or does not, and the place is free.
    pub fn let_go_of_place<M: Media>(&self, media: &M, place: Block) -> Result<(), PoolError> {
        let mut free = lock_relaxing(&self.free, media);
        self.freeing.let_go_of_place(place.offset);
        self.offer(media, &mut free, place.offset / CHUNK)
    }

    /// Whether the record that was at a place is still read.
    pub fn is_read(&self, place: Block) -> bool {
        self.limbo.has(place.offset)
    }

    /// Whether blocks of the chunk are free by their bits and yet kept from all workers.
    fn is_awaited(&self, chunk: u64) -> bool {
        (self.freeing.has_in(chunk) || self.limbo.has_in(chunk)) && !planted(130)
    }

    pub(super) fn release(&self, free: &mut Free, chunk: u64, chunks: u64) {
        self.fill(chunk, chunks, shadow::FREE);
        free.chunks += chunks + u64::from(planted(132));
        for hint in [&mut free.for_nodes.chunk, &mut free.for_nodes.run] {
            *hint = chunk.min(*hint);
        }
        for hint in [&mut free.for_records.chunk, &mut free.for_records.run] {
            *hint = (chunk + chunks).max(*hint);
        }
    }

    /// Lists a chunk without an owner if it has a free block; frees it if it is empty. Nothing if
    /// it was given back meanwhile, whatever became of it then.
    fn offer<M: Media>(&self, media: &M, free: &mut Free, chunk: u64) -> Result<(), PoolError> {
        let flags = &self.flags[chunk as usize];
        loop {
            let usage = self.usage(media, chunk)?;
            let Some(class) = usage.class() else { return Ok(()) };
            if self.shadow_of(chunk) != shadow_byte(usage) {
                return Ok(());
            }
            // Owned for the moment. Else a worker that frees a block could become the owner of the
            // chunk, without the lock, between the look at it and what follows from that; and two
            // would have it.
            let found = flags.swap(OWNED, Ordering::SeqCst);
            if found == OWNED {
                return Ok(()); // By another worker.
            }
            // The worker that frees the last block comes here next.
            let is_empty =
                || Ok::<_, PoolError>(self.is_empty(media, chunk)? && !self.is_awaited(chunk));
            let has_free_block =
                || Ok::<_, PoolError>(self.first_free_block(media, chunk, class)?.is_some());
            if is_empty()? {
                // An empty chunk of blocks is free, whatever its descriptor says: nothing is stored
                // until it becomes something else.
                flags.store(0, Ordering::SeqCst);
                free.block_bytes -= class.all_bytes();
                self.release(free, chunk, 1);
                return Ok(());
            }
            let had_free_block = has_free_block()?;
            flags.swap(if had_free_block { found } else { 0 }, Ordering::SeqCst);
            if had_free_block {
                self.list(free, chunk, usage); // Unless it is listed.
            }
            // A worker that freed a block meanwhile found an owner, and left the chunk to it.
            if !is_empty()? && (had_free_block || !has_free_block()?) {
                return Ok(());
            }
        }
    }

    /// Bytes in free chunks, and in free blocks of chunks that are in use. Costs the same for every
    /// size of the pool, but for the first time, which scans what was not used yet.
    pub fn free_bytes<M: Media>(&self, media: &M) -> Result<(u64, u64), PoolError> {
        self.reclaim_all(media)?;
        let mut free = lock_relaxing(&self.free, media);
        self.scan_all(media, &mut free)?;
        let in_use = free.found_bytes.wrapping_add(self.allocated.bytes());
        Ok((free.chunks * CHUNK, free.block_bytes.saturating_sub(in_use)))
    }

    /// The same, as the whole table tells it: for who checks. No operation may run meanwhile.
    pub fn count_free_bytes<M: Media>(&self, media: &M) -> (u64, u64) {
        let chunks = 0..self.extents.end();
        let free = chunks.filter(|chunk| self.shadow_of(*chunk) == shadow::FREE).count() as u64;
        let mut in_blocks = 0;
        self.for_each_usage(media, |chunk, line, usage| {
            if let Ok(usage) = usage
                && let Some(class) = usage.class()
                && self.shadow_of(chunk) == shadow_byte(usage)
                && let Ok(line) = line_at(media, line)
            {
                let in_use = blocks_in_use(media, line) * class.block_bytes();
                in_blocks += class.all_bytes().saturating_sub(in_use);
            }
        });
        (free * CHUNK, in_blocks)
    }
}
