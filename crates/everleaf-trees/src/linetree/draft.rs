//! The lines of a leaf, copied out of it: what each half of a split is to be.

use everleaf_pmem::{Media, Word};

use super::layout::{ENTRIES, KeyWord, Leaf, Slot, home, window};
use crate::support::key::TreeKey;

/// A key word and a value.
type Entry = (KeyWord, u64);
/// What stands in a slot that no entry was ever in.
const NEVER_USED: Entry = (KeyWord::NEVER_USED, 0);

/// The lines of a leaf.
#[derive(Clone)]
pub(super) struct Draft<const LINES: usize> {
    lines: [[Entry; ENTRIES]; LINES],
    /// The half of all keys that the leaf is in.
    half: u64,
}

impl<const LINES: usize> Draft<LINES> {
    /// No entries.
    pub fn empty(half: u64) -> Self {
        Self { lines: [[NEVER_USED; ENTRIES]; LINES], half }
    }

    /// What a leaf holds.
    pub fn of<M: Media>(media: &M, leaf: &Leaf<LINES>, half: u64) -> Self {
        let mut draft = Self::empty(half);
        for (line, entries) in leaf.lines.iter().zip(&mut draft.lines) {
            for (slot, entry) in Slot::all_of(line).zip(entries) {
                *entry = (media.load(slot.key()), media.load(slot.value()));
            }
        }
        draft
    }

    /// The words of its lines.
    pub fn words(&self) -> impl Iterator<Item = [u64; 2 * ENTRIES]> {
        self.lines.iter().map(|entries| {
            std::array::from_fn(|word| match (entries[word / 2], word % 2) {
                ((key, _), 0) => key.into_word(),
                ((_, value), _) => value,
            })
        })
    }

    /// The key words of its entries, in no order.
    pub fn entries(&self) -> impl Iterator<Item = KeyWord> {
        self.lines.iter().flatten().map(|entry| entry.0).filter(|word| word.is_entry())
    }

    /// Only these entries stay, each in its slot.
    pub fn keep(&mut self, stays: impl Fn(KeyWord) -> bool) {
        for entry in self.lines.iter_mut().flatten() {
            if !entry.0.is_entry() || !stays(entry.0) {
                *entry = NEVER_USED;
            }
        }
    }

    fn home<K: TreeKey>(&self, word: KeyWord) -> usize {
        home::<LINES>(K::hash(K::of(word.number(self.half), &[])))
    }

    /// Moves entries that went past their home back, as far as there is room now. There is always
    /// room for each where it is.
    pub fn pull_home<K: TreeKey>(&mut self) {
        for line in 0..LINES {
            for slot in 0..ENTRIES {
                let entry = self.lines[line][slot];
                if !entry.0.is_entry() {
                    continue;
                }
                let is_free = |at: &usize| self.lines[*at].iter().any(|entry| !entry.0.is_entry());
                let mut before =
                    window::<LINES>(self.home::<K>(entry.0)).take_while(|at| *at != line);
                let Some(at) = before.find(is_free) else { continue };
                self.lines[line][slot] = NEVER_USED;
                let free = self.lines[at].iter_mut().find(|entry| !entry.0.is_entry());
                free.into_iter().for_each(|free| *free = entry);
            }
        }
    }

    /// Makes slots without an entry such as were never used, but dead in lines that an entry has
    /// gone past: there a search must go on (I3).
    pub fn mark_passed<K: TreeKey>(&mut self) {
        let mut passed = [false; LINES];
        for (line, entries) in self.lines.iter().enumerate() {
            for (word, _) in entries.iter().filter(|entry| entry.0.is_entry()) {
                let before = window::<LINES>(self.home::<K>(*word)).take_while(|at| *at != line);
                before.for_each(|at| passed[at] = true);
            }
        }
        for (entries, passed) in self.lines.iter_mut().zip(passed) {
            let word = if passed { KeyWord::DEAD } else { KeyWord::NEVER_USED };
            entries.iter_mut().filter(|entry| !entry.0.is_entry()).for_each(|entry| entry.0 = word);
        }
    }
}
