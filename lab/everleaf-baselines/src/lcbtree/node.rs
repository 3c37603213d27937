//! A node as the operations see it: cells by slot.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Media, PCell, WORD};

use super::layout::{ELEMENT_WORDS, PRESENT, Shape, State};

/// Mark, key and value.
pub(super) type Element = [u64; ELEMENT_WORDS];

/// An element of a key.
#[inline(always)]
pub(super) const fn element(key: u64, value: u64) -> Element {
    [PRESENT, key, value]
}

/// A checked view of one node, with its state when it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Node<'p> {
    cells: &'p [PCell],
    offset: u64,
    level: u8,
    count: usize,
}

impl<'p> Node<'p> {
    /// The node at `offset`, after a check of its bounds, its alignment and its state.
    #[inline(always)]
    pub fn at<M: Media>(media: &'p M, offset: u64, shape: Shape) -> Result<Self> {
        let Some(cells) = media.region().cells(offset, shape.node_words()) else {
            return Err(IndexError::Corrupt { offset, what: "a node lies outside the pool" });
        };
        let state = media.load(cells[0].view::<State>());
        if state.count() > shape.slots() || state.level() >= shape.max_levels() as u64 {
            let what = "a node has more elements than slots, or is of no level";
            return Err(IndexError::Corrupt { offset, what });
        }
        Ok(Self { cells, offset, level: state.level() as u8, count: state.count() })
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

    /// Elements.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.count
    }

    /// All of its words.
    pub fn cells(&self) -> &'p [PCell] {
        self.cells
    }

    /// Where an element begins in the pool.
    #[inline(always)]
    pub fn element_offset(&self, slot: usize) -> u64 {
        self.offset + (Shape::element_index(slot) * WORD) as u64
    }

    /// The words of an element.
    #[inline(always)]
    pub fn element<M: Media>(&self, media: &M, slot: usize) -> Element {
        let first = Shape::element_index(slot);
        std::array::from_fn(|word| media.load(&self.cells[first + word]))
    }

    /// The key of an element.
    #[inline(always)]
    pub fn key<M: Media>(&self, media: &M, slot: usize) -> u64 {
        media.load(&self.cells[Shape::element_index(slot) + 1])
    }

    /// The value of an element, or the offset of a child.
    #[inline(always)]
    pub fn value<M: Media>(&self, media: &M, slot: usize) -> u64 {
        media.load(&self.cells[Shape::element_index(slot) + 2])
    }

    /// How many elements from slot `first` on `belong` before the others, and `first`: by halves.
    #[inline(always)]
    fn partition<M: Media>(&self, media: &M, first: usize, belongs: impl Fn(u64) -> bool) -> usize {
        let (mut low, mut high) = (first, self.count);
        while low < high {
            let middle = (low + high) / 2;
            media.count(Counter::LeafProbes, u64::from(self.level == 0));
            if belongs(self.key(media, middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The slot of the first key that is not less.
    #[inline(always)]
    pub fn lower_bound<M: Media>(&self, media: &M, key: u64) -> usize {
        self.partition(media, 0, |other| other < key)
    }

    /// The slot of a key.
    #[inline(always)]
    pub fn slot_of<M: Media>(&self, media: &M, key: u64) -> Result<usize, usize> {
        let slot = self.lower_bound(media, key);
        if slot < self.count && self.key(media, slot) == key { Ok(slot) } else { Err(slot) }
    }

    /// The slot of the child that a key belongs to; an error if there is none.
    #[inline(always)]
    pub fn child_of<M: Media>(&self, media: &M, key: u64) -> Result<usize> {
        self.expect_element()?;
        Ok(self.partition(media, 1, |other| other <= key) - 1)
    }

    /// An inner node leads somewhere.
    #[inline(always)]
    pub fn expect_element(&self) -> Result<()> {
        if self.count > 0 { Ok(()) } else { Err(self.damaged("an inner node leads nowhere")) }
    }

    /// Its keys ascend; the first one of an inner node is none. Asked before elements move: then a
    /// search by halves would look at others, and find another element of a key than before.
    pub fn expect_order<M: Media>(&self, media: &M) -> Result<()> {
        let keys = (usize::from(self.level > 0)..self.count).map(|slot| self.key(media, slot));
        if keys.is_sorted_by(|a, b| a < b) {
            return Ok(());
        }
        Err(self.damaged("the keys of a node do not ascend"))
    }

    /// An error that leads here.
    #[cold]
    pub fn damaged(&self, what: &'static str) -> IndexError {
        IndexError::Corrupt { offset: self.offset, what }
    }
}
