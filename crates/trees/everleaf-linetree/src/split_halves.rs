//! The lines of a leaf, copied out of it: what each half of a split is to be.

use everleaf_pmem::{Media, Word, planted};

use super::layout::{ENTRIES, KeyWord, Leaf, MAX_ENTRIES, home_of, window};
use everleaf_tree::key::TreeKey;

/// The words of a line: key words and values in turns.
type Words = [u64; 2 * ENTRIES];

/// An entry: its key word and its value.
pub(super) type Entry = (KeyWord, u64);

/// The home of a slot without an entry.
const NO_HOME: u8 = u8::MAX;

/// The lines of a leaf, and the homes of its entries, each of which is computed once.
#[derive(Clone)]
pub(super) struct Draft<const LINES: usize> {
    lines: [Words; LINES],
    homes: [[u8; ENTRIES]; LINES],
}

impl<const LINES: usize> Draft<LINES> {
    /// No entries.
    pub const EMPTY: Self =
        Self { lines: [[0; 2 * ENTRIES]; LINES], homes: [[NO_HOME; ENTRIES]; LINES] };

    /// What a leaf holds, whose keys are of this half.
    pub fn of<K: TreeKey, M: Media>(media: &M, leaf: &Leaf<LINES>, half: u64) -> Self {
        let mut draft = Self::EMPTY;
        for (line, words) in leaf.lines.iter().zip(&mut draft.lines) {
            line.0.iter().zip(words).for_each(|(cell, word)| *word = media.load(cell));
        }
        for (words, homes) in draft.lines.iter().zip(&mut draft.homes) {
            for slot in 0..ENTRIES {
                let word = KeyWord::from_word(words[2 * slot]);
                let home = home_of::<K, LINES>(word, half);
                homes[slot] = if word.is_entry() { home as u8 } else { NO_HOME };
            }
        }
        draft
    }

    /// The words of its lines.
    pub fn lines(&self) -> &[Words; LINES] {
        &self.lines
    }

    /// Its entries, in no order.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        let pairs = self.lines.iter().flat_map(|words| words.as_chunks::<2>().0);
        let entries = pairs.map(|pair| (KeyWord::from_word(pair[0]), pair[1]));
        entries.filter(|(word, _)| word.is_entry())
    }

    /// Their key words, in no order; how many there are.
    pub fn words(&self, into: &mut [KeyWord; MAX_ENTRIES]) -> usize {
        let mut count = 0;
        for words in &self.lines {
            for slot in 0..ENTRIES {
                // Without a branch: which slots have entries is not to be guessed.
                let word = KeyWord::from_word(words[2 * slot]);
                into[count] = word;
                count += usize::from(word.is_entry());
            }
        }
        count
    }

    /// Only these entries stay, each in its slot.
    #[inline(always)]
    pub fn keep(&mut self, stays: impl Fn(Entry) -> bool) {
        for (words, homes) in self.lines.iter_mut().zip(&mut self.homes) {
            for slot in 0..ENTRIES {
                let word = KeyWord::from_word(words[2 * slot]);
                // Without a branch: which entries stay is not to be guessed.
                let stays = word.is_entry() & stays((word, words[2 * slot + 1]));
                let mask = u64::from(stays).wrapping_neg();
                words[2 * slot] &= mask;
                words[2 * slot + 1] &= mask;
                homes[slot] |= !mask as u8;
            }
        }
    }

    /// Moves entries that went past their home back, as far as there is room now. There is always
    /// room for each where it is.
    pub fn pull_home(&mut self) {
        for (line, slot, home) in self.away() {
            let is_free = |home: &u8| *home == NO_HOME;
            let free = window::<LINES>(home)
                .take_while(|at| *at != line)
                .find_map(|at| Some((at, self.homes[at].iter().position(is_free)?)));
            if let Some((at, free)) = free {
                self.lines[at][2 * free] = self.lines[line][2 * slot];
                self.lines[at][2 * free + 1] = self.lines[line][2 * slot + 1];
                self.lines[line][2 * slot] = KeyWord::NEVER_USED.into_word();
                self.homes[line][slot] = NO_HOME;
                self.homes[at][free] = home as u8;
            }
        }
    }

    /// Makes slots without an entry such as were never used, but dead in lines that an entry has
    /// gone past: there a search must go on (I3).
    pub fn mark_passed(&mut self) {
        let mut passed = 0_u64;
        for (line, _, home) in self.away() {
            // From its home on so many lines.
            let distance = if home > line { line + LINES - home } else { line - home };
            let lines = ((1 << distance) - 1) << home;
            passed |= lines | lines >> LINES;
        }
        for (line, (words, homes)) in self.lines.iter_mut().zip(&self.homes).enumerate() {
            let is_passed = passed >> line & 1 != 0 && !planted(381);
            let none = if is_passed { KeyWord::DEAD } else { KeyWord::NEVER_USED };
            for slot in 0..ENTRIES {
                // Without a branch, as above.
                let is_free = u64::from(homes[slot] == NO_HOME).wrapping_neg();
                words[2 * slot] = words[2 * slot] & !is_free | none.into_word() & is_free;
            }
        }
    }

    /// The entries that are not in the line of their home: line, slot, home.
    fn away(&self) -> impl Iterator<Item = (usize, usize, usize)> + use<LINES> {
        let mut away = 0_u64;
        for (line, homes) in self.homes.iter().enumerate() {
            for (slot, home) in homes.iter().enumerate() {
                let is_away = *home != NO_HOME && usize::from(*home) != line;
                away |= u64::from(is_away) << (ENTRIES * line + slot);
            }
        }
        let homes = self.homes;
        std::iter::from_fn(move || {
            let place = (away != 0).then(|| away.trailing_zeros() as usize)?;
            away &= away - 1;
            let (line, slot) = (place / ENTRIES, place % ENTRIES);
            Some((line, slot, homes[line][slot].into()))
        })
    }
}
