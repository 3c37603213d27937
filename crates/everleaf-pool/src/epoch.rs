//! Memory for engines that are durable at the ends of epochs.
//!
//! A buffered engine divides time into epochs. After a crash it is what it was at the end of the
//! last durable one, and its memory has to be so as well. An [`EpochWorker`] allocates and retires
//! without a link, a fence, or a change to the table of chunks: what was done in an epoch stands in
//! DRAM until the epoch ends, and then in a log that counts with the epoch's number.
//!
//! ```text
//! E1         in the epoch: blocks are taken and retired in DRAM
//!            Crash: they are free, and in use, as they were.
//! E2         prepare: the types of chunks, the new records,
//!            the log, the intent := {epoch, log}               flush each; the caller fences
//!            Crash: the epoch never ended.
//! E3 COMMIT  the pool's epoch := this one                      flush, fence
//!            Crash from here on: E4 and E5 are done again by recovery.
//! E4         finish: bit(allocated) := 1, bit(retired) := 0    one flush a chunk, fence
//! E5         the intent := nothing                             flush, fence
//! ```
//!
//! What is promised, and asked of the engine, stands at [`EpochWorker`].
//!
//! An engine that logs its free lists within the lines of its own objects (Durable Masstree's
//! allocator) needs less of the pool: runs of a kind of its own
//! ([`Worker::alloc_run`](crate::Worker::alloc_run), which no rollback takes back: it adds them
//! ahead of need), a root for the heads of its lists ([`Worker::create_root`]), and the number of
//! the last durable epoch ([`Pool::durable_epoch`]). Its values are records all the same, and come
//! from here.

use std::collections::HashSet;

use everleaf_pmem::{Counter, LINE, Media, PCell, PPtr, planted, site};

use crate::chunks::{Block, sorted};
use crate::classes::{Class, Usage};
use crate::intent::write_intent;
use crate::layout::{BITMAP_WORDS, CHUNK, EPOCH_TAG, Intent};
use crate::record::{Owner, RECORD_HEADER_BYTES, content_bytes};
use crate::word::{SEALED_BITS, Sealed};
use crate::{Corruption, Node, NodeKind, Pool, PoolError, Record, Worker};

/// In the log: the block is a run, and the word after it is its descriptor.
const IS_RUN: u64 = 1;
/// In the log: the block was retired; else it was allocated.
const IS_RETIRED: u64 = 2;
/// Bytes of an entry of the log at most.
const ENTRY_BYTES: u64 = 16;

/// A chunk that a worker takes blocks from, and which of them it may still take.
struct OpenChunk {
    chunk: u64,
    free: [u64; BITMAP_WORDS],
}

impl OpenChunk {
    fn take(&mut self, class: Class) -> Option<Block> {
        let (i, word) = self.free.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let block = i * SEALED_BITS as usize + word.trailing_zeros() as usize;
        *word &= *word - 1;
        Some(Block { offset: self.chunk * CHUNK + block as u64 * class.block_bytes(), run: None })
    }
}

/// What was done in an epoch.
#[derive(Default)]
struct Changes {
    allocated: Vec<Block>,
    retired: Vec<Block>,
    /// Retired before the table said that it is in use. What of it an epoch before had allocated is
    /// in use when this epoch ends; the rest never becomes durable.
    unpublished: Vec<Block>,
    /// The epoch that was durable when that was retired.
    after: u64,
    /// Allocated and retired in this epoch, by whichever worker.
    dropped: Vec<Block>,
    /// Where the records are that were written, and how long.
    written: Vec<(u64, u64)>,
    /// Chunks that blocks were first taken from: the thread that gave them their type may not have
    /// fenced that.
    opened: Vec<u64>,
    /// Chunks from which everything was taken; they stay the worker's until bits say so.
    full: Vec<u64>,
    /// Where the log will be: a run that only DRAM knows of.
    log: Option<Block>,
    log_bytes: u64,
}

impl Changes {
    fn is_empty(&self) -> bool {
        let lists = [&self.allocated, &self.retired, &self.unpublished];
        lists.iter().all(|list| list.is_empty())
    }

