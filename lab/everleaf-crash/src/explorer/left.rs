//! What recoveries have left behind, durably: an operation may act on it.
//!
//! An operation after a recovery begins with memory that no operation of the program began with:
//! there is a log that was not retired, a half-written slot. So it is run there and crashed in,
//! once for each such memory that it can tell apart: two are alike if they agree in every word that
//! the operation has read in one of them, or a recovery from a crash in it, or the checks after
//! that. What a structure keeps in DRAM after a recovery is taken to follow from the memory that
//! the recovery has left.

use std::collections::HashMap;

use super::Explorer;
use crate::Subject;
use crate::known::Moment;
use crate::media::ReadSet;
use crate::undecided::UndecidedLine;

/// Words compared at a time.
const CHUNK: usize = 8;

/// So many different memories are gone on from after the same number of operations: each image is
/// compared with all of them.
const LIMIT: usize = 32;

/// A set of words.
#[derive(Clone, Default)]
struct Words(Vec<u64>);

impl Words {
    fn insert(&mut self, word: usize) {
        if self.0.len() <= word / 64 {
            self.0.resize(word / 64 + 1, 0);
        }
        self.0[word / 64] |= 1 << (word % 64);
    }

    fn contains(&self, word: usize) -> bool {
        self.0.get(word / 64).is_some_and(|words| words >> (word % 64) & 1 == 1)
    }
}

/// Memory that a recovery has left, and the words of it on which what follows depends.
pub(super) struct Left {
    image: Vec<u64>,
    read: Words,
    /// Words that the crash before the recovery has left in several ways: they count as read when
    /// they are loaded, whatever they hold.
    varying: Words,
}

impl Left {
    pub fn new(image: Vec<u64>, inherited: &[UndecidedLine]) -> Self {
        let mut varying = Words::default();
        inherited.iter().flat_map(UndecidedLine::words).for_each(|word| varying.insert(word));
        Self { image, read: Words::default(), varying }
    }

    /// Notes what was loaded in `image`, which a crash has left that came later. A word that holds
    /// something else there was stored since.
    pub fn note(&mut self, image: &[u64], loaded: &[usize]) {
        for word in loaded {
            let kept = self.image.get(*word).is_some_and(|left| image.get(*word) == Some(left));
            if kept || self.varying.contains(*word) {
                self.read.insert(*word);
            }
        }
    }

    /// Notes what was loaded of the memory itself, before anything was stored there.
    pub fn note_all(&mut self, loaded: &[usize]) {
        loaded.iter().for_each(|word| self.read.insert(*word));
    }

    /// Adds all words on which what follows depends.
    pub fn add_reads_to(&self, read: &mut ReadSet) {
        let words = self.read.0.iter().enumerate();
        let of = |(i, bits): (usize, &u64)| {
            (0..64)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(move |bit| i * 64 + bit)
                .collect::<Vec<_>>()
        };
        words.flat_map(of).for_each(|word| read.insert(word));
    }

    /// Whether what follows depends on this word.
    pub fn reads(&self, word: usize) -> bool {
        self.read.contains(word)
    }

    /// Whether what follows does the same where this was left.
    fn stands_for(&self, image: &[u64]) -> bool {
        let chunks = self.image.chunks(CHUNK).zip(image.chunks(CHUNK)).enumerate();
        let agrees = |(i, (ours, theirs)): (usize, (&[u64], &[u64]))| {
            ours == theirs
                || (0..ours.len()).all(|at| ours[at] == theirs[at] || !self.reads(i * CHUNK + at))
        };
        self.image.len() == image.len() && chunks.into_iter().all(agrees)
    }
}

/// By what the recovery has found: what was left and gone on from.
#[derive(Default)]
pub(super) struct Leftovers(HashMap<Moment, Vec<Left>>);

impl Leftovers {
    pub fn standing_for(&self, found: Moment, image: &[u64]) -> Option<&Left> {
        self.0.get(&found)?.iter().rev().find(|left| left.stands_for(image))
    }

    /// Whether there are so many that no further one is gone on from.
    pub fn are_many(&self, found: Moment) -> bool {
        self.0.get(&found).is_some_and(|left| left.len() >= LIMIT)
    }

    pub fn insert(&mut self, found: Moment, left: Left) {
        self.0.entry(found).or_default().push(left);
    }
}

impl<S: Subject> Explorer<'_, S> {
    /// Notes what was loaded, where it is asked what the operation after a recovery depends on.
    pub(super) fn note_loads(&mut self, image: &[u64], loaded: &[usize]) {
        if let Some(left) = &mut self.going_on_from {
            left.note(image, loaded);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stands_for_what_differs_only_where_nothing_is_read() {
        let mut left = Left::new((0..20).collect(), &[]);
        left.note(&(0..20).collect::<Vec<_>>(), &[3, 17]);
        let mut later: Vec<u64> = (0..20).collect();
        later[5] = 99;
        left.note(&later, &[5, 6]);
        let with = |word: usize| {
            let mut image: Vec<u64> = (0..20).collect();
            image[word] = 1000;
            image
        };
        assert!(left.stands_for(&with(5)), "it was stored before it was loaded");
        assert!(left.stands_for(&with(19)) && left.stands_for(&with(0)));
        for word in [3, 6, 17] {
            assert!(!left.stands_for(&with(word)), "{word}");
        }
        assert!(!left.stands_for(&[0; 8]), "less memory");
    }
}
