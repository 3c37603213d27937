//! Doubts: a link that its index takes part in, in two fences.
//!
//! The record of an entry takes the place of another one. The worker's line names the blocks whose
//! bits a crash may then leave wrong, its *doubt*:
//!
//! ```text
//! D1  the new record                                          flush each line
//!     The caller finds the place of the entry, locks it, and makes room for it.
//! D2  doubt := {old, new}; what the caller prepares           flush each, fence (the caller's)
//!     Crash before or after: nothing leads to new, and both bits are durably as they were.
//! D3  COMMIT the caller's word; bit(new) := 1, bit(old) := 0  flush each, fence (the caller's)
//!     Crash: in any mixture; recovery decides about each block.
//!     The caller unlocks.
//! ```
//! A record that is added: the lines of the record and 2 flushes, those of the caller besides. One
//! that replaces another: a flush more, unless both are in one chunk. One that is removed: 2.
//!
//! # Recovery is by block
//! A doubt is a set of blocks, without an order and without what was done to them, and it is never
//! cleared while the pool is open: a later write would have to wait for that. So it may be as old
//! as the pool, and its blocks may be anything by now. What is known of a block follows from the
//! block itself and from the index as it is then:
//!
//! | block | its bit |
//! |---|---|
//! | in a chunk of other things, or where no block begins | is right: nothing is done |
//! | the record is torn | is right: it was being written, and is durably clear |
//! | the record belongs to a cell | is right: the intent of an exchange has seen to it |
//! | the index, asked for the record's key, holds the block | is set |
//! | else | is cleared |
//!
//! Before the index can be asked it is opened, which allocates: the blocks are kept from all
//! workers meanwhile, and their chunks are not taken for empty ones. Intents, the index, links and
//! batches are recovered first; a link or a batch that was cut decides about its own blocks, and a
//! doubt that names one of them says nothing. All of it changes nothing when it is done again.
//!
//! Runs are never in doubt: a record that takes whole chunks, or replaces one that does, is linked
//! by [`Worker::begin_link`].

use everleaf_pmem::{Media, PPtr, planted, site};

use crate::chunks::Block;
use crate::classes::{Class, Usage};
use crate::intent::{Pair, corrupt};
use crate::layout::{CHUNK, WORKER_SLOTS};
use crate::record::{Owner, RECORD_HEADER_BYTES, content_bytes};
use crate::word::Sealed;
use crate::{Pool, PoolError, Record, Worker};

/// A block that was in doubt when the crash came and holds a whole record: its owner finds out
/// whether its index leads there, and calls [`Pool::end_doubts`] when links and batches are
/// resolved, before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    offset: u64,
    content: Vec<u8>,
}

impl Doubt {
    /// Where the record is.
    pub fn record(&self) -> PPtr<Record> {
        PPtr::at(self.offset)
    }

    /// Its bytes.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    fn block(&self) -> Block {
        Block { offset: self.offset, run: None }
    }
}

impl<M: Media> Worker<M> {
    /// D1: writes the record that is to replace `old` (or none) in an index, and returns it; null
    /// if `old` is to be removed. None, and nothing was done, if one of the two is a run:
    /// [`begin_link`](Worker::begin_link) is for those.
    ///
    /// # Errors
    /// [`PoolError::PoolFull`], [`PoolError::TooLarge`], [`PoolError::Corrupt`] if `old` is no
    /// record; nothing has changed then.
    pub fn begin_doubt(
        &mut self,
        old: PPtr<Record>,
        parts: Option<&[&[u8]]>,
    ) -> Result<Option<PPtr<Record>>, PoolError> {
        self.ready()?;
        let (chunks, media) = (self.pool.chunks(), self.pool.media());
        let old = match old.is_null() {
            true => None,
            false => Some(chunks.block_at(media, old.offset(), None)?),
        };
        let bytes = parts.map_or(Ok(0), content_bytes)?;
        let is_run = Class::for_bytes(RECORD_HEADER_BYTES + bytes, 8).is_none();
        if is_run || old.is_some_and(|old| old.run.is_some()) {
            return Ok(None);
        }
        if let Some(old) = old {
            chunks.is_in_use(media, old)?; // D3 must find its word intact.
        }
        let reserve = |parts| self.reserve_record(Owner::Entry, parts);
        let new = parts.map(reserve).transpose()?;
        self.pair = Some(Pair { old, new });
        Ok(Some(PPtr::at(new.map_or(0, |block| block.offset))))
    }

    /// Between D1 and D2, where that did not say it: the new record replaces `old`. False, and
    /// nothing has changed, if this is a run.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if it is not a record.
    pub fn replace_in_doubt(&mut self, old: PPtr<Record>) -> Result<bool, PoolError> {
        let (chunks, media) = (self.pool.chunks(), self.pool.media());
        let block = chunks.block_at(media, old.offset(), None)?;
        if block.run.is_some() {
            return Ok(false);
        }
        chunks.is_in_use(media, block)?; // D3 must find its word intact.
        if let Some(pair) = &mut self.pair {
            pair.old = Some(block);
        }
        Ok(true)
    }

