//! Entries that move within a node, and how they are written so that a crash leaves each of them
//! somewhere.

use std::ops::RangeInclusive;

use everleaf_pmem::{Counter, Media, Site, planted, site, unless_planted};

use super::layout::{EMPTY, LINE_SLOTS};
use super::node::{Entry, Node};

/// The line of a slot among those of its node.
pub(super) const fn line_of(slot: usize) -> usize {
    slot / LINE_SLOTS
}

/// Slots of one node that are written one after the other, upwards or downwards: what a slot had is
/// durable in another one before it is overwritten.
pub(super) struct Pass<'p, M: Media> {
    media: &'p M,
    node: Node<'p>,
    /// Of the flush of a line, and of the fence before the next one.
    sites: [Site; 2],
    /// The slots written to so far: the first and the last.
    written: Option<(usize, usize)>,
}

impl<'p, M: Media> Pass<'p, M> {
    pub fn new(media: &'p M, node: Node<'p>, sites: [Site; 2]) -> Self {
        Self { media, node, sites, written: None }
    }

    /// The next slot to be written to. What was written is durable if it lies in another line, and
    /// becomes so before the rest if it lies in the same.
    #[inline(always)]
    fn turn_to(&mut self, slot: usize) {
        let [flush, fence] = self.sites;
        match self.written {
            Some((first, last)) => {
                if line_of(last) == line_of(slot) {
                    self.media.order(site!("cdds.shift.P1.order"));
                } else {
                    self.media.flush(flush, self.node.key(last));
                    self.media.fence(fence);
                }
                self.written = Some((first, slot));
            }
            None => self.written = Some((slot, slot)),
        }
    }

    /// Writes an entry. Until its last store the slot is empty, so a crash leaves no mixture.
    #[inline(always)]
    pub fn write(&mut self, slot: usize, entry: Entry) {
        let (media, node) = (self.media, self.node);
        self.turn_to(slot);
        unless_planted!(276, media.store(node.start(slot), EMPTY));
        media.order(site!("cdds.shift.P1.empty"));
        media.store(node.key(slot), entry.key);
        media.store(node.end(slot), entry.end);
        media.store(node.value(slot), entry.value);
        media.order(site!("cdds.shift.P1.entry"));
        media.store(node.start(slot), entry.start);
    }

    /// Stores the version that ends the entry of a slot.
    pub fn set_end(&mut self, slot: usize, end: u64) {
        self.turn_to(slot);
        self.media.store(self.node.end(slot), end);
    }

    /// Empties a slot.
    pub fn empty(&mut self, slot: usize) {
        self.turn_to(slot);
        self.media.store(self.node.start(slot), EMPTY);
    }

    /// Flushes the last line; the slots written to, in their order. No fence.
    pub fn end(self) -> Option<RangeInclusive<usize>> {
        let (first, last) = self.written?;
        self.media.flush(self.sites[0], self.node.key(last));
        Some(first.min(last)..=first.max(last))
    }
}

/// Puts an entry behind the slots before `at` (P1): those between it and the next free slot, or the
/// one before where there is none, move by one. Flushes every line that it writes to, and returns
/// the slots; none if no slot is free, and nothing was written then. A slot is free that is empty,
/// or whose entry holds for no version from this one on.
pub(super) fn place<M: Media>(
    media: &M,
    node: Node<'_>,
    at: usize,
    entry: Entry,
    version: u64,
) -> Option<RangeInclusive<usize>> {
    let is_free = |slot: &usize| node.is_free(media, *slot, version + u64::from(planted(277)));
    // P1: Crash: entries twice, a slot that is empty, and an entry of a version to come: recovery
    // moves them back.
    let sites = [site!("cdds.shift.P1.line"), site!("cdds.shift.P1.fence")];
    let mut pass = Pass::new(media, node, sites);
    let moved = if let Some(free) = (at..node.slots()).find(is_free) {
        (at..free).rev().for_each(|slot| pass.write(slot + 1, node.entry(media, slot)));
        pass.write(at, entry);
        free - at
    } else {
        let free = (0..at).rev().find(is_free)?;
        (free + 1..at).for_each(|slot| pass.write(slot - 1, node.entry(media, slot)));
        pass.write(at - 1, entry);
        at - 1 - free
    };
    media.count(Counter::EntriesShifted, moved as u64);
    pass.end()
}

/// Flushes the line in which the entry of a slot has got its end (P1), unless one of these ranges
/// of slots, which were written since, has it.
pub(super) fn flush_end<M: Media>(
    media: &M,
    node: Node<'_>,
    slot: usize,
    written: &[Option<RangeInclusive<usize>>],
) {
    let line = line_of(slot);
    let has_line = |slots: &RangeInclusive<usize>| {
        (line_of(*slots.start())..=line_of(*slots.end())).contains(&line)
    };
    if !written.iter().flatten().any(has_line) {
        media.flush(site!("cdds.end.P1.line"), node.end(slot));
    }
}
