//! The chunk table, its shadow in DRAM, and the search for free chunks.
//!
//! Persistent truth is the table: one line a chunk, always exact but for what the workers' intents
//! name. The shadow holds a byte a chunk, filled an extent at a time on first use, so that
//! opening costs the same for every size and following a pointer costs one look at a cached byte.
//!
//! Map of the files: this one (the table, its shadow, the bits of blocks) · `extents` (where the
//! parts of the table are) · `free` (which chunks have free blocks) · `allocated` (how much is in
//! use) · `worker_chunks` (chunks that workers keep) · `freeing` (blocks that an intent still
//! names) · `deferred_frees` (records that are still read) · `unpublished` (what an epoch has
//! allocated) · `claim` (chunks that are to become free together).

mod allocated;
mod claim;
mod deferred_frees;
mod extents;
mod free;
mod freeing;
mod unpublished;
mod worker_chunks;

use std::io::ErrorKind;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use everleaf_pmem::{MapError, Media, PCell, PPtr, Site, ZeroCell, planted, try_zeroed_cells};
use parking_lot::{Mutex, MutexGuard};

use self::allocated::Allocated;
pub(crate) use self::claim::ClaimedChunks;
use self::deferred_frees::Limbo;
pub(crate) use self::extents::Extent;
use self::extents::Extents;
use self::freeing::Freeing;
pub(crate) use self::unpublished::Unpublished;
use self::worker_chunks::Spares;
use crate::classes::{Class, Usage};
use crate::layout::{BITMAP_WORDS, CHUNK, ChunkLine};
use crate::word::{SEALED_BITS, Sealed};
use crate::{Corruption, MAX_RECORD_BYTES, Node, NodeKind, PoolError};

/// Chunk lines in one chunk of a table.
const LINES_PER_CHUNK: u64 = CHUNK / 64;

/// Whether these words, which check themselves, are a line of a table: half of them may be damaged.
pub(crate) fn is_chunk_line(words: impl Iterator<Item = Sealed>) -> bool {
    words.filter(|word| word.open().is_some()).count() > BITMAP_WORDS / 2
}

/// Shadow bytes.
mod shadow {
    use crate::NodeKind;
    use crate::classes::Class;

    pub const UNKNOWN: u8 = 0;
    pub const FREE: u8 = 1;
    pub const SYSTEM: u8 = 2;
    pub const RECORD_RUN: u8 = 3;
    /// From here on blocks of records, a byte for each class.
    pub const RECORD_CLASS: u8 = 4;
    /// From here on runs of nodes, a byte for each kind.
    const NODE_RUN: u8 = RECORD_CLASS + Class::COUNT as u8;
    /// From here on blocks of nodes, for each kind a byte for each class.
    const NODE_CLASS: u8 = NODE_RUN + NodeKind::COUNT as u8;

    const _: () = assert!(
        RECORD_CLASS as usize + (1 + NodeKind::COUNT) * Class::COUNT + NodeKind::COUNT <= 256
    );

    /// Whether it is free, or would be without its records.
    pub const fn is_free_or_of_records(byte: u8) -> bool {
        byte == FREE || byte >= RECORD_RUN && byte < NODE_RUN
    }

    /// A run of nodes of this kind.
    pub const fn node_run(kind: NodeKind) -> u8 {
        NODE_RUN + kind.number()
    }

    /// Blocks of the smallest class for nodes of this kind; those of the others follow.
    pub const fn first_of_nodes(kind: NodeKind) -> u8 {
        NODE_CLASS + kind.number() * Class::COUNT as u8
    }
}

/// A chunk of blocks is either owned by a worker, or listed as having free blocks, or neither
/// (full). Without the lock of the free chunks a worker may take one that is neither, and let go of
/// its own.
///
/// Of two workers that free the last blocks of a chunk, or of one that frees a block and one that
/// lets go of its chunk, at least one must see what the other has done, and make the free memory
/// known. So each does a read-modify-write on the flag after its own part, and before it looks at
/// the rest: the later one sees all that came before the earlier. A plain store or load would not
/// do.
const OWNED: u8 = 1;
const LISTED: u8 = 2;

