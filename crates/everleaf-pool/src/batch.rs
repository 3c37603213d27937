//! Batches: many links that happen together or not at all.
//!
//! The new records, and a *log* that lists what replaces what, are written into blocks that nothing
//! leads to yet; then one store, the tag of the worker's intent, makes the log count. From then on
//! the batch has happened: what is left to do is done again when the pool is opened. The log
//! is a record of its own, so a batch may be as large as a record.
//!
//! ```text
//! B1         the new records and the log are durable       flush each, fence
//!            Crash: no intent names them, and their bits are clear.
//! B2 COMMIT  the intent := {batch, log}                    flush, fence
//!            Crash from here on: the rest is done (again) by recovery.
//! B3         bit(new) := 1, each                           one flush a chunk
//!            The caller changes its index.
//! B4         bit(old) := 0, each, if there is an old       one flush a chunk, fence
//! B5         the intent := nothing                         flush, fence
//! ```
//!
//! B3 comes before anybody finds a new record: the table says how long it is. It has no fence of
//! its own: it is durable with the first one that the index makes, or with B4. What the caller
//! stores beside the records before B1, and has flushed, is durable by the fence of B1; a caller
//! whose last changes are flushed makes one fence for them and for B4
//! ([`mark_batch`](Worker::mark_batch)). So is a batch four fences. If the index has no place for
//! an entry, the caller restores those that it has changed, durably, and instead of the old blocks
//! the new ones are freed in B4. A crash in the middle of that is recovered like any other: forward
//! if there is place then, and back if not: neither was acknowledged.
//!
//! Between B1 and B5 no worker may take the new blocks, the log's, or the old ones, whatever their
//! bits say: they are kept (`chunks/freeing.rs`). The bit of the log is never set but by recovery,
//! whose allocations come between: it holds every block of the batch by its bit, and clears that of
//! the log with the others.

use everleaf_pmem::{Media, PPtr, planted, site};

use crate::chunks::{Block, sorted};
use crate::classes::{Class, Usage};
use crate::intent::write_intent;
use crate::layout::{BATCH_TAG, CHUNK};
use crate::word::Sealed;
use crate::{Corruption, Pool, PoolError, Record, Worker};

/// In the log: the block is a run, and the word after it is its chunks.
const IS_RUN: u64 = 1;

/// A batch of a worker: what is staged, or committed.
#[derive(Default)]
pub(crate) struct Staged {
    old: Vec<Block>,
    new: Vec<Block>,
    /// The log.
    log: Vec<u8>,
    log_block: Option<Block>,
    /// The offset after the block that was staged last, by class: blocks before it are not looked
    /// at again.
    next: [u64; Class::COUNT],
}

impl Staged {
    /// The number of the first block of `chunk` that may be free.
    pub fn next_in(&self, chunk: u64, class: Class) -> usize {
        let next = self.next[class.index()];
        if next / CHUNK == chunk { (next % CHUNK / class.block_bytes()) as usize } else { 0 }
    }

    /// The chunk of this class is used up. Others may have freed a block before those that were
    /// staged: the worker that gets the chunk for that block's sake must find it.
    pub fn look_at_all(&mut self, class: Class) {
        self.next[class.index()] = 0;
    }

    /// The same of all chunks.
    pub fn look_at_all_chunks(&mut self) {
        self.next = [0; Class::COUNT];
    }

    fn note(&mut self, old: Option<Block>, new: Option<Block>) {
        for block in [old, new] {
            let run = block.and_then(|block| block.run);
            let word =
                block.map_or(0, |block| block.offset) | if run.is_some() { IS_RUN } else { 0 };
            self.log.extend_from_slice(&word.to_le_bytes());
            if let Some(run) = run {
                self.log.extend_from_slice(&run.chunks().to_le_bytes());
            }
        }
    }

    /// What is free at the end of a batch that was done, or taken back.
    fn freed(&self, done: bool) -> &[Block] {
        if done { &self.old } else { &self.new }
    }