    /// The log: a word a block, two for runs.
    fn to_log(&self) -> Vec<u8> {
        let entries = self.allocated.iter().map(|block| (block, 0));
        let entries = entries.chain(self.retired.iter().map(|block| (block, IS_RETIRED)));
        let mut log = Vec::with_capacity(self.log_bytes as usize);
        for (block, retired) in entries {
            let run = if block.run.is_some() { IS_RUN } else { 0 };
            log.extend_from_slice(&(block.offset | retired | run).to_le_bytes());
            if let Some(run) = block.run {
                log.extend_from_slice(&everleaf_pmem::Word::into_word(run.seal()).to_le_bytes());
            }
        }
        log
    }

    /// What a log says; none if it is damaged.
    fn parse(log: &[u8]) -> Option<Self> {
        let (words, []) = log.as_chunks::<8>() else { return None };
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let mut changes = Self::default();
        while let Some(word) = words.next() {
            let run = match word & IS_RUN {
                0 => None,
                _ => Some(
                    Usage::unseal(everleaf_pmem::Word::from_word(words.next()?))
                        .filter(|usage| *usage != Usage::Free && usage.class().is_none())?,
                ),
            };
            let block = Block { offset: word & !(IS_RUN | IS_RETIRED), run };
            let list =
                if word & IS_RETIRED == 0 { &mut changes.allocated } else { &mut changes.retired };
            list.push(block);
        }
        Some(changes.sorted())
    }

    fn sorted(self) -> Self {
        let (allocated, retired) = (sorted(self.allocated), sorted(self.retired));
        Self { allocated, retired, ..self }
    }
}

/// A worker for engines whose allocator follows epochs.
///
/// The contract:
/// * Memory that is allocated in an epoch was free at the end of the last durable one and at that
///   of every later one; so a crash may take the allocation back.
/// * Memory that is retired in an epoch is used again when that epoch is durable, and not before;
///   so a crash may take the retirement back. Records that are retired also wait for the
///   [guards](crate::RecordGuard) of their readers.
/// * A worker's path has no fence and begins no link. Two things on it are not bound to an epoch,
///   and are harmless if the epoch is taken back: a free chunk gets its type (one flush), and a
///   full pool grows (flushes and fences, for megabytes at a time).
/// * The engine ends an epoch. No worker allocates or retires between the
///   [`prepare`](EpochWorker::prepare) of the first worker and that of the last. The flushes of
///   `prepare` are fenced by the thread that called it, before
///   [`commit_epoch`](Pool::commit_epoch); with them goes what else was stored in the epoch. After
///   the commit the next epoch may begin at once: [`finish`](EpochWorker::finish) may come later,
///   from another thread, but every worker finishes an epoch before the first one prepares the
///   next.
/// * A log that cannot grow refuses an allocation or a retirement with [`PoolError::PoolFull`];
///   then nothing has changed, and the engine ends the epoch early, which empties the log.
/// * Any worker may retire what any other has allocated, in the same epoch too: then it was never
///   durable, and is used again after the epoch like all that is retired.
/// * A worker lives as long as its engine. Dropped within an epoch, it keeps its slot and its
///   memory until the pool is opened again.
pub struct EpochWorker<M: Media> {
    pub(crate) worker: Worker<M>,
    /// By what it holds and class.
    open: [[Option<OpenChunk>; Class::COUNT]; Usage::LISTS],
    current: Changes,
    /// The epoch that was prepared and is not finished: its number, and what was done in it.
    ending: Option<(u64, Changes)>,
    /// The log of the epoch before, to be used again.
    spare_log: Option<Block>,
}

impl<M: Media> EpochWorker<M> {
    /// Makes a worker follow epochs.
    ///
    /// # Errors
    /// [`PoolError::WorkerBusy`] if it was left in the middle of something.
    pub fn new(worker: Worker<M>) -> Result<Self, PoolError> {
        if worker.is_busy() {
            return Err(PoolError::WorkerBusy { slot: worker.slot });
        }
        let open = std::array::from_fn(|_| std::array::from_fn(|_| None));
        Ok(Self { worker, open, current: Changes::default(), ending: None, spare_log: None })
    }

    /// The pool.
    pub fn pool(&self) -> &Pool<M> {
        &self.worker.pool
    }

    /// Which of the pool's 64 workers this is.
    pub fn slot(&self) -> usize {
        self.worker.slot
    }