/// Lines of the table that are asked for ahead of their use.
const LINES_AHEAD: u64 = 16;

fn line_at<M: Media>(media: &M, pointer: PPtr<ChunkLine>) -> Result<&ChunkLine, PoolError> {
    media
        .region()
        .get(pointer)
        .ok_or_else(|| PoolError::corrupt(pointer.offset(), Corruption::Pointer))
}

/// What the line of a chunk says of it.
fn usage_in<M: Media>(media: &M, line: &ChunkLine, chunk: u64) -> Result<Usage, PoolError> {
    Usage::unseal(media.load(&line.descriptor))
        .ok_or_else(|| PoolError::corrupt(chunk * CHUNK, Corruption::Chunk))
}

/// How many blocks of a chunk are allocated, as its line says.
fn blocks_in_use<M: Media>(media: &M, line: &ChunkLine) -> u64 {
    let bits = line.bitmap.iter().map(|cell| media.load(cell).open().unwrap_or(0));
    bits.map(|bits| u64::from(bits.count_ones())).sum()
}

/// Whether no block of a chunk is allocated, as its line says.
fn has_no_block<M: Media>(media: &M, line: &ChunkLine) -> bool {
    line.bitmap.iter().all(|cell| media.load(cell) == Sealed::ZERO)
}

/// Chunks that the table of an extent of `chunks` chunks takes.
pub(crate) const fn table_chunks(chunks: u64) -> u64 {
    chunks.div_ceil(LINES_PER_CHUNK)
}

/// A place that was or is to be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub offset: u64,
    /// None: a block within a chunk of blocks. Else the usage of the run.
    pub run: Option<Usage>,
}

/// Blocks by their places: those of a chunk follow each other.
pub(crate) fn sorted(mut blocks: Vec<Block>) -> Vec<Block> {
    blocks.sort_unstable_by_key(|block| block.offset);
    blocks
}

/// Free memory as far as it has been looked at.
struct Free {
    /// Chunks of blocks with free blocks, by what they hold and class; entries may be out of date.
    partial: [Vec<Vec<u64>>; Usage::LISTS],
    /// Free chunks in scanned extents.
    chunks: u64,
    /// Bytes of all blocks, in use or not, of the chunks of blocks in scanned extents.
    block_bytes: u64,
    /// Of those that the scans have found in use.
    found_bytes: u64,
    /// Where the searches for nodes begin, from the first chunk on.
    for_nodes: Hints,
    /// Where the searches for records begin, from the last chunk back.
    for_records: Hints,
}

/// Where the search for one chunk, and for a run, begins.
#[derive(Default)]
struct Hints {
    chunk: u64,
    run: u64,
}

/// The allocator's state in DRAM.
pub(crate) struct Chunks {
    shadow: Box<[AtomicU8]>,
    flags: Box<[AtomicU8]>,
    extents: Extents,
    free: Mutex<Free>,
    allocated: Allocated,
    spares: Spares,
    freeing: Freeing,
    limbo: Limbo,
    unpublished: Unpublished,
}

impl Chunks {
    /// For a pool that may grow to so many bytes.
    ///
    /// # Errors
    /// [`MapError::System`]: there is not so much memory.
    pub fn new(max_bytes: u64) -> Result<Self, MapError> {
        let partial = std::array::from_fn(|_| vec![Vec::new(); Class::COUNT]);
        let free = Free {
            partial,
            chunks: 0,
            block_bytes: 0,
            found_bytes: 0,
            for_nodes: Hints::default(),
            for_records: Hints::default(),
        };
        let chunks = (max_bytes / CHUNK) as usize + 1;
        Ok(Self {
            shadow: table(chunks)?,
            flags: table(chunks)?,
            extents: Extents::new(),
            free: Mutex::new(free),
            allocated: Allocated::new(),
            spares: Spares::new(),
            freeing: Freeing::new(),
            limbo: Limbo::new(chunks)?,
            unpublished: Unpublished::new(),
        })
    }