    /// D2: the doubt, flushed; the caller fences before its commit. 1 flush.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if there is no line for this worker.
    pub fn state_doubt(&mut self) -> Result<(), PoolError> {
        let Some(Pair { old, new }) = self.pair else { return Ok(()) };
        let media = self.pool.media();
        let intent = self.pool.intent(self.slot)?;
        self.in_doubt = true;
        let old = old.filter(|_| !planted(115));
        for (cell, block) in intent.doubt.iter().zip([old, new]) {
            media.store(cell, Sealed::of(block.map_or(0, |block| block.offset)));
        }
        media.flush(site!("pool.doubt.D2.line"), &intent.doubt[0]);
        Ok(())
    }

    /// D3: the bits, flushed; the caller has stored its commit, and fences. 1 or 2 flushes.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged: the next opening decides.
    pub fn mark_doubt(&mut self) -> Result<(), PoolError> {
        let Some(Pair { old, new }) = self.pair else { return Ok(()) };
        let (chunks, media) = (self.pool.chunks(), self.pool.media());
        if let Some(old) = old.filter(|_| !planted(119)) {
            chunks.begin_freeing(media, self.slot, old)?;
        }
        chunks.exchange(media, self.slot, site!("pool.doubt.D3.blocks"), new, old)
    }

    /// After D3 and its fence: what was replaced is free. If D2 never came, nothing was done, and a
    /// fence sees to it that no flush is left for the thread that has this worker next.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn end_doubt(&mut self) -> Result<(), PoolError> {
        let (pair, media) = (self.pair.take(), self.pool.media());
        if !std::mem::take(&mut self.in_doubt) {
            media.fence(site!("pool.doubt.D1.refused"));
            return Ok(());
        }
        match pair.and_then(|pair| pair.old) {
            Some(old) => self.pool.chunks().freed(media, self.slot, old),
            None => Ok(()),
        }
    }

    /// Whether D2 was reached, and the link is not ended: what became of it only the index tells.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }
}

impl<M: Media> Pool<M> {
    /// The blocks that doubts name and that may be an entry's, kept from all workers: before
    /// anything looks for free memory.
    pub(crate) fn keep_doubts(&self) -> Result<Vec<Doubt>, PoolError> {
        let mut doubts: Vec<Doubt> = Vec::new();
        for slot in 0..WORKER_SLOTS {
            let intent = self.intent(slot)?;
            for cell in &intent.doubt {
                let offset = self.media().load(cell).open();
                let offset = offset.ok_or_else(|| corrupt(self, intent))?;
                if offset != 0 && doubts.iter().all(|doubt| doubt.offset != offset) {
                    doubts.extend(self.doubt_at(offset)?);
                }
            }
        }
        let kept = doubts.iter().filter(|_| !planted(120));
        self.chunks().keep_unseen(kept.map(|doubt| doubt.offset));
        Ok(doubts)
    }

    /// Drops the doubts about blocks that a link or a batch decides about, whose `records` these
    /// are.
    pub(crate) fn drop_doubts(
        &self,
        doubts: &mut Vec<Doubt>,
        records: &[PPtr<Record>],
    ) -> Result<(), PoolError> {
        let is_decided = |doubt: &mut Doubt| records.contains(&doubt.record()) && !planted(118);
        let decided: Vec<Block> =
            doubts.extract_if(.., is_decided).map(|doubt| doubt.block()).collect();
        self.chunks().let_go(self.media(), 0, &decided, |_| false)
    }

    /// None if the bit of the block is right as it is.
    fn doubt_at(&self, offset: u64) -> Result<Option<Doubt>, PoolError> {
        let block = Block { offset, run: None };
        let usage = self.chunks().usage(self.media(), offset / CHUNK)?;
        let Usage::RecordBlocks(class) = usage else { return Ok(None) };
        if !self.chunks().fits(self.media(), block)? {
            return Ok(None);
        }
        Ok(match self.copy_within(offset, class.block_bytes()) {
            Ok((Owner::Entry, content)) => Some(Doubt { offset, content }),
            Ok((Owner::Cell, content)) if planted(117) => Some(Doubt { offset, content }),
            Ok((Owner::Cell, _)) | Err(_) => None,
        })
    }

    /// Ends the doubts that opening has found: `held` tells of each whether the index leads to its
    /// record. Returns how many bits were wrong. A flush for each, and a fence if there are any.
    /// A doubt about a block of chunks that a link, cut by the crash and ended before, has taken
    /// for a run says nothing: the run is whole, and has no such bit.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn end_doubts(&self, doubts: &[Doubt], held: &[bool]) -> Result<u64, PoolError> {
        let (media, chunks) = (self.media(), self.chunks());
        let mut wrong = 0;
        for (doubt, held) in doubts.iter().zip(held) {
            let is_block = *held || chunks.fits(media, doubt.block())?;
            if is_block && !planted(116) && chunks.is_in_use(media, doubt.block())? != *held {
                // Crash: the doubt is still there.
                chunks.mark(media, 0, site!("pool.recover.doubt.block"), doubt.block(), *held)?;
                wrong += 1;
            }
        }
        if wrong > 0 {
            media.fence(site!("pool.recover.doubt.fence"));
        }
        let blocks: Vec<Block> = doubts.iter().map(Doubt::block).collect();
        chunks.let_go(media, 0, &blocks, |block| {
            doubts.iter().zip(held).any(|(doubt, held)| doubt.block() == block && !held)
        })?;
        Ok(wrong)
    }
}
