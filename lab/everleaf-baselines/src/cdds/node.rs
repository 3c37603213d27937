//! A node as the operations see it: entries by slot.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Media, PCell, Word};

use super::layout::{Child, EMPTY, ENTRY_WORDS, LIVE, MAX_LEVELS, Shape};

/// A key with a value, or with a child, and the versions that it holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub key: u64,
    /// The first of them; 0: the slot is empty.
    pub start: u64,
    /// The first that it does not hold for.
    pub end: u64,
    pub value: u64,
}

impl Entry {
    /// One that holds from a version on.
    #[inline(always)]
    pub const fn from(start: u64, key: u64, value: u64) -> Self {
        Self { key, start, end: LIVE, value }
    }

    /// One of an inner node.
    #[inline(always)]
    pub fn to(child: Child, start: u64, key: u64) -> Self {
        Self::from(start, key, child.into_word())
    }

    /// By what the entries of a node ascend; no two of them have the same.
    #[inline(always)]
    pub const fn place(&self) -> (u64, u64) {
        (self.key, self.start)
    }
}

/// A checked view of one node.
#[derive(Clone, Copy)]
pub(super) struct Node<'p> {
    cells: &'p [PCell],
    child: Child,
}

impl<'p> Node<'p> {
    /// The node that a word leads to, after a check of its bounds, its alignment and its level.
    #[inline(always)]
    pub fn at<M: Media>(media: &'p M, child: Child, shape: Shape) -> Result<Self> {
        let offset = child.offset();
        let Some(cells) = media.region().cells(offset, shape.node_words()) else {
            return Err(IndexError::Corrupt { offset, what: "a node lies outside the pool" });
        };
        if usize::from(child.level()) >= MAX_LEVELS {
            return Err(IndexError::Corrupt { offset, what: "a node is of no level" });
        }
        Ok(Self { cells, child })
    }

    /// What leads to it.
    #[inline(always)]
    pub fn child(&self) -> Child {
        self.child
    }

    /// Its place in the pool.
    #[inline(always)]
    pub fn offset(&self) -> u64 {
        self.child.offset()
    }

    /// Levels above the leaves.
    #[inline(always)]
    pub fn level(&self) -> u8 {
        self.child.level()
    }

    /// All slots.
    #[inline(always)]
    pub fn slots(&self) -> usize {
        self.cells.len() / ENTRY_WORDS
    }

    // ---- cells
    // ---------------------------------------------------------------------------------------------

    /// The key of a slot.
    #[inline(always)]
    pub fn key(&self, slot: usize) -> &'p PCell {
        &self.cells[slot * ENTRY_WORDS]
    }
    /// The first version of a slot.
    #[inline(always)]
    pub fn start(&self, slot: usize) -> &'p PCell {
        &self.cells[slot * ENTRY_WORDS + 1]
    }
    /// The version that ends a slot.
    #[inline(always)]
    pub fn end(&self, slot: usize) -> &'p PCell {
        &self.cells[slot * ENTRY_WORDS + 2]
    }
    /// The value of a slot.
    #[inline(always)]
    pub fn value(&self, slot: usize) -> &'p PCell {
        &self.cells[slot * ENTRY_WORDS + 3]
    }

    // ---- what they hold
    // ---------------------------------------------------------------------------------------------

    /// What a slot has.
    #[inline(always)]
    pub fn entry<M: Media>(&self, media: &M, slot: usize) -> Entry {
        Entry {
            key: media.load(self.key(slot)),
            start: media.load(self.start(slot)),
            end: media.load(self.end(slot)),
            value: media.load(self.value(slot)),
        }
    }

    /// Whether the entry of a slot holds still.
    #[inline(always)]
    pub fn is_live<M: Media>(&self, media: &M, slot: usize) -> bool {
        media.load(self.start(slot)) != EMPTY && media.load(self.end(slot)) == LIVE
    }

    /// Whether a slot is empty, or its entry holds for no version from this one on.
    #[inline(always)]
    pub fn is_free<M: Media>(&self, media: &M, slot: usize, version: u64) -> bool {
        media.load(self.start(slot)) == EMPTY || media.load(self.end(slot)) <= version
    }

    /// Whether so many slots are free. Asked first are those that an entry at a slot would move
    /// towards.
    #[inline(always)]
    pub fn has_free<M: Media>(&self, media: &M, count: usize, at: usize, version: u64) -> bool {
        let slots = (at..self.slots()).chain((0..at).rev());
        slots.filter(|slot| self.is_free(media, *slot, version)).take(count).count() == count
    }

    /// The live entries.
    pub fn live<M: Media>(&self, media: &M) -> impl Iterator<Item = Entry> {
        let live = (0..self.slots()).filter(|slot| self.is_live(media, *slot));
        live.map(|slot| self.entry(media, slot))
    }

    /// The first live entry from a slot on.
    #[inline(always)]
    pub fn live_from<M: Media>(&self, media: &M, slot: usize) -> Option<usize> {
        (slot..self.slots()).find(|slot| self.is_live(media, *slot))
    }
    /// The last live entry before a slot.
    #[inline(always)]
    pub fn live_before<M: Media>(&self, media: &M, slot: usize) -> Option<usize> {
        (0..slot).rev().find(|slot| self.is_live(media, *slot))
    }

    /// Whether there is a live entry beside that of a slot.
    #[inline(always)]
    pub fn has_another<M: Media>(&self, media: &M, slot: usize) -> bool {
        self.live_from(media, slot + 1).or_else(|| self.live_before(media, slot)).is_some()
    }

    // ---- search
    // ---------------------------------------------------------------------------------------------

    /// How many entries have keys that `belong` before the others: by halves. Empty slots are
    /// behind all entries.
    #[inline(always)]
    pub fn partition<M: Media>(&self, media: &M, belongs: impl Fn(u64) -> bool) -> usize {
        let (mut low, mut high) = (0, self.slots());
        while low < high {
            let middle = (low + high) / 2;
            media.count(Counter::LeafProbes, u64::from(self.level() == 0));
            let is_entry = media.load(self.start(middle)) != EMPTY;
            if is_entry && belongs(media.load(self.key(middle))) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The slot behind all entries of a key, and of those below it.
    #[inline(always)]
    pub fn behind<M: Media>(&self, media: &M, key: u64) -> usize {
        self.partition(media, |other| other <= key)
    }

    /// The slot of a key's live entry, or else the slot behind its others: the newest of a key's
    /// entries is the last one.
    #[inline(always)]
    pub fn slot_of<M: Media>(&self, media: &M, key: u64) -> Result<usize, usize> {
        let behind = self.behind(media, key);
        match behind.checked_sub(1) {
            Some(slot) if media.load(self.key(slot)) == key && self.is_live(media, slot) => {
                Ok(slot)
            }
            _ => Err(behind),
        }
    }

    /// The slot of the child that a key belongs to: the last live one whose key is not greater, or
    /// the first one.
    #[inline(always)]
    pub fn child_of<M: Media>(&self, media: &M, key: u64) -> Result<usize> {
        let behind = self.behind(media, key);
        let live = self.live_before(media, behind);
        live.or_else(|| self.live_from(media, behind))
            .ok_or_else(|| self.damaged("an inner node leads nowhere"))
    }

    /// An error that leads here.
    #[cold]
    pub fn damaged(&self, what: &'static str) -> IndexError {
        IndexError::Corrupt { offset: self.offset(), what }
    }
}
