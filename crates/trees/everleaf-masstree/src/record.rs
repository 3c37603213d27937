//! Records: the rest of a key behind its slice, and its value.
//!
//! Nothing is lent: every word is loaded, so a record may be freed and its block used again while
//! it is read. A reader finds out afterwards, by the entry that led to it.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PCell, WORD};

use super::Masstree;
use super::layout::{Block, RECORD_HEAD, SIZES};
use everleaf_tree::key::slices::{SLICE, SliceKey};

/// A record.
#[derive(Clone, Copy)]
pub(super) struct Record<'t> {
    pub head: &'t Block,
    /// The words of its suffix.
    cells: &'t [PCell],
    /// Bytes of its suffix.
    length: usize,
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// The record at a place that an entry leads to.
    #[inline]
    pub(super) fn record(&self, offset: u64) -> Result<Record<'_>> {
        let head = self.memory.block(offset)?;
        let bytes = self.pool.media().load(&head.length);
        let longest = SIZES[SIZES.len() - 1] - RECORD_HEAD;
        let words = bytes.min(longest + 1).div_ceil(WORD as u64) as usize;
        let cells = self.pool.media().region().cells(offset + RECORD_HEAD, words);
        match cells {
            Some(cells) if bytes <= longest => Ok(Record { head, cells, length: bytes as usize }),
            _ => Err(IndexError::Corrupt { offset, what: "a record is longer than any key" }),
        }
    }

    /// The record that an entry of a locked node leads to. Recovers it, if this is the first look
    /// at it in this run.
    #[inline]
    pub(super) fn own_record(&self, offset: u64) -> Result<Record<'_>> {
        if DURABLE {
            let block = self.memory.block(offset)?;
            if self.is_unseen_record(block) {
                self.recover_record(offset, block)?;
            }
        }
        self.record(offset)
    }

    /// Writes a record that no thread sees yet; its place.
    pub(super) fn new_record(&self, suffix: &[u8], value: u64) -> Result<u64> {
        let media = self.pool.media();
        let offset = self.memory.alloc(RECORD_HEAD + suffix.len() as u64)?;
        let head = self.memory.block(offset)?;
        media.store(&head.value, value);
        media.store(&head.length, suffix.len() as u64);
        for (cell, part) in self.record(offset)?.cells.iter().zip(suffix.chunks(WORD)) {
            let mut word = [0; WORD];
            word[..part.len()].copy_from_slice(part);
            media.store(cell, u64::from_le_bytes(word));
        }
        Ok(offset)
    }

    /// Gives a record back that no entry leads to any more.
    pub(super) fn free_record(&self, offset: u64) -> Result<()> {
        let record = self.own_record(offset)?;
        self.memory.free(offset, RECORD_HEAD + record.length as u64)
    }
}

impl Record<'_> {
    /// How its suffix compares with others.
    #[inline]
    pub fn compare<M: Media>(&self, media: &M, other: &[u8]) -> std::cmp::Ordering {
        let common = self.length.min(other.len());
        for (cell, part) in self.cells.iter().zip(other[..common].chunks(WORD)) {
            let word = media.load(cell).to_le_bytes();
            let order = word[..part.len()].cmp(part);
            if order.is_ne() {
                return order;
            }
        }
        self.length.cmp(&other.len())
    }

    /// Whether its suffix is this.
    #[inline]
    pub fn is<M: Media>(&self, media: &M, suffix: &[u8]) -> bool {
        self.length == suffix.len() && self.compare(media, suffix).is_eq()
    }

    /// Appends its suffix.
    pub fn append_to<M: Media>(&self, media: &M, bytes: &mut Vec<u8>) {
        let end = bytes.len() + self.length;
        bytes.extend(self.cells.iter().flat_map(|cell| media.load(cell).to_le_bytes()));
        bytes.truncate(end);
    }

    /// Its value.
    #[inline(always)]
    pub fn value<M: Media>(&self, media: &M) -> u64 {
        media.load(&self.head.value)
    }

    /// Bytes of its block.
    pub fn block_bytes(&self) -> u64 {
        RECORD_HEAD + self.length as u64
    }
}

/// What a key has behind a slice.
#[inline(always)]
pub(super) fn behind(rest: &[u8]) -> &[u8] {
    rest.get(SLICE..).unwrap_or_default()
}