    /// Every block that is kept.
    fn blocks(&self) -> Vec<Block> {
        sorted(self.old.iter().chain(&self.new).chain(&self.log_block).copied().collect())
    }
}

fn is_among(sorted: &[Block], block: Block) -> bool {
    sorted.binary_search_by_key(&block.offset, |block| block.offset).is_ok()
}

/// A batch that was committed when the crash came: its owner makes the index hold every new record,
/// or none, and calls [`Worker::resolve_batch`] before anything else but the resolution of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingBatch {
    slot: usize,
    log: Block,
    links: Vec<(Option<Block>, Option<Block>)>,
}

impl PendingBatch {
    /// The record that is replaced or removed, and the one that takes its place; null where there
    /// is none.
    pub fn links(&self) -> impl Iterator<Item = (PPtr<Record>, PPtr<Record>)> {
        let pointer = |block: Option<Block>| PPtr::at(block.map_or(0, |block| block.offset));
        self.links.iter().map(move |(old, new)| (pointer(*old), pointer(*new)))
    }

    /// Reads a log, and marks every block of the batch as allocated: its owner opens the index
    /// before it completes the batch, which allocates.
    pub(crate) fn read<M: Media>(
        pool: &Pool<M>,
        slot: usize,
        log: Block,
    ) -> Result<Self, PoolError> {
        let damaged = || PoolError::corrupt(log.offset, Corruption::Intent);
        let media = pool.media();
        // The bit of the log may be clear, and those of all its chunk: nothing here may ask which
        // chunks are free before the bits are set.
        let block_bytes = match log.run {
            Some(_) if planted(110) => CHUNK,
            Some(run) => run.chunks() * CHUNK,
            None => match pool.chunks().usage(media, log.offset / CHUNK)? {
                Usage::RecordBlocks(class) => class.block_bytes(),
                _ => return Err(damaged()),
            },
        };
        let links = parse(&pool.copy_within(log.offset, block_bytes)?.1).ok_or_else(damaged)?;
        let pending = Self { slot, log, links };
        for block in pending.blocks() {
            if !pool.chunks().fits(media, block)? {
                return Err(PoolError::corrupt(block.offset, Corruption::Intent));
            }
        }
        // Not fenced: a crash is recovered in the same way.
        pool.chunks().mark_all(
            media,
            slot,
            site!("pool.recover.batch.blocks"),
            &pending.blocks(),
            true,
        )?;
        Ok(pending)
    }

    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    /// Where its log is.
    pub(crate) fn log(&self) -> PPtr<Record> {
        PPtr::at(self.log.offset)
    }

    fn blocks(&self) -> Vec<Block> {
        let linked = self.links.iter().flat_map(|(old, new)| [*old, *new]).flatten();
        sorted(linked.chain([self.log]).collect())
    }

    /// Those that are free afterwards.
    fn freed(&self, done: bool) -> Vec<Block> {
        let freed = self.links.iter().filter_map(|(old, new)| if done { *old } else { *new });
        sorted(freed.chain((!planted(113)).then_some(self.log)).collect())
    }
}

/// The links of a log; none if it is damaged.
fn parse(log: &[u8]) -> Option<Vec<(Option<Block>, Option<Block>)>> {
    let (words, []) = log.as_chunks::<8>() else { return None };
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let mut links = Vec::new();
    while let Some(old) = words.next() {
        let old = block(old, &mut words)?;
        let new = words.next()?;
        links.push((old, block(new, &mut words)?));
    }
    Some(links)
}

/// The block that a word of a log stands for, with the word behind it where that is a run.
fn block(word: u64, words: &mut impl Iterator<Item = u64>) -> Option<Option<Block>> {
    let run = match word & IS_RUN {
        0 => None,
        _ => {
            let chunks = words.next().filter(|chunks| *chunks > 0)?;
            Some(Usage::RecordRun(if planted(109) { 1 } else { chunks }))
        }
    };
    let offset = word & !IS_RUN;
    Some((offset != 0).then_some(Block { offset, run }))
}