    /// Memory for a node of `bytes` bytes that begins with a `T`; what it holds is undefined. No
    /// flush, no fence: what is written to it is to be flushed before the epoch's end.
    ///
    /// # Errors
    /// [`PoolError::PoolFull`]; nothing has changed then. [`PoolError::Corrupt`].
    pub fn alloc_node<T: Node>(&mut self, bytes: u64) -> Result<PPtr<T>, PoolError> {
        let bytes = bytes.max(size_of::<T>() as u64);
        let block = self.take(Some(T::KIND), bytes, align_of::<T>() as u64)?;
        self.note_allocated(block);
        Ok(PPtr::at(block.offset))
    }

    /// A new record of the concatenated `parts`. No flush, no fence: its lines are flushed at the
    /// epoch's end.
    ///
    /// # Errors
    /// [`PoolError::PoolFull`], [`PoolError::TooLarge`]; nothing has changed then.
    /// [`PoolError::Corrupt`].
    pub fn alloc_record(&mut self, parts: &[&[u8]]) -> Result<PPtr<Record>, PoolError> {
        let bytes = RECORD_HEADER_BYTES + content_bytes(parts)?;
        let run = Usage::RecordRun(bytes.div_ceil(CHUNK));
        let block = match self.worker.place.take() {
            Some(place) => self.reserve_log(1).map(|()| place)?,
            None => self.take(None, bytes, 8).or_else(|full| self.worker.draw(run, full))?,
        };
        self.worker.pool.store_record(block.offset, Owner::Entry, parts)?;
        self.note_allocated(block);
        self.current.written.push((block.offset, bytes));
        Ok(PPtr::at(block.offset))
    }

    /// Gives back a node, a run or a record when this epoch is durable. The engine no longer leads
    /// to it at the end of this epoch. No flush, no fence.
    ///
    /// # Errors
    /// [`PoolError::PoolFull`] if the log cannot grow; nothing has changed then.
    /// [`PoolError::Corrupt`] if the pointer leads to no block that holds such content.
    pub fn retire<T: crate::Content>(&mut self, pointer: PPtr<T>) -> Result<(), PoolError> {
        let block =
            self.pool().chunks().block_at(self.pool().media(), pointer.offset(), T::NODE)?;
        self.reserve_log(1)?;
        let pool = &self.worker.pool;
        let list = if pool.chunks().is_in_use(pool.media(), block)? {
            &mut self.current.retired
        } else {
            self.current.after = pool.durable_epoch()?;
            pool.chunks().unpublished().retire(block.offset, self.current.after);
            &mut self.current.unpublished
        };
        list.push(block);
        self.current.log_bytes += ENTRY_BYTES;
        Ok(())
    }

    // ---- the end of an epoch
    // --------------------------------------------------------------------------------------------

