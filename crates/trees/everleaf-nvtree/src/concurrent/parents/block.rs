//! Blocks of the inner nodes that threads share: parents and roots.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::DramLine;

/// Words of a line.
pub(super) const WORDS: usize = 8;

/// A lower bound and its leaf; in the root the first bound of a parent and its block.
pub(super) type Entry = (u64, u64);

/// A block: a line with the number of entries, then keys, then words.
#[derive(Clone, Copy)]
pub(super) struct Block<'p> {
    pub count: usize,
    pub keys: &'p [DramLine],
    pub words: &'p [DramLine],
}

/// A word of some lines.
pub(super) fn cell(lines: &[DramLine], index: usize) -> &AtomicU64 {
    &lines[index / WORDS].0[index % WORDS]
}

impl<'p> Block<'p> {
    pub fn key(&self, index: usize) -> u64 {
        cell(self.keys, index).load(Relaxed)
    }

    pub fn word(&self, index: usize) -> &'p AtomicU64 {
        cell(self.words, index)
    }

    /// How many keys are at most `key`.
    #[inline(always)]
    pub fn up_to(&self, key: u64) -> usize {
        let lines = &self.keys[..self.count.div_ceil(WORDS)];
        let Some(last) =
            lines.partition_point(|line| line.0[0].load(Relaxed) <= key).checked_sub(1)
        else {
            return 0;
        };
        let (start, line) = (last * WORDS, &lines[last]);
        let here = line.0[..WORDS.min(self.count - start)].iter();
        start + here.map(|other| usize::from(other.load(Relaxed) <= key)).sum::<usize>()
    }

    pub fn entries(&self) -> Vec<Entry> {
        (0..self.count).map(|index| (self.key(index), self.word(index).load(Relaxed))).collect()
    }
}

/// Lines of a root over so many parents: the same of many numbers, so that what one leaves is of
/// use to the next.
pub(super) fn root_lines(parents: usize) -> u32 {
    1 + 2 * parents.div_ceil(WORDS).next_power_of_two() as u32
}
