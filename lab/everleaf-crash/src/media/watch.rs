//! Which words are loaded before anything is stored to them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

/// Words that share a bit of the sieve: those of a line.
const GRAIN: usize = 8;
/// Bits of the sieve: it tells all lines of a quarter of a mebibyte apart, which is more than an
/// explored pool has.
const SIEVE_BITS: usize = 4096;

/// Notes the first loads of some words. Costs one relaxed load an access while nothing is watched,
/// and another one where no word of the same line is.
pub(crate) struct Watch {
    watches: AtomicBool,
    /// Most accesses are to lines that are not watched, and need no lock: their bit is not set.
    sieve: [AtomicU64; SIEVE_BITS / 64],
    words: Mutex<Words>,
}

impl Default for Watch {
    fn default() -> Self {
        let sieve = [const { AtomicU64::new(0) }; SIEVE_BITS / 64];
        Self { watches: AtomicBool::new(false), sieve, words: Mutex::default() }
    }
}

/// Where in the sieve the bit of a word is.
fn bit(word: usize) -> (usize, u64) {
    let bit = word / GRAIN % SIEVE_BITS;
    (bit / 64, 1 << (bit % 64))
}

#[derive(Default)]
struct Words {
    /// By word: watched, and neither loaded nor stored to so far.
    untouched: Vec<bool>,
    loaded: Vec<usize>,
}

impl Watch {
    /// Watches these words and no others; forgets what was noted.
    pub fn begin(&self, words: impl Iterator<Item = usize>) {
        let mut state = Words::default();
        self.sieve.iter().for_each(|bits| bits.store(0, Ordering::Relaxed));
        for word in words {
            let (place, mask) = bit(word);
            let bits = self.sieve[place].load(Ordering::Relaxed);
            if bits & mask == 0 {
                self.sieve[place].store(bits | mask, Ordering::Relaxed);
            }
            if state.untouched.len() <= word {
                state.untouched.resize(word + 1, false);
            }
            state.untouched[word] = true;
        }
        self.watches.store(!state.untouched.is_empty(), Ordering::Relaxed);
        *self.words.lock() = state;
    }

    /// Watches the first `count` words; forgets what was noted.
    pub fn begin_all(&self, count: usize) {
        self.sieve.iter().for_each(|bits| bits.store(u64::MAX, Ordering::Relaxed));
        let mut state = self.words.lock();
        state.loaded.clear();
        state.untouched.clear();
        state.untouched.resize(count, true);
        self.watches.store(count > 0, Ordering::Relaxed);
    }

    /// Watches nothing any more; returns the words that were loaded, in the order of their first
    /// loads.
    pub fn end(&self) -> Vec<usize> {
        self.watches.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.words.lock()).loaded
    }

    #[inline]
    pub fn load(&self, word: impl Fn() -> usize) {
        self.touch(word, true);
    }

    #[inline]
    pub fn store(&self, word: impl Fn() -> usize) {
        self.touch(word, false);
    }

    #[inline]
    fn touch(&self, word: impl Fn() -> usize, loads: bool) {
        if !self.watches.load(Ordering::Relaxed) {
            return;
        }
        let word = word();
        let (place, mask) = bit(word);
        if self.sieve[place].load(Ordering::Relaxed) & mask == 0 {
            return;
        }
        let mut state = self.words.lock();
        let untouched = state.untouched.get_mut(word).is_some_and(std::mem::take);
        if untouched && loads {
            state.loaded.push(word);
        }
    }
}
