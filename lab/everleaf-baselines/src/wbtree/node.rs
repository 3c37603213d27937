//! A node as the operations see it: entries by place, and places by slot.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PCell, Site, WORD};

use super::layout::{Bitmap, FREE, LINE_WORDS, Level, Shape, Slots};

/// A checked view of one node, with the first word of its slot array when it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Node<'p> {
    cells: &'p [PCell],
    offset: u64,
    shape: Shape,
    level: u8,
    is_valid: bool,
    first: u64,
}

/// The words of a node whose level is not known.
fn cells<M: Media>(media: &M, offset: u64, shape: Shape) -> Result<&[PCell]> {
    let cells = media.region().cells(offset, shape.node_words());
    cells.ok_or(IndexError::Corrupt { offset, what: "a node lies outside the pool" })
}

impl<'p> Node<'p> {
    /// The node at `offset`, after a check of its bounds, its alignment, its count and its level.
    #[inline(always)]
    pub fn at<M: Media>(media: &'p M, offset: u64, shape: Shape) -> Result<Self> {
        let cells = cells(media, offset, shape)?;
        // Before the slot array: another reader may mend both in between.
        let is_valid = !shape.has_bitmap()
            || media.load(cells[shape.level_index() - 1].view::<Bitmap>()).is_valid();
        let first = media.load(&cells[0]);
        let level = media.load(cells[shape.level_index()].view::<Level>()).get();
        match level {
            Some(level) if usize::from(first as u8) <= shape.slots() => {
                Ok(Self { cells, offset, shape, level, is_valid, first })
            }
            _ => {
                let what = "a node has more entries than slots, or is of no level";
                Err(IndexError::Corrupt { offset, what })
            }
        }
    }

    /// The node that follows a free one in the list of them.
    pub fn after_free<M: Media>(media: &M, offset: u64, shape: Shape) -> Result<u64> {
        let cells = cells(media, offset, shape)?;
        let [mark, next] = [0, 1].map(|word| media.load(&cells[shape.free_index() + word]));
        if mark == FREE {
            return Ok(next);
        }
        Err(IndexError::Corrupt { offset, what: "the list of free nodes leads to another node" })
    }

    /// Its place in the pool.
    #[inline(always)]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Levels above the leaves.
    #[inline(always)]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Entries.
    #[inline(always)]
    pub fn count(&self) -> usize {
        usize::from(self.first as u8)
    }

    /// Whether there is no room for another entry.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.count() == self.shape.slots()
    }

    /// Whether nodes of the tree have a bitmap.
    #[inline(always)]
    pub fn has_bitmap(&self) -> bool {
        self.shape.has_bitmap()
    }

    /// A word of the slot array.
    #[inline(always)]
    pub fn array_cell(&self, index: usize) -> &'p PCell {
        &self.cells[index]
    }

    /// The word whose store commits a change of the entries: the bitmap, or else the slot array.
    #[inline(always)]
    pub fn bitmap_cell(&self) -> &'p PCell<Bitmap> {
        self.cells[self.shape.level_index() - 1].view()
    }

    /// Where that word is in the pool.
    pub fn bitmap_offset(&self) -> u64 {
        self.offset_of(self.shape.level_index() - 1)
    }

    /// Where a cell of the node is in the pool.
    pub fn offset_of(&self, index: usize) -> u64 {
        self.offset + (index * WORD) as u64
    }

    /// Whether the slot array could be believed when the node was looked at. Where it is one word
    /// it always can.
    #[inline(always)]
    pub fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// All of the slot array.
    pub fn slots<M: Media>(&self, media: &M) -> Slots {
        let array = &self.cells[..self.shape.array_words()];
        Slots::from_words(array.iter().map(|cell| media.load(cell)))
    }

    /// Stores the words of the slot array that are others. No flush.
    pub fn store_array<M: Media>(&self, media: &M, slots: &Slots) {
        for (index, cell) in self.cells[..self.shape.array_words()].iter().enumerate() {
            if media.load(cell) != slots.word(index) {
                media.store(cell, slots.word(index));
            }
        }
    }

    /// A place without an entry, for a node that is not full.
    pub fn free_place<M: Media>(&self, media: &M, slots: &Slots) -> Result<usize> {
        let bitmap =
            if self.has_bitmap() { media.load(self.bitmap_cell()) } else { slots.bitmap() };
        let place = bitmap.first_free();
        if place < self.shape.slots() { Ok(place) } else { Err(self.damaged("no place is free")) }
    }

    /// The place of a slot's entry. A damaged one is that of another entry.
    #[inline(always)]
    pub fn place<M: Media>(&self, media: &M, slot: usize) -> usize {
        let (index, shift) = Slots::position(slot);
        let word = if index == 0 { self.first } else { media.load(&self.cells[index]) };
        usize::from((word >> shift) as u8).min(self.shape.slots() - 1)
    }

    /// Where the entry of a place begins among the words.
    #[inline(always)]
    pub fn entry_index(&self, place: usize) -> usize {
        self.shape.entry_index(self.level, place)
    }

    /// The cells of the entry of a place.
    #[inline(always)]
    pub fn entry_cells(&self, place: usize) -> &'p [PCell] {
        &self.cells[self.entry_index(place)..][..self.shape.entry_words(self.level)]
    }

    /// The key word of a slot.
    #[inline(always)]
    pub fn key<M: Media>(&self, media: &M, slot: usize) -> u64 {
        media.load(&self.entry_cells(self.place(media, slot))[0])
    }

    /// The first word of the value of a slot, or the offset of a child.
    #[inline(always)]
    pub fn value<M: Media>(&self, media: &M, slot: usize) -> u64 {
        media.load(&self.entry_cells(self.place(media, slot))[1])
    }

    /// The value of a slot.
    #[inline(always)]
    pub fn read_value<M: Media>(&self, media: &M, slot: usize, value: &mut [u64]) {
        let cells = &self.entry_cells(self.place(media, slot))[1..];
        value.iter_mut().zip(cells).for_each(|(word, cell)| *word = media.load(cell));
    }

    /// All words of the entry of a slot.
    pub fn entry<M: Media>(&self, media: &M, slot: usize) -> Vec<u64> {
        let cells = self.entry_cells(self.place(media, slot)).iter();
        cells.map(|cell| media.load(cell)).collect()
    }

    /// Writes the key and the value of a place. No flush.
    pub fn store_entry<M: Media>(&self, media: &M, place: usize, key: u64, value: &[u64]) {
        let (first, rest) = (&self.entry_cells(place)[0], &self.entry_cells(place)[1..]);
        media.store(first, key);
        rest.iter().zip(value).for_each(|(cell, word)| media.store(cell, *word));
    }

    /// Flushes the lines of the entry of a place.
    pub fn flush_entry<M: Media>(&self, media: &M, site: Site, place: usize) {
        let first = self.entry_index(place);
        let end = first + self.shape.entry_words(self.level);
        let lines = first / LINE_WORDS..end.div_ceil(LINE_WORDS);
        lines.for_each(|line| media.flush(site, &self.cells[line * LINE_WORDS]));
    }

    /// An inner node leads somewhere.
    #[inline(always)]
    pub fn expect_entry(&self) -> Result<()> {
        if self.count() > 0 { Ok(()) } else { Err(self.damaged("an inner node leads nowhere")) }
    }

    /// An error that leads here.
    #[cold]
    pub fn damaged(&self, what: &'static str) -> IndexError {
        IndexError::Corrupt { offset: self.offset, what }
    }
}