    /// Where the records are that were written in the epoch, and how long, for
    /// [`write_back`](EpochWorker::write_back) before the epoch ends.
    #[must_use = "these records are flushed by nobody else"]
    pub fn take_written(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.current.written)
    }

    /// Flushes records, each of whose lines may be flushed at any time. One flush a line; whoever
    /// ends the epoch fences.
    pub fn write_back(media: &M, written: &[(u64, u64)]) {
        for (offset, bytes) in written {
            let lines = (offset / LINE as u64 * LINE as u64..offset + bytes).step_by(LINE);
            media.flush_lines(site!("pool.epoch.E2.records"), lines);
        }
    }

    /// E2: writes and flushes what this worker adds to the end of the epoch with this number. The
    /// caller fences. One flush for each line of the epoch's new records and of the log, one for
    /// each chunk that it took its first block from, and one.
    ///
    /// # Errors
    /// [`PoolError::EpochNotFinished`] if this worker or another has not
    /// [finished](EpochWorker::finish) the epoch before.
    /// [`PoolError::EpochOrder`] if an epoch of this number, or a later one, is durable.
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn prepare(&mut self, epoch: u64) -> Result<(), PoolError> {
        if self.ending.is_some() {
            return Err(PoolError::EpochNotFinished { epoch });
        }
        if self.current.is_empty() {
            return Ok(());
        }
        self.pool().check_epoch(epoch)?;
        if !self.pool().chunks().unpublished().begin_end(epoch) {
            return Err(PoolError::EpochNotFinished { epoch });
        }
        self.drop_unpublished()?;
        let pool = &self.worker.pool;
        let (media, intent) = (pool.media(), pool.intent(self.worker.slot)?);
        Self::write_back(media, &self.current.written);
        for chunk in &self.current.opened {
            let line = pool.chunks().line(media, *chunk)?;
            media.flush(site!("pool.epoch.E2.chunks"), &line.descriptor);
        }
        let log = self.current.log.ok_or(PoolError::corrupt(0, Corruption::Intent))?;
        pool.write_record(log.offset, Owner::Entry, &[&self.current.to_log()])?;
        self.worker.in_doubt = true;
        // The intent and its log are fenced together: the intent counts only if the epoch does.
        let number = Block { offset: epoch, run: None };
        write_intent(media, intent, EPOCH_TAG, Some(number), Some(log));
        media.flush(site!("pool.epoch.E2.intent"), &intent.tag);
        self.ending = Some((epoch, std::mem::take(&mut self.current).sorted()));
        Ok(())
    }

    /// Takes out of the epoch what was allocated and retired within it. The epoch before is
    /// finished by now, so the table says which of what was retired is older.
    fn drop_unpublished(&mut self) -> Result<(), PoolError> {
        let (pool, changes) = (&self.worker.pool, &mut self.current);
        let (media, chunks) = (pool.media(), pool.chunks());
        let retired = std::mem::take(&mut changes.unpublished);
        for block in retired {
            if chunks.is_in_use(media, block)? {
                chunks.unpublished().take_retired(block.offset);
                changes.retired.push(block);
            } else {
                changes.unpublished.push(block);
            }
        }
        let is_dropped =
            |block: &mut Block| chunks.unpublished().take_retired(block.offset) && !planted(137);
        changes.dropped.extend(changes.allocated.extract_if(.., is_dropped));
        let dropped: HashSet<u64> = changes.dropped.iter().map(|block| block.offset).collect();
        changes.written.retain(|(offset, _)| !dropped.contains(offset));
        Ok(())
    }

    /// E4 and E5, after the epoch was committed: what was retired is free, and the table of chunks
    /// tells what was allocated. One flush, one for each chunk, and two fences; nothing if nothing
    /// was done in the epoch.
    ///
    /// # Errors
    /// [`PoolError::EpochNotDurable`] before the epoch was [committed](Pool::commit_epoch).
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn finish(&mut self) -> Result<(), PoolError> {
        let Some((epoch, ending)) = &self.ending else { return Ok(()) };
        let pool = &self.worker.pool;
        // What is finished counts whatever the epoch is after a crash.
        if *epoch > pool.durable_epoch()? {
            return Err(PoolError::EpochNotDurable { epoch: *epoch });
        }
        let (media, chunks) = (pool.media(), pool.chunks());
        chunks.keep(media, ending.retired.iter().chain(&ending.dropped).copied())?;
        chunks.mark_all(
            media,
            self.worker.slot,
            site!("pool.epoch.E4.allocated"),
            &ending.allocated,
            true,
        )?;
        chunks.mark_all(
            media,
            self.worker.slot,
            site!("pool.epoch.E4.retired"),
            &ending.retired,
            false,
        )?;
        media.fence(site!("pool.epoch.E4.fence"));
        let intent = pool.intent(self.worker.slot)?;
        media.store(&intent.tag, Sealed::ZERO);
        media.flush(site!("pool.epoch.E5.retire"), &intent.tag);
        // From here on any worker may take what was retired; a stale intent would free it again.
        media.fence(site!("pool.epoch.E5.fence"));
        self.worker.in_doubt = false;
        let Some((_, ending)) = self.ending.take() else { return Ok(()) };
        let free = sorted([ending.retired, ending.dropped].concat());
        let unpublished = chunks.unpublished();
        // While they are kept: behind that another worker may have new runs there.
        unpublished.remove_runs(ending.allocated.iter().chain(&free));
        chunks.let_go(media, self.worker.slot, &free, |_| true)?;
        for block in &ending.unpublished {
            unpublished.forget_retired(block.offset, ending.after);
        }
        ending.full.iter().try_for_each(|chunk| chunks.disown(media, *chunk))?;
        chunks.reclaim(media, self.worker.slot)?;
        unpublished.finish_end();
        match self.spare_log {
            None => self.spare_log = ending.log,
            Some(_) => self.release_log(ending.log)?,
        }
        Ok(())
    }

    // ---- reserving, in DRAM
    // --------------------------------------------------------------------------------------------

    fn note_allocated(&mut self, block: Block) {
        self.worker.pool.chunks().unpublished().add_run(block);
        self.current.log_bytes += ENTRY_BYTES;
        self.current.allocated.push(block);
    }

    /// Memory that no durable state uses; the log is large enough to say so.
    fn take(
        &mut self,
        content: Option<NodeKind>,
        bytes: u64,
        align: u64,
    ) -> Result<Block, PoolError> {
        self.reserve_log(1)?;
        self.worker.pool.media().count(Counter::Allocations, 1);
        let Some(class) = Class::for_bytes(bytes, align) else {
            return self.worker.reserve_run(Usage::run(content, bytes.div_ceil(CHUNK)));
        };
        let usage = Usage::blocks(content, class);
        let list = usage.list().map_or(0, |(list, _)| list);
        loop {
            let pool = &self.worker.pool;
            let (chunks, media) = (pool.chunks(), pool.media());
            let open = &mut self.open[list][class.index()];
            if let Some(chunk) = open {
                if let Some(block) = chunk.take(class) {
                    return Ok(block);
                }
                self.current.full.extend(open.take().map(|open| open.chunk));
            }
            let end = chunks.end();
            match chunks.own_chunk(media, self.worker.slot, usage)? {
                Some(chunk) => {
                    let free = chunks.free_blocks(media, chunk, class)?;
                    *open = Some(OpenChunk { chunk, free });
                    self.current.opened.push(chunk);
                }
                None if chunks.reclaim_all(media)? => {}
                None => {
                    if let Err(full) = pool.grow_or_wait(1, end) {
                        // Some may be empty when the epoch has ended.
                        let open = self.open.iter_mut().flatten().filter_map(Option::take);
                        self.current.full.extend(open.map(|open| open.chunk));
                        return Err(full);
                    }
                }
            }
        }
    }

    /// Makes sure that this epoch's log holds so many allocations and retirements more: none of
    /// them is refused for want of room in the log then. No flush, no fence.
    ///
    /// # Errors
    /// [`PoolError::PoolFull`] if the log cannot grow; nothing has changed then.
    pub fn reserve(&mut self, blocks: usize) -> Result<(), PoolError> {
        self.reserve_log(blocks as u64)
    }

    /// Makes sure that the log holds so many entries more.
    fn reserve_log(&mut self, entries: u64) -> Result<(), PoolError> {
        let capacity = |log: Option<Block>| {
            let chunks = log.and_then(|log| log.run).map_or(0, Usage::chunks);
            (chunks * CHUNK).saturating_sub(RECORD_HEADER_BYTES)
        };
        let needed = self.current.log_bytes + entries * ENTRY_BYTES;
        if needed <= capacity(self.current.log) {
            return Ok(());
        }
        let log = match self.spare_log.take_if(|log| needed <= capacity(Some(*log))) {
            Some(spare) => spare,
            None => {
                let run =
                    |bytes: u64| Usage::RecordRun((RECORD_HEADER_BYTES + bytes).div_ceil(CHUNK));
                let (least, usual) = (run(needed), run(2 * needed));
                self.worker.reserve_run(usual).or_else(|full| self.worker.draw(least, full))?
            }
        };
        let small = self.current.log.replace(log);
        self.release_log(small)
    }

    /// Gives up the chunks that this worker allocates from, where nothing of them belongs to an
    /// epoch that has not ended, so that others can claim them.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn give_up_chunks(&mut self) -> Result<(), PoolError> {
        if !self.current.is_empty() || self.ending.is_some() {
            return Ok(());
        }
        let open = self.open.iter_mut().flatten().filter_map(Option::take);
        let mut owned: Vec<u64> = open.map(|open| open.chunk).collect();
        owned.append(&mut self.current.full);
        self.current.opened.clear();
        let (chunks, media) = (self.worker.pool.chunks(), self.worker.pool.media());
        owned.iter().try_for_each(|chunk| chunks.disown(media, *chunk))?;
        self.worker.give_up_chunks()
    }

    /// Gives back the log that is kept for the next epoch.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn release_spare_log(&mut self) -> Result<(), PoolError> {
        let spare = self.spare_log.take();
        self.release_log(spare)
    }

    /// Gives back a log that nothing persistent leads to.
    fn release_log(&self, log: Option<Block>) -> Result<(), PoolError> {
        let pool = &self.worker.pool;
        log.map_or(Ok(()), |log| pool.chunks().freed(pool.media(), self.worker.slot, log))
    }
}

