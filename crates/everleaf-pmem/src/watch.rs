//! Which words are loaded before anything is stored to them.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Notes the first loads of some words. Costs one relaxed load an access while nothing is watched.
#[derive(Default)]
pub(crate) struct Watch {
    watches: AtomicBool,
    words: Mutex<Words>,
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
        for word in words {
            if state.untouched.len() <= word {
                state.untouched.resize(word + 1, false);
            }
            state.untouched[word] = true;
        }
        self.watches.store(!state.untouched.is_empty(), Ordering::Relaxed);
        *self.words.lock() = state;
    }

    /// Watches nothing any more; returns the words that were loaded, in the order of their first loads.
    pub fn end(&self) -> Vec<usize> {
        self.watches.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.words.lock()).loaded
    }

    pub fn load(&self, word: impl Fn() -> usize) {
        self.touch(word, true);
    }

    pub fn store(&self, word: impl Fn() -> usize) {
        self.touch(word, false);
    }

    fn touch(&self, word: impl Fn() -> usize, loads: bool) {
        if !self.watches.load(Ordering::Relaxed) {
            return;
        }
        let (word, mut state) = (word(), self.words.lock());
        let untouched = state.untouched.get_mut(word).is_some_and(std::mem::take);
        if untouched && loads {
            state.loaded.push(word);
        }
    }
}