impl<M: Media> Worker<M> {
    /// Begins a batch. Nothing is allocated before [`commit_batch`](Worker::commit_batch); until
    /// then [`abandon_batch`](Worker::abandon_batch) forgets it.
    pub fn begin_batch(&mut self) {
        self.batch = Some(Staged::default());
    }

    /// Adds a link: the record `old` (or none) will be replaced by a new record of the concatenated
    /// `parts` (or by none), which is returned. One flush for each line of the record.
    ///
    /// # Errors
    /// [`PoolError::PoolFull`], [`PoolError::TooLarge`], [`PoolError::Corrupt`] if `old` is no
    /// record: the batch is to be abandoned.
    pub fn stage(
        &mut self,
        old: PPtr<Record>,
        parts: Option<&[&[u8]]>,
    ) -> Result<PPtr<Record>, PoolError> {
        let old = match old.is_null() {
            true => None,
            false => Some(self.pool.chunks().block_at(self.pool.media(), old.offset(), None)?),
        };
        let new = parts.map(|parts| self.reserve_kept(parts)).transpose()?;
        let staged = self.batch.get_or_insert_default();
        staged.old.extend(old);
        staged.new.extend(new);
        staged.note(old, new);
        Ok(PPtr::at(new.map_or(0, |block| block.offset)))
    }

    /// Writes a record into a block that no other worker gets although its bit stays clear.
    fn reserve_kept(&mut self, parts: &[&[u8]]) -> Result<Block, PoolError> {
        let block = self.reserve_entry(parts)?;
        self.pool.chunks().keep(self.pool.media(), std::iter::once(block))?;
        if let (None, Usage::RecordBlocks(class)) =
            (block.run, self.pool.chunks().usage(self.pool.media(), block.offset / CHUNK)?)
        {
            self.batch.get_or_insert_default().next[class.index()] =
                block.offset + class.block_bytes();
        }
        Ok(block)
    }

    /// Writes the log: the last thing that a full pool may refuse. The lines of the log are
    /// flushed, 16 bytes a link.
    ///
    /// # Errors
    /// As [`stage`](Worker::stage).
    pub fn log_batch(&mut self) -> Result<(), PoolError> {
        let log = std::mem::take(&mut self.batch.get_or_insert_default().log);
        let block = self.reserve_kept(&[&log])?;
        let staged = self.batch.get_or_insert_default();
        staged.log_block = Some(block);
        self.pool.chunks().keep(self.pool.media(), staged.old.iter().copied())
    }

    /// B1 to B3: the batch happens. One flush and two fences, and a flush for each chunk that holds
    /// new records.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged: whether the batch happened is
    /// decided when the pool is opened the next time.
    ///
    /// # Panics
    /// If no log was written.
    pub fn commit_batch(&mut self) -> Result<(), PoolError> {
        self.ready()?;
        let staged = self.batch.as_mut().expect("a batch was begun");
        staged.new = sorted(std::mem::take(&mut staged.new));
        staged.old = sorted(std::mem::take(&mut staged.old));
        let pool = &*self.pool;
        let media = pool.media();
        let intent = pool.intent(self.slot)?;
        // B1. Crash: the blocks are free.
        media.fence(site!("pool.batch.B1.fence"));
        // B2 COMMIT. Crash: done again by `resolve_batch`.
        self.in_doubt = true;
        write_intent(
            media,
            intent,
            BATCH_TAG,
            None,
            Some(staged.log_block.expect("the log was written")),
        );
        media.flush(site!("pool.batch.B2.intent"), &intent.tag);
        media.fence(site!("pool.batch.B2.fence"));
        // B3. Durable at the latest with the next fence, or set again by recovery.
        pool.chunks().mark_all(
            media,
            self.slot,
            site!("pool.batch.B3.blocks"),
            &staged.new,
            !planted(111),
        )
    }