impl<M: Media> Drop for EpochWorker<M> {
    fn drop(&mut self) {
        if !self.current.is_empty() || self.ending.is_some() {
            // The next worker in this slot must not take what this one has taken.
            self.worker.in_doubt = true;
            return;
        }
        let open = self.open.iter_mut().flatten().filter_map(Option::take);
        let owned: Vec<u64> = open.map(|open| open.chunk).collect();
        for chunk in owned.iter().chain(&self.current.full) {
            // A damaged table is reported by the next operation or check.
            let _ = self.worker.pool.chunks().disown(self.worker.pool.media(), *chunk);
        }
        for log in [self.spare_log.take(), self.current.log.take()] {
            let _ = self.release_log(log);
        }
    }
}

impl<M: Media> Pool<M> {
    /// The last epoch that is durable; 0 before the first.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the word is damaged.
    pub fn durable_epoch(&self) -> Result<u64, PoolError> {
        let place = std::mem::offset_of!(crate::layout::Header, epoch) as u64;
        let epoch = self.media().load(&self.header()?.epoch).open();
        epoch.ok_or_else(|| PoolError::corrupt(place, Corruption::Word))
    }

    /// Whether an epoch of this number can be the next durable one.
    fn check_epoch(&self, epoch: u64) -> Result<(), PoolError> {
        let durable = self.durable_epoch()?;
        if epoch <= durable || epoch >> SEALED_BITS != 0 {
            return Err(PoolError::EpochOrder { epoch, durable });
        }
        Ok(())
    }