    /// Adds the next extent, whose table is laid out.
    pub fn add_extent(&self, extent: Extent) {
        self.extents.add(extent);
    }

    /// The last extent got more chunks, whose lines are laid out.
    pub fn lengthen_last<M: Media>(&self, media: &M, chunks: u64) {
        let mut free = lock_relaxing(&self.free, media);
        // Where the extent was not scanned yet, its scan will come to them.
        if self.extents.count().checked_sub(1).is_some_and(|last| self.extents.is_scanned(last)) {
            self.release(&mut free, self.extents.end(), chunks);
        }
        self.extents.lengthen(chunks);
    }

    /// How many extents there are.
    pub fn extent_count(&self) -> usize {
        self.extents.count()
    }

    /// The last extent.
    pub fn last_extent(&self) -> Option<Extent> {
        self.extents.count().checked_sub(1).map(|at| self.extents.get(at))
    }

    /// The chunk behind the last one.
    pub fn end(&self) -> u64 {
        self.extents.end()
    }

    /// Where the line of `chunk` is.
    fn line_pointer(&self, chunk: u64) -> Option<PPtr<ChunkLine>> {
        let extent = self.extents.get(self.extents.position(chunk)?);
        let usable = chunk >= extent.first_usable();
        usable.then(|| extent.line_pointer(chunk))
    }

