//! What execution depends on: the words that are loaded before anything is stored there.

use std::sync::atomic::{AtomicU64, Ordering};

/// Words that are told apart: a quarter of a mebibyte, which is more than an explored pool has.
const WORDS: usize = 1 << 15;
/// Words of a set's memory.
const LEN: usize = WORDS / 64;

/// Where in a set the bit of a word is.
fn bit(word: usize) -> (usize, u64) {
    (word % WORDS / 64, 1 << (word % 64))
}

/// A set of words, which may seem to have others too: those so far apart that their bits are one.
#[derive(Clone)]
pub(crate) struct ReadSet(Box<[u64; LEN]>);

impl Default for ReadSet {
    fn default() -> Self {
        Self(Box::new([0; LEN]))
    }
}

impl ReadSet {
    pub fn insert(&mut self, word: usize) {
        let (place, mask) = bit(word);
        self.0[place] |= mask;
    }

    pub fn contains(&self, word: usize) -> bool {
        let (place, mask) = bit(word);
        self.0[place] & mask != 0
    }

    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(own, other)| *own |= other);
    }

    pub fn clear(&mut self) {
        self.0.fill(0);
    }
}

/// Notes the words of one run. Threads that race may miss one: runs that depend on what is noted
/// have but one thread.
pub(crate) struct Reads {
    stored: [AtomicU64; LEN],
    loaded: [AtomicU64; LEN],
}

impl Default for Reads {
    fn default() -> Self {
        let [stored, loaded] = [const { [const { AtomicU64::new(0) }; LEN] }; 2];
        Self { stored, loaded }
    }
}

impl Reads {
    /// From now on nothing was stored.
    pub fn begin(&self) {
        self.stored.iter().for_each(|bits| bits.store(0, Ordering::Relaxed));
    }

    #[inline]
    pub fn load(&self, word: usize) {
        let (place, mask) = bit(word);
        let is_own = word < WORDS && self.stored[place].load(Ordering::Relaxed) & mask != 0;
        let loaded = self.loaded[place].load(Ordering::Relaxed);
        if !is_own && loaded & mask == 0 {
            self.loaded[place].store(loaded | mask, Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn store(&self, word: usize) {
        let (place, mask) = bit(word);
        if word < WORDS {
            let stored = self.stored[place].load(Ordering::Relaxed);
            self.stored[place].store(stored | mask, Ordering::Relaxed);
        }
    }

    /// Moves what was loaded into a set.
    pub fn take(&self, into: &mut ReadSet) {
        for (bits, into) in self.loaded.iter().zip(into.0.iter_mut()) {
            *into |= bits.load(Ordering::Relaxed);
            bits.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_has_stored_itself_it_does_not_depend_on() {
        let reads = Reads::default();
        reads.store(3);
        reads.load(3);
        reads.load(70);
        reads.store(70);
        let mut set = ReadSet::default();
        reads.take(&mut set);
        assert!(set.contains(70) && !set.contains(3));
        reads.begin();
        reads.load(3);
        set.clear();
        reads.take(&mut set);
        assert!(set.contains(3) && !set.contains(70));
    }

    #[test]
    fn words_beyond_the_last_one_count_as_loaded_once_too_often() {
        let reads = Reads::default();
        reads.store(WORDS + 5);
        reads.load(WORDS + 5);
        reads.store(5);
        let mut set = ReadSet::default();
        reads.take(&mut set);
        assert!(set.contains(WORDS + 5) && set.contains(5));
    }
}
