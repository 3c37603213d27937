//! Changes of one node: an entry in, an entry out, and whole nodes read and written.

use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::DramLine;

use super::nodes::{Nodes, WORDS};
use super::prefix::{has_prefix, write_prefix};
use crate::key::{Kept, TreeKey};

/// A separator and the child whose lower bound it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Entry {
    pub(super) kept: Kept,
    pub(super) child: u64,
}

impl<K: TreeKey, const CAPACITY: usize> Nodes<K, CAPACITY> {
    pub(super) fn entry(&self, node: u32, slot: usize) -> Entry {
        Entry { kept: self.kept(node, slot), child: self.child(node, slot) }
    }

    fn set_entry(&self, block: u32, within: usize, entry: Entry) {
        self.store(block, within, entry.kept.word);
        self.store(block + 1, within, entry.child);
        if K::RECORDS {
            self.store(block + 2, within, entry.kept.handle);
        }
    }

    /// Appends all entries of a node.
    pub(super) fn read_entries(&self, node: u32, entries: &mut Vec<Entry>) {
        entries.extend((0..self.count(node)).map(|slot| self.entry(node, slot)));
    }

    /// Makes these the entries of a node, and their longest shared prefix its prefix.
    pub(super) fn write_entries(&self, separators: &K::Separators, node: u32, entries: &[Entry]) {
        debug_assert!(!entries.is_empty() && entries.len() <= CAPACITY);
        self.set_count(node, entries.len());
        let mut skip = 0;
        if K::RECORDS {
            let bounds =
                entries.get(1).zip(entries.last()).map(|(first, last)| (first.kept, last.kept));
            skip = write_prefix::<K>(separators, self.prefix(node), bounds);
        }
        for (number, entries) in entries.chunks(WORDS).enumerate() {
            let block = self.block(node, number);
            for (within, entry) in entries.iter().enumerate() {
                let mut entry = *entry;
                entry.kept.word =
                    self.word_for(separators, entry.kept, number * WORDS + within, skip);
                self.set_entry(block, within, entry);
            }
            (entries.len()..WORDS).for_each(|within| self.store(block, within, u64::MAX));
        }
        self.set_pivots(node, 1);
        self.update_head(node);
    }

    /// The word by which a separator is searched in this slot. The first slot takes whatever is
    /// less than the second, so where words are cut from strings it needs none and takes no part in
    /// the shared prefix.
    fn word_for(&self, separators: &K::Separators, kept: Kept, slot: usize, skip: usize) -> u64 {
        if K::RECORDS && slot == 0 { 0 } else { K::kept_word(separators, kept, skip) }
    }

    /// Puts an entry into a slot (not the first) of a node that is not full; those after it move up
    /// by one.
    pub(super) fn insert_entry(
        &self,
        separators: &K::Separators,
        node: u32,
        slot: usize,
        entry: Entry,
    ) {
        let count = self.count(node);
        debug_assert!(slot > 0 && slot <= count && count < CAPACITY);
        if K::RECORDS && !has_prefix::<K>(separators, entry.kept, self.prefix(node)) {
            let mut entries = Vec::with_capacity(count + 1);
            self.read_entries(node, &mut entries);
            entries.insert(slot, entry);
            return self.write_entries(separators, node, &entries);
        }
        self.set_count(node, count + 1);
        let word = self.word_for(separators, entry.kept, slot, self.skip(node));
        let mut carried = [word, entry.child, entry.kept.handle];
        let mut from = slot % WORDS;
        for number in slot / WORDS..=count / WORDS {
            let block = self.block(node, number);
            if number * WORDS == count {
                self.fill(block, u64::MAX);
            }
            for (line, carried) in (block..).zip(&mut carried).take(Self::BLOCK_LINES) {
                *carried = shift_up(self.arena.line(line), from, *carried);
            }
            from = 0;
        }
        self.blocks_changed(node, slot, count);
    }

    /// The words of slots from `slot` on to `last` have moved.
    fn blocks_changed(&self, node: u32, slot: usize, last: usize) {
        // Where that is only behind the first word of one block, no pivot has.
        if slot.is_multiple_of(WORDS) || slot / WORDS < last / WORDS {
            self.set_pivots(node, slot.div_ceil(WORDS));
            self.update_head(node);
        }
    }

    /// Takes an entry out; those after it move down by one.
    pub(super) fn remove_entry(&self, node: u32, slot: usize) {
        let count = self.count(node);
        debug_assert!(slot < count);
        let last = (count - 1) / WORDS;
        let mut from = slot % WORDS;
        for number in slot / WORDS..=last {
            let block = self.block(node, number);
            let next = (number < last).then(|| self.block(node, number + 1));
            for line in 0..Self::BLOCK_LINES as u32 {
                // What comes in behind the last word is padding, behind the last child or handle
                // what leads nowhere.
                let moved_in = next
                    .map_or(if line == 0 { u64::MAX } else { 0 }, |next| self.load(next + line, 0));
                shift_down(self.arena.line(block + line), from, moved_in);
            }
            from = 0;
        }
        if K::RECORDS && slot == 0 && count > 1 {
            self.store(self.block(node, 0), 0, 0);
        }
        self.set_count(node, count - 1);
        self.blocks_changed(node, slot, count - 1);
    }

    /// Gives the child in a slot another lower bound, between those of its neighbours.
    pub(super) fn set_separator(
        &self,
        separators: &K::Separators,
        node: u32,
        slot: usize,
        kept: Kept,
    ) {
        let block = self.block(node, slot / WORDS);
        if K::RECORDS {
            self.store(block + 2, slot % WORDS, kept.handle);
            if slot > 0 && !has_prefix::<K>(separators, kept, self.prefix(node)) {
                let mut entries = Vec::with_capacity(self.count(node));
                self.read_entries(node, &mut entries);
                return self.write_entries(separators, node, &entries);
            }
        }
        let word = self.word_for(separators, kept, slot, self.skip(node));
        self.store(block, slot % WORDS, word);
        self.blocks_changed(node, slot, slot);
    }
}

/// Puts a word into a line; those from there on move up by one, and the last one is returned.
#[inline(always)]
fn shift_up(line: &DramLine, from: usize, word: u64) -> u64 {
    line.0[from..].iter().fold(word, |carried, cell| {
        let displaced = cell.load(Relaxed);
        cell.store(carried, Relaxed);
        displaced
    })
}

/// Takes a word out of a line; those after it move down by one, and `moved_in` becomes the last.
#[inline(always)]
fn shift_down(line: &DramLine, from: usize, moved_in: u64) {
    line.0[from..].iter().rev().fold(moved_in, |carried, cell| {
        let displaced = cell.load(Relaxed);
        cell.store(carried, Relaxed);
        displaced
    });
}
