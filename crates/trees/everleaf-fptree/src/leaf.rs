//! A leaf as the operations see it: cells by slot.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{LINE, Media, PCell, PPtr, Region, Site, WORD};

use super::layout::{Fingerprints, LeafHead, Shape, SlotSet};
use everleaf_tree::key::KeyHash;
use everleaf_tree::operations::read_words;

/// A checked view of one leaf.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'p, S> {
    pub head: &'p LeafHead,
    body: &'p [PCell],
    shape: S,
}

impl<'p, S: Shape> Leaf<'p, S> {
    /// The leaf at `offset`, after a check of its bounds and alignment.
    #[inline(always)]
    pub fn at(region: &'p Region, offset: u64, shape: S) -> Result<Self> {
        let body_words = (shape.leaf_bytes() as usize - size_of::<LeafHead>()) / WORD;
        let head = region.get(PPtr::<LeafHead>::at(offset));
        let body = region.cells(offset.wrapping_add(size_of::<LeafHead>() as u64), body_words);
        match (head, body) {
            (Some(head), Some(body)) => Ok(Self { head, body, shape }),
            _ => Err(IndexError::Corrupt { offset, what: "a leaf lies outside the pool" }),
        }
    }

    /// The sizes of its body.
    #[inline(always)]
    pub fn shape(&self) -> S {
        self.shape
    }