    pub fn line<'m, M: Media>(&self, media: &'m M, chunk: u64) -> Result<&'m ChunkLine, PoolError> {
        let pointer = self.line_pointer(chunk).and_then(|pointer| media.region().get(pointer));
        pointer.ok_or_else(|| PoolError::corrupt(chunk.saturating_mul(CHUNK), Corruption::Pointer))
    }

    pub fn usage<M: Media>(&self, media: &M, chunk: u64) -> Result<Usage, PoolError> {
        usage_in(media, self.line(media, chunk)?, chunk)
    }

    // ---- following pointers
    // -----------------------------------------------------------------------------------------

    fn shadow_of(&self, chunk: u64) -> u8 {
        self.shadow.get(chunk as usize).map_or(shadow::SYSTEM, |byte| byte.load(Ordering::Relaxed))
    }

    /// The shadow of a chunk, its extent scanned if need be.
    #[inline(always)]
    fn known_shadow<M: Media>(&self, media: &M, chunk: u64) -> Result<u8, PoolError> {
        match self.shadow_of(chunk) {
            shadow::UNKNOWN => self.scan_for(media, chunk),
            byte => Ok(byte),
        }
    }

    #[cold]
    fn scan_for<M: Media>(&self, media: &M, chunk: u64) -> Result<u8, PoolError> {
        let at = self
            .extents
            .position(chunk)
            .ok_or_else(|| PoolError::corrupt(chunk.saturating_mul(CHUNK), Corruption::Pointer))?;
        self.scan(media, at, &mut lock_relaxing(&self.free, media))?;
        Ok(self.shadow_of(chunk))
    }

    /// Whether a node of this type may lie at `offset`: a block for nodes of its kind begins there
    /// and has room for it, or it lies within a run of its kind, which its owner divides.
    #[inline(always)]
    pub fn is_node<T: Node, M: Media>(&self, media: &M, offset: u64) -> Result<bool, PoolError> {
        let byte = self.known_shadow(media, offset / CHUNK)?;
        let least = const { Class::min_index_for(size_of::<T>()) };
        let class = byte.wrapping_sub(const { shadow::first_of_nodes(T::KIND) });
        if class < Class::COUNT as u8 {
            return Ok(class >= least && Class::begins_at(class, offset));
        }
        if byte != const { shadow::node_run(T::KIND) } {
            return Ok(false);
        }
        let last = offset.saturating_add(size_of::<T>() as u64 - 1) / CHUNK;
        Ok(last == offset / CHUNK || self.known_shadow(media, last)? == byte)
    }

    /// Whether a block or a run is of records, as far as the shadow is filled.
    fn is_of_records(&self, block: Block) -> bool {
        let byte = self.shadow_of(block.offset / CHUNK);
        byte == shadow::RECORD_RUN
            || byte.wrapping_sub(shadow::RECORD_CLASS) < const { Class::COUNT as u8 }
    }

    /// The class of the record block at `offset`; none if it is a run.
    #[inline(always)]
    pub fn record_class<M: Media>(
        &self,
        media: &M,
        offset: u64,
    ) -> Result<Option<Class>, PoolError> {
        match self.known_shadow(media, offset / CHUNK)? {
            shadow::RECORD_RUN => Ok(None),
            byte if byte >= shadow::RECORD_CLASS => {
                Ok(Class::from_index(u64::from(byte - shadow::RECORD_CLASS)))
            }
            _ => Err(PoolError::corrupt(offset, Corruption::Pointer)),
        }
    }

    /// Bytes of the record run that begins at `offset`. If it was freed while its reader was
    /// pinned, the table no longer tells them, nor does it yet where the run was taken back before
    /// it was published: then those of it and of the record runs behind it.
    pub fn record_run_bytes<M: Media>(&self, media: &M, offset: u64) -> Result<u64, PoolError> {
        let chunk = offset / CHUNK;
        if let Some(run) = self.unpublished.run(offset) {
            return Ok(run.chunks() * CHUNK);
        }
        match self.usage(media, chunk)? {
            Usage::RecordRun(chunks) if offset.is_multiple_of(CHUNK) => Ok(chunks * CHUNK),
            _ if self.freeing.has(offset) || self.limbo.has(offset) => {
                let most = MAX_RECORD_BYTES.div_ceil(CHUNK) + 1;
                let is_run = |chunk: &u64| self.shadow_of(*chunk) == shadow::RECORD_RUN;
                Ok((chunk..chunk + most).take_while(is_run).count() as u64 * CHUNK)
            }
            _ => Err(PoolError::corrupt(offset, Corruption::Pointer)),
        }
    }

    // ---- what the table holds
    // ----------------------------------------------------------------------------------------

    /// Calls `visit` with every chunk in use that starts something, and where its line is, in
    /// order. The table is read from one end to the other, ahead of its use.
    pub fn for_each_usage<M: Media>(
        &self,
        media: &M,
        visit: impl FnMut(u64, PPtr<ChunkLine>, Result<Usage, PoolError>),
    ) {
        self.for_each_usage_in(media, 0..u64::MAX, visit);
    }

    /// The same for some chunks. If they begin within a run, its other chunks are visited too: they
    /// are free, or chunks of blocks none of which is in use, because making a run of chunks
    /// stores to the line of the first alone.
    pub fn for_each_usage_in<M: Media>(
        &self,
        media: &M,
        chunks: Range<u64>,
        visit: impl FnMut(u64, PPtr<ChunkLine>, Result<Usage, PoolError>),
    ) {
        self.for_each_usage_by_step(media, chunks, 1, visit);
    }

    /// The same, `step` chunks further each time, or the length of what was met. What begins
    /// between two looks is not seen; a look that falls into a run sees a chunk that is free, or of
    /// blocks none of which is in use.
    pub fn for_each_usage_by_step<M: Media>(
        &self,
        media: &M,
        chunks: Range<u64>,
        step: u64,
        mut visit: impl FnMut(u64, PPtr<ChunkLine>, Result<Usage, PoolError>),
    ) {
        for extent in self.extents.iter() {
            let mut chunk = extent.first_usable().max(chunks.start);
            while chunk < extent.end().min(chunks.end) {
                let pointer = extent.line_pointer(chunk);
                if let Ok(line) = line_at(media, extent.line_pointer(chunk + LINES_AHEAD * step)) {
                    media.prefetch(&line.descriptor);
                }
                let usage = line_at(media, pointer).and_then(|line| usage_in(media, line, chunk));
                // A run ends in its extent.
                let usage = usage.and_then(|usage| match usage.chunks() <= extent.end() - chunk {
                    true => Ok(usage),
                    false => Err(PoolError::corrupt(chunk * CHUNK, Corruption::Chunk)),
                });
                let chunks = usage.as_ref().map_or(1, |usage| usage.chunks());
                if !matches!(usage, Ok(Usage::Free)) {
                    visit(chunk, pointer, usage);
                }
                chunk += chunks.max(step);
            }
        }
    }

    /// Calls `visit` with the offset of every allocated block of a chunk, whose line is given.
    pub fn for_each_block<M: Media>(
        media: &M,
        chunk: u64,
        line: PPtr<ChunkLine>,
        class: Class,
        mut visit: impl FnMut(u64),
    ) -> Result<(), PoolError> {
        let line = line_at(media, line)?;
        let damaged = || PoolError::corrupt(chunk * CHUNK, Corruption::Word);
        for (word, cell) in line.bitmap.iter().enumerate() {
            let mut bits = media.load(cell).open().ok_or_else(damaged)?;
            while bits != 0 {
                let block = word * SEALED_BITS as usize + bits.trailing_zeros() as usize;
                if block >= class.blocks() {
                    return Err(damaged());
                }
                visit(chunk * CHUNK + block as u64 * class.block_bytes());
                bits &= bits - 1;
            }
        }
        Ok(())
    }

    // ---- blocks
    // ---------------------------------------------------------------------------------------------

    /// The blocks of a chunk that its owner may take, a bit for each, 48 a word.
    pub fn free_blocks<M: Media>(
        &self,
        media: &M,
        chunk: u64,
        class: Class,
    ) -> Result<[u64; BITMAP_WORDS], PoolError> {
        let (mut free, mut from) = ([0; BITMAP_WORDS], 0);
        while let Some(block) = self.free_block_from(media, chunk, class, from)? {
            let index = (block.offset % CHUNK / class.block_bytes()) as usize;
            free[index / SEALED_BITS as usize] |= 1 << (index % SEALED_BITS as usize);
            from = index + 1;
        }
        Ok(free)
    }

    /// The first block of a chunk whose bit is clear and that no worker is freeing just now.
    pub fn first_free_block<M: Media>(
        &self,
        media: &M,
        chunk: u64,
        class: Class,
    ) -> Result<Option<Block>, PoolError> {
        self.free_block_from(media, chunk, class, 0)
    }

    /// The same from the block with this number on.
    pub fn free_block_from<M: Media>(
        &self,
        media: &M,
        chunk: u64,
        class: Class,
        from: usize,
    ) -> Result<Option<Block>, PoolError> {
        self.free_block_in(media, self.line(media, chunk)?, chunk, class, from)
    }

    /// The same of the chunk whose line this is.
    fn free_block_in<M: Media>(
        &self,
        media: &M,
        line: &ChunkLine,
        chunk: u64,
        class: Class,
        from: usize,
    ) -> Result<Option<Block>, PoolError> {
        loop {
            let ended = self.freeing.ended_batches();
            let found = self.look_for_block(media, line, chunk, class, from)?;
            // A batch sets the bits of its blocks and then no longer keeps them. If it did both
            // after the bits were looked at, the block is in use.
            if found.is_none() || self.freeing.ended_batches() == ended || planted(127) {
                return Ok(found);
            }
        }
    }

    /// The same, while no batch ends.
    fn look_for_block<M: Media>(
        &self,
        media: &M,
        line: &ChunkLine,
        chunk: u64,
        class: Class,
        from: usize,
    ) -> Result<Option<Block>, PoolError> {
        let mut left = class.blocks();
        for (i, cell) in line.bitmap.iter().enumerate() {
            let here = left.min(SEALED_BITS as usize);
            let bits = media
                .load(cell)
                .open()
                .ok_or_else(|| PoolError::corrupt(chunk * CHUNK, Corruption::Word))?;
            let passed = from.saturating_sub(i * SEALED_BITS as usize).min(SEALED_BITS as usize);
            let mut free = !bits & ((1 << here) - 1) & !((1 << passed) - 1);
            while free != 0 {
                let block = i * SEALED_BITS as usize + free.trailing_zeros() as usize;
                let offset = chunk * CHUNK + block as u64 * class.block_bytes();
                if !self.freeing.has(offset) && (!self.limbo.has(offset) || planted(128)) {
                    return Ok(Some(Block { offset, run: None }));
                }
                free &= free - 1;
            }
            left -= here;
            if left == 0 {
                break;
            }
        }
        Ok(None)
    }

    /// Whether no block of a chunk is allocated.
    fn is_empty<M: Media>(&self, media: &M, chunk: u64) -> Result<bool, PoolError> {
        Ok(has_no_block(media, self.line(media, chunk)?))
    }

    /// Sets or clears the allocated bit of a block (publishes or withdraws the descriptor of a run)
    /// and flushes it: one flush. Idempotent; durable at the next fence. The caller has the slot of
    /// a worker.
    pub fn mark<M: Media>(
        &self,
        media: &M,
        slot: usize,
        site: Site,
        block: Block,
        allocated: bool,
    ) -> Result<(), PoolError> {
        if let Some((cell, _)) = self.set(media, slot, block, allocated)? {
            media.flush(site, cell);
        }
        Ok(())
    }

    /// As [`mark`](Chunks::mark), for many blocks: one flush for those in a row that are of one
    /// chunk, whose bits share its line, and none where all bits are as they should be, which a
    /// caller must know to be durable then.
    pub fn mark_all<M: Media>(
        &self,
        media: &M,
        slot: usize,
        site: Site,
        blocks: &[Block],
        allocated: bool,
    ) -> Result<(), PoolError> {
        let together = |a: &Block, b: &Block| a.offset / CHUNK == b.offset / CHUNK;
        for blocks in blocks.chunk_by(|a, b| together(a, b) || planted(124)) {
            let mut changed = None;
            for block in blocks {
                let set = self.set(media, slot, *block, allocated)?;
                changed = set.and_then(|(cell, changed)| changed.then_some(cell)).or(changed);
            }
            if let Some(cell) = changed {
                media.flush(site, cell);
            }
        }
        Ok(())
    }

    /// Sets the bit of one block and clears that of another: one flush where both are in one chunk,
    /// whose bits share its line. Idempotent; durable at the next fence.
    pub fn exchange<M: Media>(
        &self,
        media: &M,
        slot: usize,
        site: Site,
        new: Option<Block>,
        old: Option<Block>,
    ) -> Result<(), PoolError> {
        let is_shared =
            |new: Block, old: Block| new.offset / CHUNK == old.offset / CHUNK || planted(125);
        let set = new.map(|new| self.set(media, slot, new, true)).transpose()?.flatten();
        if let (Some((cell, _)), false) = (set, new.zip(old).is_some_and(|(a, b)| is_shared(a, b)))
        {
            media.flush(site, cell);
        }
        match old {
            Some(old) => self.mark(media, slot, site, old, false),
            None => Ok(()),
        }
    }

    /// Sets or clears the bit of a block, or the descriptor of a run; the cell, and whether it was
    /// stored to.
    fn set<'m, M: Media>(
        &self,
        media: &'m M,
        slot: usize,
        block: Block,
        allocated: bool,
    ) -> Result<Option<(&'m PCell<Sealed>, bool)>, PoolError> {
        let chunk = block.offset / CHUNK;
        let line = self.line(media, chunk)?;
        if let Some(run) = block.run {
            let wanted = if allocated { run.seal() } else { Usage::Free.seal() };
            let changed = media.load(&line.descriptor) != wanted;
            if changed {
                media.store(&line.descriptor, wanted);
            }
            return Ok(Some((&line.descriptor, changed)));
        }
        let usage = usage_in(media, line, chunk)?;
        let Some(class) = usage.class() else {
            // A crash before the fence of A1: the intent is durable, the type of its new chunk is
            // not. Nothing is allocated there.
            if usage == Usage::Free && !allocated {
                return Ok(None);
            }
            return Err(PoolError::corrupt(block.offset, Corruption::Pointer));
        };
        let index = block.offset % CHUNK / class.block_bytes();
        if !(block.offset % CHUNK).is_multiple_of(class.block_bytes())
            || index >= class.blocks() as u64
        {
            return Err(PoolError::corrupt(block.offset, Corruption::Pointer));
        }
        let cell = &line.bitmap[(index / u64::from(SEALED_BITS)) as usize];
        let bit = 1 << (index % u64::from(SEALED_BITS));
        // Another worker may free a block of the same word at this moment.
        let mut word = media.load(cell);
        loop {
            let bits =
                word.open().ok_or_else(|| PoolError::corrupt(chunk * CHUNK, Corruption::Word))?;
            let wanted = Sealed::of(if allocated { bits | bit } else { bits & !bit });
            if wanted == word {
                return Ok(Some((cell, false)));
            }
            planted!(126, word = media.load(cell));
            match media.compare_exchange(cell, word, wanted) {
                Ok(()) => {
                    // What an extent holds that was not scanned yet, its scan counts.
                    if self.shadow_of(chunk) != shadow::UNKNOWN {
                        self.allocated.change(slot, class.block_bytes(), allocated);
                    }
                    return Ok(Some((cell, true)));
                }
                Err(found) => word = found,
            }
        }
    }

    /// Whether `block` is a block of its chunk as the chunk is used now; a run may begin at any
    /// chunk.
    pub fn fits<M: Media>(&self, media: &M, block: Block) -> Result<bool, PoolError> {
        let usage = self.usage(media, block.offset / CHUNK)?;
        Ok(block.run.is_some()
            || usage
                .class()
                .is_some_and(|class| Class::begins_at(class.index() as u8, block.offset)))
    }

    /// Whether the table says that a block or a run is in use.
    pub fn is_in_use<M: Media>(&self, media: &M, block: Block) -> Result<bool, PoolError> {
        let chunk = block.offset / CHUNK;
        let line = self.line(media, chunk)?;
        if let Some(run) = block.run {
            return Ok(media.load(&line.descriptor) == run.seal());
        }
        let class = usage_in(media, line, chunk)?.class();
        let class = class.ok_or_else(|| PoolError::corrupt(block.offset, Corruption::Pointer))?;
        let index = block.offset % CHUNK / class.block_bytes();
        let word = media.load(&line.bitmap[(index / u64::from(SEALED_BITS)) as usize]);
        let bits =
            word.open().ok_or_else(|| PoolError::corrupt(chunk * CHUNK, Corruption::Word))?;
        Ok(bits >> (index % u64::from(SEALED_BITS)) & 1 == 1)
    }

    /// What epochs have allocated and the table does not say.
    pub fn unpublished(&self) -> &Unpublished {
        &self.unpublished
    }

    /// The block that begins at `offset`, or the run, which must hold such content.
    pub fn block_at<M: Media>(
        &self,
        media: &M,
        offset: u64,
        content: Option<NodeKind>,
    ) -> Result<Block, PoolError> {
        let usage = match self.unpublished.run(offset) {
            Some(run) => run,
            None => self.usage(media, offset / CHUNK)?,
        };
        let begins = match usage.class() {
            Some(class) => Class::begins_at(class.index() as u8, offset),
            None => offset.is_multiple_of(CHUNK),
        };
        if !begins || !usage.holds(content) {
            return Err(PoolError::corrupt(offset, Corruption::Pointer));
        }
        Ok(Block { offset, run: usage.class().is_none().then_some(usage) })
    }

    /// Bytes of the block or run for nodes of this kind that begins at `offset`.
    pub fn node_bytes<M: Media>(
        &self,
        media: &M,
        offset: u64,
        kind: NodeKind,
    ) -> Result<u64, PoolError> {
        let run = self.block_at(media, offset, Some(kind))?.run;
        let usage = run.map_or_else(|| self.usage(media, offset / CHUNK), Ok)?;
        Ok(usage.class().map_or(usage.chunks() * CHUNK, Class::block_bytes))
    }
}