    /// E3: the epoch with this number has ended; everything of it is fenced. Durable on return. One
    /// flush, one fence.
    ///
    /// # Errors
    /// [`PoolError::EpochOrder`] if it is not later than the last one; [`PoolError::Corrupt`].
    pub fn commit_epoch(&self, epoch: u64) -> Result<(), PoolError> {
        self.check_epoch(epoch)?;
        let cell: &PCell<Sealed> = &self.header()?.epoch;
        self.media().store(cell, Sealed::of(epoch));
        self.media().flush(site!("pool.epoch.E3.commit"), cell);
        self.media().fence(site!("pool.epoch.E3.fence"));
        Ok(())
    }

    /// What a crash left of a worker's part in an epoch's end: all of it if the epoch is durable,
    /// else nothing. Idempotent.
    pub(crate) fn recover_epoch(
        &self,
        intent: &Intent,
        epoch: u64,
        log: Block,
    ) -> Result<(), PoolError> {
        let (media, chunks) = (self.media(), self.chunks());
        // Before E3: the log may be torn, and nothing was done. After: E4 is done again.
        if epoch + u64::from(planted(138)) <= self.durable_epoch()? {
            let log_bytes = log.run.map_or(0, Usage::chunks) * CHUNK;
            let damaged = || PoolError::corrupt(log.offset, Corruption::Intent);
            let changes =
                Changes::parse(&self.copy_within(log.offset, log_bytes)?.1).ok_or_else(damaged)?;
            for block in changes.allocated.iter().chain(&changes.retired) {
                if !chunks.fits(media, *block)? {
                    return Err(PoolError::corrupt(block.offset, Corruption::Intent));
                }
            }
            let [allocated, retired] =
                [site!("pool.recover.epoch.allocated"), site!("pool.recover.epoch.retired")];
            chunks.mark_all(media, 0, allocated, &changes.allocated, true)?;
            chunks.mark_all(media, 0, retired, &changes.retired, planted(139))?;
            media.fence(site!("pool.recover.epoch.fence"));
        }
        media.store(&intent.tag, Sealed::ZERO);
        media.flush(site!("pool.recover.epoch.end"), &intent.tag);
        media.fence(site!("pool.recover.epoch.end.fence"));
        Ok(())
    }
}
