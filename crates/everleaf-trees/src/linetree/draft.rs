//! The lines of a leaf, copied out of it: what each half of a split is to be.

use everleaf_pmem::{Media, Word, planted};

use super::layout::{ENTRIES, KeyWord, Leaf, home, window};
use crate::support::key::TreeKey;

/// The words of a line: key words and values in turns.
type Words = [u64; 2 * ENTRIES];

/// The lines of a leaf.
#[derive(Clone)]
pub(super) struct Draft<const LINES: usize> {
    lines: [Words; LINES],
    /// The half of all keys that the leaf is in.
    half: u64,
}

impl<const LINES: usize> Draft<LINES> {
    /// No entries.
    pub fn empty(half: u64) -> Self {
        Self { lines: [[0; 2 * ENTRIES]; LINES], half }
    }

    /// What a leaf holds.
    pub fn of<M: Media>(media: &M, leaf: &Leaf<LINES>, half: u64) -> Self {
        let mut draft = Self::empty(half);
        for (line, words) in leaf.lines.iter().zip(&mut draft.lines) {
            line.0.iter().zip(words).for_each(|(cell, word)| *word = media.load(cell));
        }
        draft
    }

    /// The words of its lines.
    pub fn lines(&self) -> &[Words; LINES] {
        &self.lines
    }

    /// The key words of its entries, in no order.
    pub fn entries(&self) -> impl Iterator<Item = KeyWord> {
        let words = self.lines.iter().flat_map(|words| words.iter().step_by(2));
        words.map(|word| KeyWord::from_word(*word)).filter(|word| word.is_entry())
    }

    /// The home of the entry in a slot, if there is one.
    #[inline(always)]
    fn home<K: TreeKey>(&self, line: usize, slot: usize) -> Option<usize> {
        let word = KeyWord::from_word(self.lines[line][2 * slot]);
        let key = K::of(word.number(self.half), &[]);
        word.is_entry().then(|| home::<K, LINES>(key))
    }

    /// Only these entries stay, each in its slot.
    #[inline(always)]
    pub fn keep(&mut self, stays: impl Fn(KeyWord) -> bool) {
        for entry in self.lines.iter_mut().flat_map(|words| words.as_chunks_mut::<2>().0) {
            let word = KeyWord::from_word(entry[0]);
            if !word.is_entry() || !stays(word) {
                *entry = [KeyWord::NEVER_USED.into_word(), 0];
            }
        }
    }

    /// Moves entries that went past their home back, as far as there is room now. There is always
    /// room for each where it is.
    pub fn pull_home<K: TreeKey>(&mut self) {
        for line in 0..LINES {
            for slot in 0..ENTRIES {
                let Some(home) = self.home::<K>(line, slot).filter(|home| *home != line) else {
                    continue;
                };
                let is_free = |at: usize, slot: &usize| self.home::<K>(at, *slot).is_none();
                let free = window::<LINES>(home)
                    .take_while(|at| *at != line)
                    .find_map(|at| Some((at, (0..ENTRIES).find(|slot| is_free(at, slot))?)));
                if let Some((at, free)) = free {
                    let value = self.lines[line][2 * slot + 1];
                    self.lines[at][2 * free] = self.lines[line][2 * slot];
                    self.lines[at][2 * free + 1] = value;
                    self.lines[line][2 * slot] = KeyWord::NEVER_USED.into_word();
                }
            }
        }
    }

    /// Makes slots without an entry such as were never used, but dead in lines that an entry has
    /// gone past: there a search must go on (I3).
    pub fn mark_passed<K: TreeKey>(&mut self) {
        let mut passed = [false; LINES];
        for line in 0..LINES {
            for slot in 0..ENTRIES {
                if let Some(home) = self.home::<K>(line, slot).filter(|home| *home != line) {
                    let before = window::<LINES>(home).take_while(|at| *at != line);
                    before.for_each(|at| passed[at] = true);
                }
            }
        }
        for (words, passed) in self.lines.iter_mut().zip(passed) {
            let none = if passed && !planted(381) { KeyWord::DEAD } else { KeyWord::NEVER_USED };
            let words = words.iter_mut().step_by(2);
            words
                .filter(|word| !KeyWord::from_word(**word).is_entry())
                .for_each(|word| *word = none.into_word());
        }
    }
}