/// Takes a lock under which memory is accessed. The crash explorer's scheduler chooses a thread at
/// accesses, so there a thread must not block while the holder waits to be chosen: it says that it
/// waits.
/// Elsewhere the operating system schedules, and blocking is right.
pub(crate) fn lock_relaxing<'l, T, M: Media>(mutex: &'l Mutex<T>, media: &M) -> MutexGuard<'l, T> {
    if !M::SCHEDULED {
        return mutex.lock();
    }
    loop {
        match mutex.try_lock() {
            Some(guard) => return guard,
            None => media.relax(),
        }
    }
}

const fn shadow_byte(usage: Usage) -> u8 {
    match usage {
        Usage::Free => shadow::FREE,
        Usage::NodeBlocks(kind, class) => shadow::first_of_nodes(kind) + class.index() as u8,
        Usage::NodeRun(kind, _) => shadow::node_run(kind),
        Usage::RecordRun(_) => shadow::RECORD_RUN,
        Usage::RecordBlocks(class) => shadow::RECORD_CLASS + class.index() as u8,
    }
}

/// A table of cells that cost no memory before they are touched. A pool that may grow far wants
/// many, and the system may refuse so many at once.
fn table<T: ZeroCell>(count: usize) -> Result<Box<[T]>, MapError> {
    try_zeroed_cells(count).ok_or_else(|| MapError::System {
        action: "taking memory for the table of so large a pool",
        source: ErrorKind::OutOfMemory.into(),
    })
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::{Cpu, Mapped, Region};

    use super::*;
    use crate::{Format, KeyType, Pool};

    #[test]
    fn a_table_that_the_system_has_no_memory_for_is_refused() {
        for count in [usize::MAX, usize::MAX / 2, 1 << 60] {
            let error = table::<AtomicU8>(count).unwrap_err().to_string();
            assert!(error.contains("memory for the table"), "{error}");
        }
    }

    #[test]
    fn a_run_that_does_not_end_in_its_extent_is_damage() {
        const KIND: NodeKind = NodeKind::new(3);
        let region = Region::anonymous(64 << 10, 1 << 20).unwrap();
        let media = Mapped::new(region, &Cpu::detect()).unwrap();
        let format = Format { engine: "test".into(), key_type: KeyType::U64, parameters: [0; 8] };
        let pool = Pool::create(media, &format).unwrap();
        let run = pool.worker().unwrap().alloc_run(KIND, 2 * CHUNK, |_, _| Ok(())).unwrap();
        assert_eq!(pool.runs(KIND).unwrap(), [run]);
        let set = |chunks| {
            let usage = Usage::run(Some(KIND), chunks).seal();
            pool.chunks().for_each_usage(pool.media(), |chunk, line, _| {
                if chunk == run.offset / CHUNK {
                    let line = line_at(pool.media(), line).unwrap();
                    pool.media().store(&line.descriptor, usage);
                }
            });
        };
        let end = pool.chunks().end() - run.offset / CHUNK;
        set(end);
        assert_eq!(pool.runs(KIND).unwrap()[0].bytes, end * CHUNK);
        for chunks in [end + 1, 1 << 30] {
            set(chunks);
            assert!(pool.runs(KIND).is_err(), "{chunks}");
        }
    }
}