    /// The cell of the bitmap.
    #[inline(always)]
    pub fn bitmap(&self) -> &'p PCell<SlotSet> {
        self.head.line0.0[0].view()
    }

    /// The live slots.
    #[inline(always)]
    pub fn live<M: Media>(&self, media: &M) -> SlotSet {
        media.load(self.bitmap())
    }

    /// The cell of a slot's key word.
    #[inline(always)]
    pub fn key(&self, slot: usize) -> &'p PCell {
        &self.body[self.shape.key_index(slot)]
    }

    /// The cells of a slot's value.
    #[inline(always)]
    pub fn value(&self, slot: usize) -> &'p [PCell] {
        let start = self.shape.value_index(slot);
        &self.body[start..start + self.shape.value_words()]
    }

    /// Copies a slot's value to `words`, which has its length.
    #[inline(always)]
    pub fn read_value<M: Media>(&self, media: &M, slot: usize, words: &mut [u64]) {
        read_words(media, self.value(slot), words);
    }

    /// Stores a slot's value. No flush.
    #[inline(always)]
    pub fn store_value<M: Media>(&self, media: &M, slot: usize, words: &[u64]) {
        for (cell, word) in self.value(slot).iter().zip(words) {
            media.store(cell, *word);
        }
    }

    /// The fingerprint of a slot.
    pub fn fingerprint<M: Media>(&self, media: &M, slot: usize) -> u8 {
        let (cell, index) = self.fingerprint_cell(slot);
        media.load(cell).get(index)
    }

    /// Stores the fingerprint of a slot. No flush.
    #[inline(always)]
    pub fn store_fingerprint<M: Media>(&self, media: &M, slot: usize, fingerprint: u8) {
        let (cell, index) = self.fingerprint_cell(slot);
        media.store(cell, media.load(cell).with(index, fingerprint));
    }

    /// Copies a slot of another leaf into one of this: key word, value, fingerprint. No flush.
    #[inline(always)]
    pub fn copy_slot<M: Media>(&self, media: &M, slot: usize, other: Self, from: usize) {
        media.store(self.key(slot), media.load(other.key(from)));
        for (to, from) in self.value(slot).iter().zip(other.value(from)) {
            media.store(to, media.load(from));
        }
        if S::FINGERPRINTS {
            self.store_fingerprint(media, slot, other.fingerprint(media, from));
        }
    }

    #[inline(always)]
    fn fingerprint_cell(&self, slot: usize) -> (&'p PCell<Fingerprints>, usize) {
        (self.head.line0.0[1 + slot / Fingerprints::PER_WORD].view(), slot % Fingerprints::PER_WORD)
    }

    /// Flushes a slot's entry: its lines by `site`, and by `value_site` those of the value where
    /// they are apart (PTree).
    #[inline(always)]
    pub fn flush_entry<M: Media>(&self, media: &M, site: Site, value_site: Site, slot: usize) {
        let (key, value) = (self.shape.key_index(slot), self.shape.value_index(slot));
        let end = value + self.shape.value_words();
        if S::FINGERPRINTS {
            self.flush_words(media, site, key, end);
        } else {
            self.flush_words(media, site, key, key + 1);
            self.flush_words(media, value_site, value, end);
        }
    }

    /// Flushes the lines of a slot's value.
    #[inline(always)]
    pub fn flush_value<M: Media>(&self, media: &M, site: Site, slot: usize) {
        let start = self.shape.value_index(slot);
        self.flush_words(media, site, start, start + self.shape.value_words());
    }

    /// Flushes the lines that hold the entries of the given slots, each line once.
    pub fn flush_entries<M: Media>(&self, media: &M, site: Site, value_site: Site, slots: SlotSet) {
        let width = self.shape.value_words();
        if S::FINGERPRINTS {
            self.flush_lines(
                media,
                site,
                slots.map(|slot| {
                    (self.shape.key_index(slot), self.shape.key_index(slot) + 1 + width)
                }),
            );
        } else {
            self.flush_lines(media, site, slots.map(|slot| (slot, slot + 1)));
            self.flush_values(media, value_site, slots);
        }
    }

    /// Flushes the lines that hold the values of the given slots, each line once.
    pub fn flush_values<M: Media>(&self, media: &M, site: Site, slots: SlotSet) {
        let value = |slot| self.shape.value_index(slot);
        let width = self.shape.value_words();
        self.flush_lines(media, site, slots.map(|slot| (value(slot), value(slot) + width)));
    }

    /// Flushes the lines that hold the entries of `slots` or the key word of any slot, each line
    /// once (FPTree).
    pub fn flush_entries_and_keys<M: Media>(&self, media: &M, site: Site, slots: SlotSet) {
        let width = self.shape.value_words();
        let ranges = self.shape.all().map(|slot| {
            let key = self.shape.key_index(slot);
            (key, key + 1 + if slots.contains(slot) { width } else { 0 })
        });
        self.flush_lines(media, site, ranges);
    }

    /// Flushes the lines of ascending ranges of the body's words, each line once.
    fn flush_lines<M: Media>(
        &self,
        media: &M,
        site: Site,
        ranges: impl Iterator<Item = (usize, usize)>,
    ) {
        let line_words = LINE / WORD;
        let mut flushed = 0;
        for (start, end) in ranges {
            let start = start.max(flushed);
            if start < end {
                self.flush_words(media, site, start, end);
                flushed = end.div_ceil(line_words) * line_words;
            }
        }
    }

    /// Flushes the lines that hold key words, each once.
    pub fn flush_keys<M: Media>(&self, media: &M, site: Site, slots: SlotSet) {
        let mut flushed = usize::MAX;
        for slot in slots {
            let line = self.shape.key_index(slot) * WORD / LINE;
            if line != flushed {
                media.flush(site, self.key(slot));
                flushed = line;
            }
        }
    }

    /// Flushes the lines of the body's words `start..end`; the body starts a line.
    #[inline(always)]
    fn flush_words<M: Media>(&self, media: &M, site: Site, start: usize, end: usize) {
        let line_words = LINE / WORD;
        let mut word = start;
        while word < end {
            media.flush(site, &self.body[word]);
            word = (word / line_words + 1) * line_words;
        }
    }

    /// Prefetches the line where a key's entry most likely is.
    #[inline(always)]
    pub fn prefetch_home<M: Media>(&self, media: &M, hash: KeyHash) {
        if S::FINGERPRINTS {
            media.prefetch(self.key(self.shape.home(hash)));
        }
    }

    /// Prefetches the bitmap's line.
    #[inline(always)]
    pub fn prefetch_head<M: Media>(&self, media: &M) {
        media.prefetch(&self.head.line0);
    }

    /// Prefetches the line of a slot's key word.
    #[inline(always)]
    pub fn prefetch_key<M: Media>(&self, media: &M, slot: usize) {
        media.prefetch(self.key(slot));
    }

    /// Prefetches every line of the leaf but that of the lower bound, which no operation reads.
    #[inline(always)]
    pub fn prefetch_all<M: Media>(&self, media: &M) {
        media.prefetch(&self.head.line0);
        for word in (0..self.body.len()).step_by(LINE / WORD) {
            media.prefetch(&self.body[word]);
        }
    }
}
