//! A leaf as the operations see it: cells by slot.

use std::ops::Range;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{LINE, Media, PCell, PPtr, Region, Site, WORD};

use super::layout::{Fill, Kind, LeafHead, Mark, Shape};
use everleaf_tree::key::{KeyHash, TreeKey};
use everleaf_tree::operations::read_words;

/// Words in a line.
const LINE_WORDS: usize = LINE / WORD;

/// The tag of a key's elements.
#[inline(always)]
pub(super) fn tag_of<K: TreeKey>(hash: KeyHash) -> u64 {
    if K::RECORDS { hash.tag() } else { 0 }
}

/// Which bytes of a word are zero, a bit each.
#[inline(always)]
const fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // The top bit of each byte that is zero: no carry leaves a byte.
    let tops = !(((word & LOW) + LOW) | word | LOW);
    // The eight bits come together in the top byte.
    (tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// A checked view of one leaf.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'p> {
    pub head: &'p LeafHead,
    body: &'p [PCell],
    shape: Shape,
    offset: u64,
}

impl<'p> Leaf<'p> {
    /// The leaf at `offset`, after a check of its bounds and alignment.
    #[inline(always)]
    pub fn at(region: &'p Region, offset: u64, shape: Shape) -> Result<Self> {
        let head = region.get(PPtr::<LeafHead>::at(offset));
        let body = offset.wrapping_add(size_of::<LeafHead>() as u64);
        match (head, region.cells(body, shape.body_words())) {
            (Some(head), Some(body)) => Ok(Self { head, body, shape, offset }),
            _ => Err(IndexError::Corrupt { offset, what: "a leaf lies outside the pool" }),
        }
    }

    /// Its place in the pool.
    #[inline(always)]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The sizes of its body.
    #[inline(always)]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How full it is.
    #[inline(always)]
    pub fn fill<M: Media>(&self, media: &M) -> Result<Fill> {
        let fill = media.load(&self.head.fill);
        if fill.fits(self.shape.slots()) {
            Ok(fill)
        } else {
            Err(self.damaged("a leaf has more elements than slots, or more keys than elements"))
        }
    }