    /// B4: what was replaced is free; flushed, and the caller fences before
    /// [`end_batch`](Worker::end_batch). The index holds all that is new, or (not `done`) all that
    /// was there before: then what is new is free. One flush for each chunk.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn mark_batch(&mut self, done: bool) -> Result<(), PoolError> {
        let Some(staged) = &self.batch else { return Ok(()) };
        planted!(114, self.pool.media().store(&self.pool.intent(self.slot)?.tag, Sealed::ZERO));
        let (freed, site) = (staged.freed(done), site!("pool.batch.B4.blocks"));
        self.pool.chunks().mark_all(self.pool.media(), self.slot, site, freed, false)
    }

    /// B4 and B5, where the caller has nothing to do beside B4. A flush for each chunk and a fence,
    /// if anything is freed, and those of [`end_batch`](Worker::end_batch).
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn settle_batch(&mut self, done: bool) -> Result<(), PoolError> {
        if self.batch.as_ref().is_some_and(|staged| !staged.freed(done).is_empty()) {
            self.mark_batch(done)?;
            self.pool.media().fence(site!("pool.batch.B4.fence"));
        }
        self.end_batch(done)
    }

    /// B5: ends a batch that was committed. What the index holds, and B4, are durable. One flush
    /// and one fence.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn end_batch(&mut self, done: bool) -> Result<(), PoolError> {
        let Some(staged) = self.batch.take() else { return Ok(()) };
        let pool = &*self.pool;
        let media = pool.media();
        let freed = staged.freed(done);
        let intent = pool.intent(self.slot)?;
        media.store(&intent.tag, Sealed::ZERO);
        media.flush(site!("pool.batch.B5.retire"), &intent.tag);
        // From here on other workers may free the new records, or take the old ones: a stale intent
        // would do it all again.
        media.fence(site!("pool.batch.B5.fence"));
        self.in_doubt = false;
        let is_free = |block: Block| Some(block) == staged.log_block || is_among(freed, block);
        pool.chunks().let_go(media, self.slot, &staged.blocks(), is_free)
    }

    /// Forgets a batch that was not committed. No flush is left for the thread that has this worker
    /// next: one fence if there was any.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn abandon_batch(&mut self) -> Result<(), PoolError> {
        let Some(staged) = self.batch.take() else { return Ok(()) };
        if !staged.new.is_empty() || staged.log_block.is_some() {
            self.pool.media().fence(site!("pool.batch.B1.refused"));
        }
        let new = sorted(staged.new.clone());
        let is_free = |block: Block| {
            (Some(block) == staged.log_block || is_among(&new, block)) && !planted(112)
        };
        self.pool.chunks().let_go(self.pool.media(), self.slot, &staged.blocks(), is_free)
    }

    /// Ends a batch that a crash cut: the index holds all that is new, or (not `done`) all that was
    /// there before. Two flushes and two fences, and a flush for each chunk; idempotent.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn resolve_batch(&mut self, pending: &PendingBatch, done: bool) -> Result<(), PoolError> {
        let pool = &*self.pool;
        let (media, chunks) = (pool.media(), pool.chunks());
        let intent = pool.intent(pending.slot)?;
        let freed = pending.freed(done);
        chunks.keep(media, freed.iter().copied())?;
        chunks.mark_all(media, pending.slot, site!("pool.recover.batch.freed"), &freed, false)?;
        media.fence(site!("pool.recover.batch.fence"));
        media.store(&intent.tag, Sealed::ZERO);
        media.flush(site!("pool.recover.batch.retire"), &intent.tag);
        media.fence(site!("pool.recover.batch.retire.fence"));
        chunks.let_go(media, pending.slot, &freed, |_| true)?;
        *pool.slots.lock() &= !(1 << pending.slot);
        Ok(())
    }
}
