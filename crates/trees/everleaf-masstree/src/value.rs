//! Values: words, or, in a pool whose parameters say so, buffers.
//!
//! The tree of the paper has values in buffers (sections 5 and 6), which are what its in-line undo
//! is made for: the place of a buffer fits into an undo entry, and a random word of 64 bits does
//! not. Here a buffer is a block of the tree's memory, 32 bytes behind its header, and its place
//! stands where a value would, in an entry or a record. A buffer never changes while something
//! leads to it:
//!
//! ```text
//! B1  a buffer is taken, and its value written     its list and its line: A1 to A3 of `memory`
//!     Crash: the epoch has failed; it is free, as it was when the epoch began.
//! B2  the word of the entry, or of the record, becomes its place     U1 to U4, V1 and V2 of `undo`
//!     Crash: the word is what it was.
//! B3  the buffer that was there is freed           its list: A1 to A3
//!     Crash: it is in use again, and was not handed out: it would have waited for the epoch's end.
//! ```
//! An insertion is B1 and B2, a removal B2 and B3, of the permutation in place of the word. So no
//! buffer needs a look when it is first seen after a crash: its stamp is of the epoch in which it
//! was taken, and where that failed nothing leads to it.
//!
//! A reader loads the place and then the value, and asks afterwards whether the entry was the same
//! all the time: B2 changes the version of the node, or its permutation, before B3 (L3).

use everleaf_index::Result;
use everleaf_pmem::{LINE, Media};

use super::Masstree;
use super::layout::{BUFFER_BYTES, Onward, WIDTH};
use super::node::At;
use everleaf_tree::key::slices::SliceKey;

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// What is to stand in an entry or a record for a value: B1.
    #[inline(always)]
    pub(super) fn new_value(&self, value: u64) -> Result<u64> {
        if !self.buffers {
            return Ok(value);
        }
        let offset = self.memory.alloc(BUFFER_BYTES)?;
        self.pool.media().store(&self.memory.block(offset)?.value, value);
        Ok(offset)
    }

    /// The value for which a word stands.
    #[inline(always)]
    pub(super) fn value_of(&self, word: u64) -> Result<u64> {
        if !self.buffers {
            return Ok(word);
        }
        Ok(self.pool.media().load(&self.memory.block(word)?.value))
    }

    /// Nothing leads to the value any more for which a word stood: B3.
    #[inline(always)]
    pub(super) fn free_value(&self, word: u64) -> Result<()> {
        if self.buffers { self.memory.free(word, BUFFER_BYTES) } else { Ok(()) }
    }

    /// Asks for the buffers that some slots of a border node lead to. What leads elsewhere is asked
    /// for too, or passed over.
    #[inline(always)]
    pub(super) fn prefetch_values(&self, at: At<'_>, slots: impl Iterator<Item = usize>) {
        let media = self.pool.media();
        for slot in slots {
            let word = media.load(at.node.value::<DURABLE>(slot.min(WIDTH - 1)));
            if let Ok(block) = self.memory.block(word) {
                media.prefetch(&block.value);
            }
        }
    }

    /// Asks for the records and layers that some slots of a border node lead to.
    #[inline(always)]
    pub(super) fn prefetch_onward(&self, at: At<'_>, slots: impl Iterator<Item = usize>) {
        if !M::COUNTS_READS {
            slots.for_each(|slot| self.prefetch_lines(self.word_of(at, slot) & !1, 1));
        }
    }

    /// Asks for what the value of a slot's key leads to, in a record that was asked for before: the
    /// values of a store are the offsets of its own records. Whatever else they are, nothing is
    /// lost.
    #[inline(always)]
    pub(super) fn prefetch_value_of(&self, at: At<'_>, slot: usize) {
        let media = self.pool.media();
        if !M::COUNTS_READS
            && let Onward::Record(offset) = Onward::of(self.word_of(at, slot))
            && let Ok(record) = self.memory.block(offset)
        {
            self.prefetch_lines(media.load(&record.value), 2);
        }
    }

    #[inline(always)]
    fn word_of(&self, at: At<'_>, slot: usize) -> u64 {
        self.pool.media().load(at.node.value::<DURABLE>(slot.min(WIDTH - 1)))
    }

    #[inline(always)]
    fn prefetch_lines(&self, offset: u64, lines: u64) {
        let media = self.pool.media();
        for line in 0..lines {
            if let Some([cell]) = media.region().cells(offset.wrapping_add(line * LINE as u64), 1) {
                media.prefetch(cell);
            }
        }
    }
}