    /// The cell of an element's mark.
    #[inline(always)]
    pub fn mark(&self, slot: usize) -> &'p PCell<Mark> {
        self.body[self.shape.element_index(slot)].view()
    }

    /// What an element says of its key.
    #[inline(always)]
    pub fn kind<M: Media>(&self, media: &M, slot: usize) -> Result<Kind> {
        let kind = media.load(self.mark(slot)).kind();
        kind.ok_or_else(|| self.damaged("an element is neither a key nor the removal of one"))
    }

    /// The cell of an element's key word.
    #[inline(always)]
    pub fn key(&self, slot: usize) -> &'p PCell {
        &self.body[self.shape.element_index(slot) + 1]
    }

    /// The cells of an element's value.
    #[inline(always)]
    pub fn value(&self, slot: usize) -> &'p [PCell] {
        &self.body[self.shape.element_index(slot) + 2..self.shape.element_index(slot + 1)]
    }

    /// The slots before `count` whose elements have this byte of hash, a bit each. The leaf has
    /// hashes.
    #[inline(always)]
    pub fn slots_of_hash<M: Media>(&self, media: &M, count: usize, hash: u8) -> u64 {
        let pattern = u64::from_ne_bytes([hash; WORD]);
        let words = self.head.hashes.iter().take(count.div_ceil(WORD)).enumerate();
        let slots = words.fold(0, |slots, (at, cell)| {
            slots | zero_bytes(media.load(cell) ^ pattern) << (at * WORD)
        });
        slots & !(u64::MAX << count)
    }

    /// The byte of hash of an element. The leaf has hashes.
    pub fn hash<M: Media>(&self, media: &M, slot: usize) -> u8 {
        media.load(&self.head.hashes[slot / WORD]).to_le_bytes()[slot % WORD]
    }

    /// Stores the byte of hash of an element, if the leaf has hashes. No flush: it lies in the line
    /// of the count, which is stored after it.
    #[inline(always)]
    pub fn store_hash<M: Media>(&self, media: &M, slot: usize, hash: u8) {
        if self.shape.is_hashed() {
            let cell = &self.head.hashes[slot / WORD];
            let mut bytes = media.load(cell).to_le_bytes();
            bytes[slot % WORD] = hash;
            media.store(cell, u64::from_le_bytes(bytes));
        }
    }

    /// Copies an element's value to `words`, which has its length.
    #[inline(always)]
    pub fn read_value<M: Media>(&self, media: &M, slot: usize, words: &mut [u64]) {
        read_words(media, self.value(slot), words);
    }

    /// Stores an element's value. No flush.
    #[inline(always)]
    pub fn store_value<M: Media>(&self, media: &M, slot: usize, words: &[u64]) {
        for (cell, word) in self.value(slot).iter().zip(words) {
            media.store(cell, *word);
        }
    }

    /// Copies an element's byte of hash from one of another leaf, if leaves have hashes. No flush.
    #[inline(always)]
    pub fn copy_hash<M: Media>(&self, media: &M, slot: usize, other: Leaf<'_>, from: usize) {
        if self.shape.is_hashed() {
            self.store_hash(media, slot, other.hash(media, from));
        }
    }

    /// Copies an element's value from one of another leaf. No flush.
    #[inline(always)]
    pub fn copy_value<M: Media>(&self, media: &M, slot: usize, other: Leaf<'_>, from: usize) {
        for (to, from) in self.value(slot).iter().zip(other.value(from)) {
            media.store(to, media.load(from));
        }
    }

    /// Flushes the lines of neighbouring elements.
    #[inline(always)]
    pub fn flush_elements<M: Media>(&self, media: &M, site: Site, slots: Range<usize>) {
        let (start, end) =
            (self.shape.element_index(slots.start), self.shape.element_index(slots.end));
        self.flush_words(media, site, start, end);
    }

    /// Flushes the lines of an element's mark, its key word, and so many words of its value.
    #[inline(always)]
    pub fn flush_element<M: Media>(&self, media: &M, site: Site, slot: usize, words: usize) {
        let start = self.shape.element_index(slot);
        self.flush_words(media, site, start, start + 2 + words);
    }

    /// Flushes the lines of the key words of ascending slots, each line once.
    pub fn flush_keys<M: Media>(&self, media: &M, site: Site, slots: impl Iterator<Item = usize>) {
        let mut flushed = usize::MAX;
        for slot in slots {
            let line = (self.shape.element_index(slot) + 1) / LINE_WORDS;
            if line != flushed {
                media.flush(site, self.key(slot));
                flushed = line;
            }
        }
    }

    /// Flushes the lines of the body's words `start..end`; the body starts a line.
    #[inline(always)]
    fn flush_words<M: Media>(&self, media: &M, site: Site, start: usize, end: usize) {
        let mut word = start;
        while word < end {
            media.flush(site, &self.body[word]);
            word = (word / LINE_WORDS + 1) * LINE_WORDS;
        }
    }

    /// Prefetches the head.
    #[inline(always)]
    pub fn prefetch_head<M: Media>(&self, media: &M) {
        media.prefetch(&self.head.fill);
    }

    /// Prefetches the lines of the elements before `count`, the last ones first, as a search
    /// without hashes reads them.
    #[inline(always)]
    pub fn prefetch_elements<M: Media>(&self, media: &M, count: usize) {
        let mut word = self.shape.element_index(count);
        while word > 0 {
            word = (word - 1) / LINE_WORDS * LINE_WORDS;
            media.prefetch(&self.body[word]);
        }
    }

    /// Prefetches what a search of a key with this byte of hash reads of the elements before
    /// `count`.
    #[inline(always)]
    pub fn prefetch_sought<M: Media>(&self, media: &M, count: usize, hash: u8) {
        if !self.shape.is_hashed() {
            self.prefetch_elements(media, count);
        } else if let Some(slot) = self.slots_of_hash(media, count, hash).checked_ilog2() {
            media.prefetch(self.key(slot as usize));
        }
    }

    /// Prefetches the lines of the element behind the first `count`, if the leaf has room for it:
    /// what is appended to is asked for together with what is searched.
    #[inline(always)]
    pub fn prefetch_next<M: Media>(&self, media: &M, count: usize) {
        if count < self.shape.slots() {
            media.prefetch(self.mark(count));
            media.prefetch(&self.value(count)[0]);
        }
    }

    /// An error that leads here.
    #[cold]
    pub fn damaged(&self, what: &'static str) -> IndexError {
        IndexError::Corrupt { offset: self.offset, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn zero_bytes_are_found_and_no_others(bytes in proptest::array::uniform8(0..3u8)) {
            let spread = bytes.map(|byte| [0, 1, 0x80][byte as usize]);
            let expected = (0..8).filter(|at| spread[*at] == 0).fold(0, |bits, at| bits | 1 << at);
            prop_assert_eq!(zero_bytes(u64::from_le_bytes(spread)), expected);
        }
    }
}
